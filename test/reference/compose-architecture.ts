import { implementers, leaves, owners, rooms, starters, wiring } from '../import-rights.ts'
import { pathOf } from '../support/sources.ts'
import { code, composeHead, composeTable } from './markdown.ts'

const { floors }: Readonly<{ floors: readonly (readonly string[])[] }> = await import(
  new URL('../../scripts/measure-house.js', import.meta.url).href
)

/** The task of each folder of gateway/, in the order of the page. */
const purposes: Readonly<Record<string, readonly (readonly [room: string, purpose: string])[]>> = {
  'The way of a request, in order': [
    ['pipeline.ts', 'calls the stages, one after the other'],
    ['receive', 'reads target, headers and client, strictly and once'],
    ['route', 'finds the route'],
    ['authenticate', 'makes a principal of the credential'],
    ['resolve', 'finds the organization in force and the guarded resource'],
    ['authorize', 'decides, and issues the permit; pure'],
    ['consult', 'asks the outside decision points of a route, last of all checks'],
    ['limit', 'counts requests against budgets'],
    ['endpoints', 'answers the endpoints that the gateway owns'],
    ['locate', 'finds the upstream, and judges the state of a cluster'],
    ['pin', 'signs the identity header'],
    ['forward', 'sends the request, balances load, checks health'],
    ['recheck', 'judges open exchanges again, and ends those whose rights ended'],
    ['relay', 'passes the response on, and closes broken event streams'],
    ['decision', 'serves the decision listener, for external authorization'],
    ['signals', 'serves issuers and transmitters, which tell of logouts'],
  ],
  'The base on which the way stands': [
    ['errors', 'holds the catalogue of codes, and the one renderer of shapes'],
    ['fault', 'guards callbacks, and ends the process'],
    ['lib', 'holds small data structures and schedulers'],
    ['network', 'judges addresses'],
    ['policy', 'loads, checks and compiles policies'],
    ['rights', 'has a change of rights felt within a second: its times, its waiting room, answers of outsiders'],
    ['directory', 'knows users, organizations, tokens, agents and clusters'],
    ['http', 'is the HTTP/1.1 engine: TCP, TLS and llhttp on both sides'],
    ['observe', 'writes log, metrics, audit and traces'],
    ['admin', 'serves health, metrics, keys and the console to operators'],
    ['console', 'makes the pages of the console'],
  ],
  'Configuration, reload, start and commands': [
    ['configuration', 'reads the configuration file'],
    ['analyze', 'answers questions about a policy'],
    ['reload', 'follows files that change'],
    ['boot', 'wires one gateway'],
    ['workers', 'keeps several processes'],
    ['cli', 'holds the commands'],
    ['provision', 'holds the commands that write users, organizations, tokens and clusters'],
    ['demo', 'runs the demo; the package leaves it out'],
    ['main.ts', 'starts the command line'],
  ],
}

const introduction = `The folders of \`gateway/\`, and \`console/\` and \`demo/\` beside it, are the way of one request, and its base. Read \`gateway/pipeline.ts\` first: it calls the
stages in order, and that order is the order of refusals. Then read only the stage that you need.

- [The life of a request](life-of-a-request.md) explains each stage.
- [Walks through the code](walks.md) lists the files through which a request, a token, an event, a policy line or a revocation passes.
- [Decisions](decisions/README.md) and [Parts](parts.md) give the reasons.
- [Glossary](glossary.md) explains the words that Sallyport uses in a sense of its own.

A permit ties the way together. Only \`stages/authorize/decide.ts\` makes permits, and \`locate\`, \`pin\` and \`forward\` demand one.`

const describeList = (names: readonly string[]): string => names.map(code).join(', ')

const composeFolders = (): string =>
  Object.entries(purposes)
    .map(([title, list]) => `### ${title}\n\n${composeTable(['Folder', 'Task'], list.map(describeRoom))}`)
    .join('\n')

const describeRoom = ([room, purpose]: readonly [string, string]): readonly string[] => [
  code(room.endsWith('.ts') ? room : `${pathOf(room)}/`),
  purpose,
]

const composeFloors = (): string => `## Floors

A folder imports from its own floor and from lower ones, never from a higher one. The lowest floor has number 1.

${composeTable(
  ['Floor', 'Folders'],
  floors.map((names, index) => [String(index + 1), describeList(names)]),
)}`

const composeImports = (): string => `## Imports

Each folder may import the folders of its line, and the leaves: ${describeList(leaves)}. Of \`directory\` and \`http\` a folder
sees the interface alone, except ${describeList([...wiring, ...implementers])}. \`pipeline.ts\` and \`decision\` put the stages together, and may
import every stage. ${describeList(wiring)} may import all but the folders that start them. Only ${describeList(starters)} may import \`boot\`.

${composeTable(
  ['Folder', 'May import'],
  Object.entries(rooms)
    .filter(([room]) => !leaves.includes(room))
    .map(([room, targets]) => [code(room), targets.length > 0 ? describeList(targets) : 'the leaves alone']),
)}
\`authorize/\` is pure: it imports no package and no module of Node, waits for nothing, and reads no clock. Only \`http/\` imports
the network modules of Node. Only \`base/errors/render.ts\` knows the shapes of errors. Past \`receive/\` no stage reads the raw target.
`

const composeOwners = (): string => `## Packages

Each package belongs to few folders, so that it can be replaced there.

${composeTable(
  ['Package', 'Folders'],
  Object.entries(owners).map(([name, folders]) => [code(name), describeList(folders)]),
)}`

/** The page of folders, floors and rights to import. */
export function composeArchitecture(): string {
  const described = Object.values(purposes).flatMap((list) => list.map(([room]) => room))
  const known = floors.flat()
  const missing = [
    ...known.filter((room) => !described.includes(room)),
    ...described.filter((room) => !known.includes(room)),
  ]
  if (missing.length > 0) throw new Error(`compose-architecture.ts and the floors disagree about ${missing.join(', ')}`)
  return [
    composeHead('Architecture', introduction),
    '## Folders\n',
    composeFolders(),
    composeFloors(),
    composeImports(),
    composeOwners(),
  ].join('\n')
}
