import { createHash, randomUUID } from 'node:crypto'

export type FileObject = Readonly<{
  id: string
  object: 'file'
  bytes: number
  created_at: number
  filename: string
  purpose: string
  status: 'processed'
}>

export type KeptFile = Readonly<{ file: FileObject; head: Buffer; sha256: string }>

export type FileShelf = Readonly<{
  add: (
    upload: Readonly<{ filename: string; purpose: string; bytes: number; head: Buffer; sha256: string }>,
  ) => FileObject
  find: (id: string) => KeptFile | undefined
  list: () => FileObject[]
  remove: (id: string) => boolean
}>

const maxFiles = 200

export function openShelf(now: () => number): FileShelf {
  const kept = new Map<string, KeptFile>()

  const add: FileShelf['add'] = ({ filename, purpose, bytes, head, sha256 }) => {
    const id = `file-${randomUUID().replaceAll('-', '')}`
    const created_at = Math.floor(now() / 1000)
    const file: FileObject = { id, object: 'file', bytes, created_at, filename, purpose, status: 'processed' }
    kept.set(id, { file, head, sha256 })
    for (const oldest of kept.keys()) {
      if (kept.size <= maxFiles) break
      kept.delete(oldest)
    }
    return file
  }

  const welcome = Buffer.from('Hello from the demo Files API.\n')
  const sha256 = createHash('sha256').update(welcome).digest('hex')
  add({ filename: 'welcome.txt', purpose: 'user_data', bytes: welcome.length, head: welcome, sha256 })

  return {
    add,
    find: (id) => kept.get(id) ?? describeZeros(id, now),
    list: () => Array.from(kept.values(), ({ file }) => file),
    remove: (id) => kept.delete(id),
  }
}

export function isZeros(id: string): boolean {
  return /^file-zeros-\d{1,15}$/.test(id)
}

function describeZeros(id: string, now: () => number): KeptFile | undefined {
  if (!isZeros(id)) return undefined
  const bytes = Number(id.slice('file-zeros-'.length))
  const created_at = Math.floor(now() / 1000)
  const file: FileObject = {
    id,
    object: 'file',
    bytes,
    created_at,
    filename: id,
    purpose: 'user_data',
    status: 'processed',
  }
  return { file, head: Buffer.alloc(0), sha256: '' }
}
