// A program that starts a database, says where, and waits to be killed.
import { startPostgres } from '../../gateway/demo/postgres.ts'

const filesToRemove = process.argv.slice(2)
const database = await startPostgres({ filesToRemove })
process.stdout.write(`${JSON.stringify({ pid: database.pid(), url: database.url })}\n`)
