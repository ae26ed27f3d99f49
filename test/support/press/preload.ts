// The first thing in each process of `sallyport serve` that a test starts under a column of the drill.
import { column } from './column.ts'
import { type Parts, pressAccount, pressMemory, pressReads, pressWrites } from './pressures.ts'

/** The build has the same exports as the sources. */
const load = async (): Promise<Parts> => {
  const dist = new URL('../../../dist/gateway/http/', import.meta.url)
  const names = ['socket/read-turns.js', 'memory-budget.js', 'socket/batched-writer.js']
  return Object.assign({}, ...(await Promise.all(names.map((name) => import(new URL(name, dist).href)))))
}

if (column === 'reads') pressReads(await load())
if (column === 'memory') pressMemory(await load())
if (column === 'account') pressAccount(await load())
if (column === 'writes') pressWrites(await load())
