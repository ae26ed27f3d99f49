import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'

/** Refuses pipes, devices and folders, since reading a pipe would wait for its writer. */
export const notRegular = (): NodeJS.ErrnoException =>
  Object.assign(new Error('not a regular file'), { code: 'not a regular file' })

export function readRegularNow(path: string): string {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!fstatSync(descriptor).isFile()) throw notRegular()
    return readFileSync(descriptor, 'utf8')
  } finally {
    closeSync(descriptor)
  }
}
