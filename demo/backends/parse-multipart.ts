export type PartReader = Readonly<{
  begin: (part: Readonly<{ name: string; filename: string | undefined }>) => void
  data: (bytes: Buffer) => void
}>

export type MultipartParser = Readonly<{ feed: (chunk: Buffer) => void; isComplete: () => boolean }>

const maxPartHeaderBytes = 16 * 1024

export function readBoundary(contentType: string | undefined): string | undefined {
  const [, quoted, plain] =
    /^multipart\/form-data\s*;.*?boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(contentType ?? '') ?? []
  return quoted ?? plain
}

/** A streaming parser that buffers only a part's header, or a tail that may begin a boundary. */
export function parseMultipart(boundary: string, reader: PartReader): MultipartParser {
  const delimiter = Buffer.from(`\r\n--${boundary}`)
  let pending = Buffer.from('\r\n')
  let state: 'preamble' | 'boundary' | 'header' | 'content' | 'end' = 'preamble'

  function passContent(): boolean {
    const at = pending.indexOf(delimiter)
    const ready = at < 0 ? pending.length - delimiter.length + 1 : at
    if (state === 'content' && ready > 0) reader.data(pending.subarray(0, ready))
    if (at < 0) {
      pending = pending.subarray(Math.max(0, ready))
      return false
    }
    pending = pending.subarray(at + delimiter.length)
    state = 'boundary'
    return true
  }

  function passBoundary(): boolean {
    if (pending.length < 2) return false
    state = pending.subarray(0, 2).toString('latin1') === '--' ? 'end' : 'header'
    return true
  }

  function passHeader(): boolean {
    const at = pending.indexOf('\r\n\r\n')
    if (at < 0) {
      if (pending.length > maxPartHeaderBytes) state = 'preamble'
      return state === 'preamble'
    }
    reader.begin(readDisposition(pending.subarray(0, at).toString('utf8')))
    pending = pending.subarray(at + 4)
    state = 'content'
    return true
  }

  function advance(): boolean {
    switch (state) {
      case 'preamble':
      case 'content':
        return passContent()
      case 'boundary':
        return passBoundary()
      case 'header':
        return passHeader()
      case 'end':
        pending = Buffer.alloc(0)
        return false
    }
  }

  function feed(chunk: Buffer): void {
    pending = Buffer.concat([pending, chunk])
    while (advance());
  }

  return { feed, isComplete: () => state === 'end' }
}

function readDisposition(header: string): Readonly<{ name: string; filename: string | undefined }> {
  const [line = ''] = /^content-disposition:.*$/im.exec(header) ?? []
  return { name: readParameter(line, 'name') ?? '', filename: readParameter(line, 'filename') }
}

function readParameter(line: string, name: string): string | undefined {
  const [, quoted, plain] = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^;\\s]+))`, 'i').exec(line) ?? []
  return quoted?.replace(/\\(.)/g, '$1') ?? plain
}
