import { type FileHandle, open, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Replaces a secret file atomically: a reader finds the old or the new text, even after a power cut. The new file
 * beside it, created first, keeps a second writer out. If `change` rejects, the old file stays.
 */
export async function replaceFile<Change extends Readonly<{ text: string }>>(
  path: string,
  change: (old: string) => Promise<Change>,
): Promise<Change> {
  const target = await realpath(path)
  const beside = `${target}.new`
  const file = await openExclusively(beside)
  try {
    const changed = await change(await readFile(target, 'utf8'))
    await keepReaders(file, target)
    await file.writeFile(changed.text)
    await file.sync()
    await rename(beside, target)
    await syncDirectory(dirname(target))
    return changed
  } catch (error) {
    await rm(beside, { force: true })
    throw error
  } finally {
    await file.close()
  }
}

async function openExclusively(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'wx', 0o600)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new Error(`${path} exists: another change is under way. If it is not, remove that file.`)
  }
}

/**
 * Users who could read the old file, except through world rights, can read the new one: the gateway may run as another
 * user.
 */
async function keepReaders(file: FileHandle, old: string): Promise<void> {
  const [before, now] = [await stat(old), await file.stat()]
  if (before.uid !== now.uid || before.gid !== now.gid) await file.chown(before.uid, before.gid)
  await file.chmod(0o600 | (before.mode & 0o040))
}

/** A rename is durable once its directory is synced. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
