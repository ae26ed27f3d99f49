import { constants, type Stats } from 'node:fs'
import { chmod, copyFile, lstat, mkdir, readdir, readlink, rename, rm, symlink } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { lookUp } from './postgres-account.ts'

type Entry = Readonly<{ path: string; kind: 'folder' | 'file' | 'link'; size: number }>

export async function copyBinaries(native: string, sharedName: string, privateFolder: string): Promise<string> {
  const shared = `${sharedName}-${ownUserId()}`
  const entries = await listEntries(native)
  if (await isTrustedCopy(shared, entries)) return join(shared, 'native')

  await createFolder(privateFolder)
  await copyEntries(native, join(privateFolder, 'native'), entries)
  return (await publish(privateFolder, shared, entries)) ? join(shared, 'native') : join(privateFolder, 'native')
}

async function publish(privateFolder: string, shared: string, entries: readonly Entry[]): Promise<boolean> {
  const found = await lookUp(shared)
  if (found !== undefined && !isOurs(found)) return false
  if (await isTrustedCopy(shared, entries)) return true
  await rm(shared, { recursive: true, force: true })
  try {
    // The rename completes the copy; only one of several concurrent starts wins it.
    await rename(privateFolder, shared)
    return true
  } catch (cause) {
    if (await isTrustedCopy(shared, entries)) return true
    throw cause
  }
}

// Any user can plant names in the system's temporary directory, and cleaners remove old files.
async function isTrustedCopy(shared: string, entries: readonly Entry[]): Promise<boolean> {
  const folder = await lookUp(shared)
  if (folder === undefined || !isOurs(folder)) return false
  for (const entry of entries) {
    const found = await lookUp(join(shared, 'native', entry.path))
    if (found === undefined || (entry.kind === 'file' && found.size !== entry.size)) return false
  }
  return true
}

function isOurs(folder: Stats): boolean {
  return folder.isDirectory() && folder.uid === ownUserId() && (folder.mode & 0o022) === 0
}

async function listEntries(native: string): Promise<readonly Entry[]> {
  const found = await readdir(native, { recursive: true, withFileTypes: true })
  const wanted = found.filter((entry) => !entry.name.endsWith('.a'))
  const entries = await Promise.all(
    wanted.map(async (entry) => {
      const path = join(entry.parentPath, entry.name)
      const kind = entry.isDirectory() ? 'folder' : entry.isSymbolicLink() ? 'link' : 'file'
      return { path: relative(native, path), kind, size: kind === 'file' ? (await lstat(path)).size : 0 } as const
    }),
  )
  return entries.sort((one, other) => (one.path < other.path ? -1 : 1))
}

async function copyEntries(native: string, target: string, entries: readonly Entry[]): Promise<void> {
  await createFolder(target)
  for (const { path, kind } of entries) {
    const copy = join(target, path)
    if (kind === 'folder') await createFolder(copy)
    else if (kind === 'link') await symlink(await readlink(join(native, path)), copy)
    else await copyFile(join(native, path), copy, constants.COPYFILE_FICLONE)
    if (kind === 'file') await chmod(copy, 0o755)
  }
}

// Independent of the umask: the account must enter, and no other user may write.
async function createFolder(path: string): Promise<void> {
  await mkdir(path)
  await chmod(path, 0o755)
}

function ownUserId(): number {
  return process.getuid?.() ?? 0
}
