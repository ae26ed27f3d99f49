import { UsageError } from '../../../configuration/failure.ts'

export type FormatOptions = Readonly<{ format: string; json?: boolean }>

export function chooseFormat<Format extends string>(
  { format, json }: FormatOptions,
  formats: readonly ('json' | Format)[],
): 'json' | Format {
  if (json) return 'json'
  const chosen = formats.find((name) => name === format)
  if (chosen === undefined) throw new UsageError(`the format "${format}" is unknown; use one of ${formats.join(', ')}`)
  return chosen
}
