import { styleText } from 'node:util'

/** Color for a terminal alone. NO_COLOR forbids it, and FORCE_COLOR asks for it anywhere. */
export const paintError = (text: string, stream: NodeJS.WriteStream = process.stderr): string =>
  styleText('red', text, { stream })

export const paintWarning = (text: string, stream: NodeJS.WriteStream = process.stderr): string =>
  styleText('yellow', text, { stream })
