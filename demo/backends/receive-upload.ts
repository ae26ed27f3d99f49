import { createHash } from 'node:crypto'
import type { FileObject, FileShelf } from './keep-files.ts'
import { parseMultipart, readBoundary } from './parse-multipart.ts'
import type { BackendRequest } from './serve-backend.ts'

const maxKeptBytes = 1024 * 1024
const maxFieldCharacters = 1024

export async function receiveUpload(
  { request, body }: BackendRequest,
  shelf: FileShelf,
): Promise<FileObject | 'no-form' | 'no-file' | 'cut'> {
  const boundary = readBoundary(request.headers['content-type'])
  const form = boundary === undefined ? undefined : readForm(boundary)
  if (form !== undefined) body.tap(form.feed)
  if (!(await body.arrived)) return 'cut'
  if (form === undefined || !form.isComplete()) return 'no-form'
  const upload = form.finish()
  return upload === undefined ? 'no-file' : shelf.add(upload)
}

function readForm(boundary: string) {
  const fields = new Map<string, string>()
  const hash = createHash('sha256')
  const head: Buffer[] = []
  let bytes = 0
  let filename: string | undefined
  let part = ''

  function keepFile(chunk: Buffer): void {
    hash.update(chunk)
    if (bytes < maxKeptBytes) head.push(Buffer.from(chunk.subarray(0, maxKeptBytes - bytes)))
    bytes += chunk.length
  }

  function keepField(chunk: Buffer): void {
    const text = (fields.get(part) ?? '') + chunk.toString('utf8')
    fields.set(part, text.slice(0, maxFieldCharacters))
  }

  const parser = parseMultipart(boundary, {
    begin: (begun) => {
      part = begun.name
      if (part === 'file') filename = begun.filename ?? 'upload'
    },
    data: (chunk) => (part === 'file' ? keepFile(chunk) : keepField(chunk)),
  })

  function finish() {
    if (filename === undefined) return undefined
    const purpose = fields.get('purpose') ?? 'user_data'
    return { filename, purpose, bytes, head: Buffer.concat(head), sha256: hash.digest('hex') }
  }

  return { ...parser, finish }
}
