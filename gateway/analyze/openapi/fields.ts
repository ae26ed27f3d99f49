export type Fields = Readonly<Record<string, unknown>>

/** The object that a value of a description is; anything else has no keys. */
export const asFields = (value: unknown): Fields =>
  // Every object has keys, and of what they hold nothing is believed.
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
