import { appendFileSync } from 'node:fs'

/** The pressures on each gateway of a test process, beside the attack of the test itself. */
export const columns = ['reads', 'memory', 'account', 'writes', 'workers', 'tls'] as const
export type Column = (typeof columns)[number]

/** Set by `npm run drill -- defences` alone. */
export const column = columns.find((name) => name === process.env.DEFENCES_COLUMN)

const evidence = process.env.DEFENCES_EVIDENCE
/** One write to the file for what happens meanwhile. */
const gatherMs = 20
let noted = 0

function tell(): void {
  if (evidence !== undefined) appendFileSync(evidence, `${noted}\n`)
  noted = 0
}

/** Counts for the drill that the pressure was at work. */
export function note(): void {
  noted += 1
  if (noted === 1) setTimeout(tell, gatherMs).unref()
}

/** A gateway that ends may have more to tell. */
process.on('exit', () => {
  if (noted > 0) tell()
})
