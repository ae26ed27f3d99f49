import { isOneOf, readScalar, scanElements, scanMembers } from './scan-json.ts'
import { isWholeObject } from './whole-json.ts'

/** Ends that OpenAI's API documents. Others, such as `abort` and `error` of vLLM, tell of a failure or are unknown. */
const goodReasons = ['stop', 'length', 'tool_calls', 'content_filter', 'function_call']

/** OpenAI's API gives at most as many answers to one request. */
const mostChoices = 128

const nothingYet = ['']

const openBrace = 0x7b
const openBracket = 0x5b

/** Members of a choice that carry a piece of its answer; `text` is that of older completions. */
const contents: ReadonlySet<string> = new Set(['delta', 'message', 'text'])

/** Told once, since parsers take the last of several members with one name. */
const decisive: ReadonlySet<string> = new Set([...contents, 'choices', 'index', 'finish_reason'])

/**
 * Follows the choices of a chat completion, for backends that end a stream by them. Text that is not understood makes no
 * good end: it could be a failure.
 */
export class ChatChoices {
  readonly #finished: boolean[] = []
  #isBroken = false

  /** Whether each choice up to the highest index has ended as meant, with nothing of it behind its end. */
  get areFinished(): boolean {
    return !this.#isBroken && this.#finished.length > 0 && this.#finished.every(Boolean)
  }

  read(data: Buffer, eventName: string | undefined): void {
    if (this.#isBroken) return
    if (eventName === 'error' || !isWholeObject(data)) {
      this.#isBroken = true
      return
    }
    this.#scan(data, 0, (key, start, end) => {
      if (key === 'type' && isOneOf(['error'], data, start, end)) this.#isBroken = true
      // Usage comes with an empty list, and some backends send null there.
      else if (key === 'choices' && !isNull(data, start, end)) {
        if (data[start] !== openBracket) this.#isBroken = true
        let place = 0
        scanElements(data, start, (from) => this.#readChoice(data, from, place++))
      }
    })
  }

  #readChoice(data: Buffer, from: number, place: number): void {
    if (data[from] !== openBrace) this.#isBroken = true
    let index: unknown = place
    let reason: boolean | undefined
    let hasContent = false
    this.#scan(data, from, (key, start, end) => {
      if (key === 'index') index = readScalar(data, start, end)
      else if (key === 'finish_reason') reason = readReason(data, start, end)
      else if (contents.has(key)) hasContent ||= carriesContent(data, start, end)
    })
    if (typeof index !== 'number' || !Number.isSafeInteger(index) || index < 0 || index >= mostChoices) {
      this.#isBroken = true
      return
    }
    while (this.#finished.length <= index) this.#finished.push(false)
    if (reason === false || (hasContent && this.#finished[index])) this.#isBroken = true
    if (reason === true) this.#finished[index] = true
  }

  #scan(data: Buffer, from: number, take: (key: string, start: number, end: number) => void): void {
    const seen = new Set<string>()
    scanMembers(data, from, (key, start, end) => {
      const isRepeated = seen.has(key) && decisive.has(key)
      seen.add(key)
      if (isRepeated || (key === 'error' && !isNull(data, start, end))) this.#isBroken = true
      else take(key, start, end)
      return !this.#isBroken
    })
  }
}

/** Whether a choice ended as meant; undefined while it goes on. */
function readReason(data: Buffer, start: number, end: number): boolean | undefined {
  if (isNull(data, start, end) || isOneOf(nothingYet, data, start, end)) return undefined
  return isOneOf(goodReasons, data, start, end) === true
}

/** Some servers repeat the role, with empty content, in a chunk behind the end. */
function carriesContent(data: Buffer, start: number, end: number): boolean {
  if (isEmpty(data, start, end)) return false
  let isKnown = false
  let isFound = false
  scanMembers(data, start, (key, from, to) => {
    isKnown = true
    isFound ||= key !== 'role' && !isEmpty(data, from, to)
    return !isFound
  })
  return isFound || !isKnown
}

const empty: readonly string[] = ['null', '""', '[]', '{}']

// `null` is the longest of them.
const longestEmpty = 4

const isEmpty = (data: Buffer, start: number, end: number): boolean =>
  end - start <= longestEmpty && empty.includes(data.toString('latin1', start, end))

const isNull = (data: Buffer, start: number, end: number): boolean =>
  end - start === longestEmpty && data.toString('latin1', start, end) === 'null'
