// `npm run house` prints figures of the source tree; `npm run house -- --help` names them.
import { measureHouse } from './measure-house.js'

const help = `Usage: npm run house [-- --json]

Prints figures of gateway/, console/ and demo/: sizes and small files with one importer.
Then cycles, arrows that run upward between folders, exported type names that two files
share, and long functions.
Then files over 100 lines without a comment, and the share of comments.
Then files that time, hear or wait beside rights/, where a change of rights has its home.
Then files of test/support, pages of docs/, decisions among them, and words of
SECURITY.md. SQL counts by lines.

Options:
  --json      one object, with the names behind each figure
  -h, --help  this text

Example:
  $ npm run --silent house -- --json | jq .cycles`

const words = process.argv.slice(2)
const unknown = words.find((word) => !['--json', '--help', '-h'].includes(word))
if (unknown !== undefined) {
  console.error(`house: unknown option ${unknown}\n\n${help}`)
  process.exit(2)
}
if (words.some((word) => word !== '--json')) console.log(help)
else {
  const house = measureHouse()
  console.log(words.length > 0 ? JSON.stringify(house, null, 2) : describe(house))
}

function describe(house) {
  const rows = [
    ['files', house.files],
    ['lines', house.lines],
    ['median of lines', house.median],
    ['files under 40 lines with one importer', house.smallFiles.length],
    ['cycles between files', house.cycles.length],
    ['arrows upward between folders', house.upwardArrows.length],
    ['largest folder', `${house.largestFolder.name}, ${(house.largestFolder.share * 100).toFixed(1)} % of files`],
    ['type names exported twice', house.duplicateNames.length],
    ['functions over 60 lines', house.longFunctions.length],
    ['files of test/support', house.supportFiles],
    ['files over 100 lines without a comment', house.uncommentedFiles.length],
    ['share of comments', `${(house.commentShare * 100).toFixed(1)} % of lines`],
    ['constants of the second outside rights/', house.timeConstants.length],
    ['files that count what was heard', house.heardAnswers.length],
    ['lines of bounded length, to wait in', house.waitingRooms.length],
    ['pages of docs/', house.documentPages],
    ['words of SECURITY.md', house.securityWords],
    ['lines of SQL', house.sqlLines],
    ['entries of gateway/', house.entries.length],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  const figures = rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`)
  const named = [
    ...house.cycles.map((files) => `cycle: ${files.join(', ')}`),
    ...house.upwardArrows.map((arrow) => `upward: ${arrow}`),
    ...house.timeConstants.map((name) => `time: ${name}`),
    ...house.heardAnswers.map((file) => `heard: ${file}`),
    ...house.waitingRooms.map((file) => `waiting: ${file}`),
    ...house.duplicateNames.map(({ name, files }) => `${name}: ${files.join(', ')}`),
    ...house.uncommentedFiles.map((file) => `without a comment: ${file}`),
    ...house.longFunctions.map(({ name, file, line, lines }) => `${file}:${line} ${name}: ${lines} lines`),
  ]
  return [...figures, ...(named.length > 0 ? ['', ...named] : [])].join('\n')
}
