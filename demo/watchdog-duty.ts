export type WatchdogDuty = Readonly<{ directory: string; data: string; files: readonly string[] }>

/** An owner that has cleaned up writes this before it closes the pipe. */
export const wordOfRelease = 'released'

export function parseDuty(text: string | undefined): WatchdogDuty {
  const value: unknown = JSON.parse(text ?? 'null')
  if (!isDuty(value)) throw new TypeError('usage: watchdog {"directory","data","files"}')
  return value
}

function isDuty(value: unknown): value is WatchdogDuty {
  if (typeof value !== 'object' || value === null) return false
  if (!('directory' in value && 'data' in value && 'files' in value)) return false
  const { directory, data, files } = value
  return isText(directory) && isText(data) && Array.isArray(files) && files.every(isText)
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}
