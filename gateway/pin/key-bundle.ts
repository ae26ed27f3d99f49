/** One key of a key file, with the lines of explanation before it (RFC 7468 section 5.2). */
export type KeyBlock = Readonly<{
  pem: string
  /** From when the key signs; 0, which is ever since, where nothing is said. */
  signsFromMs: number
  /** As it stands in the file, with the explanation: a file that is written anew keeps what people noted of a key. */
  text: string
}>

/** No dash occurs in Base64, so a block cannot run into the next. */
const pemBlock = /^-----BEGIN ([A-Z0-9 ]+)-----[^-]*-----END \1-----[^\S\n]*\n?/gm

/** What `openssl ecparam` writes before its key says nothing that the key does not. */
const parametersBlock = /^-----BEGIN EC PARAMETERS-----[^-]*-----END EC PARAMETERS-----/gm

const privateKeys = ['PRIVATE KEY', 'EC PRIVATE KEY']

/** Characters of a key file. */
const mostCharacters = 32_768

/** OpenSSL takes half a millisecond for each, while the event loop waits: 1 MiB of keys took 4.6 s. */
const mostKeys = 32

/** Splits a key file into its keys, at least one. Throws a sentence that never quotes the file. */
export function readKeyBundle(text: string): readonly KeyBlock[] {
  if (text.length > mostCharacters) throw new Error(`a key file holds at most ${mostCharacters} characters`)
  const blocks: KeyBlock[] = []
  let start = 0
  for (const { 0: pem, 1: label = '', index } of text.matchAll(pemBlock)) {
    if (label === 'EC PARAMETERS') continue
    if (blocks.length === mostKeys) throw new Error(`a key file holds at most ${mostKeys} keys; remove expired ones`)
    const place = `block ${blocks.length + 1}`
    if (!privateKeys.includes(label)) throw new Error(`${place} is no private key in PEM (PKCS #8)`)
    const signsFromMs = readExplanation(text.slice(start, index), place) ?? 0
    const end = index + pem.length
    blocks.push({ pem, signsFromMs, text: `${text.slice(start, end).trim()}\n` })
    start = end
  }
  const place = `block ${blocks.length + 1}`
  const dangling = readExplanation(text.slice(start), place)
  if (blocks.length === 0) throw new Error(`${place} is no private key in PEM (PKCS #8)`)
  if (dangling !== undefined) throw new Error('the last Signs-From stands before no key')
  return blocks
}

/** Anything may be noted outside of the blocks; only what looks as if it meant us is read, and then strictly. */
function readExplanation(text: string, place: string): number | undefined {
  if (text.replace(parametersBlock, '').includes('-----')) throw new Error(`${place} is not whole`)
  const [line, ...more] = text.match(/^[ \t]*signs[-_ ]?from[ \t]*[:=].*$/gim) ?? []
  if (more.length > 0) throw new Error(`${place} says more than once from when it signs`)
  return line === undefined ? undefined : readTime(line.trim(), place)
}

/** UTC alone, so that nobody has to think about which zone a replica is in. */
function readTime(line: string, place: string): number {
  const [, time = ''] = /^Signs-From: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z)$/.exec(line) ?? []
  const at = new Date(time)
  // Date rolls a 30th of February over into March; what was written must be what is meant.
  if (Number.isNaN(at.getTime()) || at.toISOString().slice(0, 10) !== time.slice(0, 10))
    throw new Error(`${place} must say from when it signs as "Signs-From: 2030-01-01T00:00:00.000Z", in UTC`)
  return at.getTime()
}

/** A key for a file, as `readKeyBundle` reads it. */
export const writeKeyBlock = (pem: string, signsFromMs: number): string =>
  `Signs-From: ${new Date(signsFromMs).toISOString()}\n${pem}`
