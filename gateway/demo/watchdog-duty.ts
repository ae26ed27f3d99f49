/** What a watchdog removes when its owner has crashed: the server of `data`, the directory around it, and files. */
export type WatchdogDuty = Readonly<{ directory: string; data: string; files: readonly string[] }>

/** What an owner that cleaned up by itself says before it closes the pipe. */
export const wordOfRelease = 'released'

/** The duty on a watchdog's command line; anything else is refused, for it decides what gets deleted. */
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
