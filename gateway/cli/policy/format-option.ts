import { UsageError } from '../../configuration/failure.ts'

export type FormatOptions = Readonly<{ format: string; json?: boolean }>

/** The format that was asked for; `--json` is short for one of them. */
export function chooseFormat<Format extends string>(
  { format, json }: FormatOptions,
  formats: readonly ('json' | Format)[],
): 'json' | Format {
  if (json) return 'json'
  const chosen = formats.find((name) => name === format)
  if (chosen === undefined) throw new UsageError(`the format "${format}" is none of ${formats.join(', ')}`)
  return chosen
}
