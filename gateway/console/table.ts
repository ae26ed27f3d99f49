import type { ExplainChoices, Explained, ExplainQuestion } from './explain.ts'
import type { MatrixLine } from './matrix.ts'

/** What the page shows of the table in force. */
export type ConsoleTable = Readonly<{
  lines: readonly MatrixLine[]
  /** The upstream of each route that has one, by the route's id. */
  destinations: ReadonlyMap<string, string>
  choices: ExplainChoices
  explain: (question: ExplainQuestion) => Explained
}>

/** Before any process has told its table. */
export const noTable: ConsoleTable = {
  lines: [],
  destinations: new Map(),
  choices: { methods: [], roles: [], platformRoles: [], tokenScopes: [] },
  explain: () => 'No process tells its table at the moment.',
}
