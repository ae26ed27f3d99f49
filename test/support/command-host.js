// Runs commands of the program one after another, as its parent asks: a process that starts for one command spends most of
// its time in loading modules. A command sees its own words, folder, variables, input and output.
import { Readable, Writable } from 'node:stream'
import { pathToFileURL } from 'node:url'

const exit = process.exit
const ended = Symbol('ended')
let count = 0

process.on('disconnect', () => exit())
process.on('message', async ({ program, args, cwd, env, input }) => {
  count += 1
  process.chdir(cwd)
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, env)
  process.argv.splice(1, process.argv.length, program, ...args)
  setStream('stdin', Readable.from([Buffer.from(input)]))
  const [stdout, stderr] = [collect(), collect()]
  setStream('stdout', stdout.stream)
  setStream('stderr', stderr.stream)
  process.exitCode = undefined
  const code = await runToEnd(`${pathToFileURL(program)}?command=${count}`, [stdout, stderr])
  process.exitCode = undefined
  // A process that exits takes its connections along; this one must not give them to the next command.
  process.send({ code, stdout: stdout.text(), stderr: stderr.text(), isSpent: !(await isIdleSoon()) })
})

const setStream = (name, value) => Object.defineProperty(process, name, { value, configurable: true })

function collect() {
  const chunks = []
  let isOver = false
  const stream = new Writable({
    write(chunk, _encoding, done) {
      if (!isOver) chunks.push(chunk)
      done()
    },
  })
  const end = () => {
    isOver = true
  }
  return { stream, end, text: () => Buffer.concat(chunks).toString() }
}

/** Resolves to the exit code. No code runs after an exit, but here some may, and what it prints does not count. */
async function runToEnd(url, outputs) {
  const exited = new Promise((resolve) => {
    process.exit = (code = process.exitCode ?? 0) => {
      for (const { end } of outputs) end()
      resolve(Number(code))
      throw ended
    }
  })
  const finished = import(url).then(
    async () => {
      await untilIdle()
      return process.exitCode ?? 0
    },
    (error) => {
      if (error === ended) return exited
      throw error
    },
  )
  return Promise.race([exited, finished])
}

/** A process ends by itself once nothing keeps it, which here is the channel to its parent. */
async function untilIdle() {
  while (!isIdle()) await new Promise((resolve) => setTimeout(resolve, 1))
}

async function isIdleSoon() {
  for (let turns = 0; turns < 50 && !isIdle(); turns++) await new Promise((resolve) => setTimeout(resolve, 1))
  return isIdle()
}

const isIdle = () => process.getActiveResourcesInfo().every((kind) => ['PipeWrap', 'Immediate'].includes(kind))
