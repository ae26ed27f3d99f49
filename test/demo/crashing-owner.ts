// A program that starts a database, prints its address, and waits until the test kills it.
import { startPostgres } from '../../demo/postgres.ts'

const filesToRemove = process.argv.slice(2)
const database = await startPostgres({ filesToRemove })
process.stdout.write(`${JSON.stringify({ pid: database.pid(), url: database.url })}\n`)
