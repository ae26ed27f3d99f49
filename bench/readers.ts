// The cost of the longest hostile text for each reader of foreign bytes: `npm run bench:readers -- --help`.
import { Command, InvalidArgumentError } from 'commander'
import { measureSlowest } from '../test/advisories/measure-growth.ts'
import { composeTexts } from '../test/support/hostile-texts.ts'
import { readers } from '../test/support/readers.ts'
import { renderTable } from './statistics.ts'

const { mixtures, only } = new Command('bench:readers')
  .description('Measure the processor time of each reader of foreign bytes, with the text that costs it most.')
  .option('--mixtures <n>', 'generated mixtures, beside repeated and nested units', parseCount, 20)
  .option('--only <pattern>', 'readers whose name this regular expression finds', '')
  .addHelpText(
    'after',
    '\nExample:\n  $ npm run --silent bench:readers -- --only cookie\n\nExits 1 where one takes more than 5 ms for 64 KiB.',
  )
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Readonly<{ mixtures: number; only: string }>>()

const mostMs = 5
const unit = 65_536
const texts = composeTexts(Math.random, { mixtures })
const measured = readers
  .filter(({ name, isOfFiles }) => !isOfFiles && new RegExp(only).test(name))
  .map((reader) => {
    const { ms, text } = measureSlowest(reader, texts)
    // A reader of less than 64 KiB never takes 64 KiB's time.
    return { reader, ms, text, scaledMs: (ms * unit) / Math.max(unit, reader.largest) }
  })
  .sort((left, right) => right.scaledMs - left.scaledMs)

console.log(
  renderTable([
    ['reader', 'largest KiB', 'ms', 'ms for 64 KiB', 'text'],
    ...measured.map(({ reader, ms, scaledMs, text }) => [
      reader.name,
      (reader.largest / 1_024).toFixed(0),
      ms.toFixed(2),
      scaledMs.toFixed(2),
      text,
    ]),
  ]),
)
const slow = measured.filter(({ scaledMs }) => scaledMs > mostMs).length
console.log(`\n${measured.length - slow} of ${measured.length} readers take at most ${mostMs} ms for 64 KiB`)
if (slow > 0) process.exitCode = 1

function parseCount(text: string): number {
  const count = Number(text)
  if (Number.isInteger(count) && count > 0) return count
  throw new InvalidArgumentError('It must be a whole number above 0.')
}
