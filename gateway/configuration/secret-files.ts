import { statSync } from 'node:fs'
import type { Log } from '../observe/log/log.ts'

type Access = Readonly<{ mode: number; uid: number }>

/**
 * Whether other users may read a secret file. A group may read a file that the gateway does not own: a mounted Secret
 * belongs to root, and the gateway reads it by its group. PostgreSQL has the same rule for `ssl_key_file`.
 */
export const isOpenToOthers = ({ mode, uid }: Access, ownUid: number): boolean =>
  (mode & (uid === ownUid ? 0o044 : 0o004)) !== 0

export function warnOfOpenSecrets(files: readonly string[], log: Log): void {
  const ownUid = process.getuid?.()
  if (ownUid === undefined) return
  for (const file of files) {
    const access = statSync(file, { throwIfNoEntry: false })
    if (access && isOpenToOthers(access, ownUid))
      log.warn({ file, mode: (access.mode & 0o777).toString(8).padStart(4, '0') }, 'secret file readable by others')
  }
}
