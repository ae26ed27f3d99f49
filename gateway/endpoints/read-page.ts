import type { ValidationMessage } from '../errors/gateway-error.ts'
import { invalid } from './read-body.ts'

export type PageRequest = Readonly<{ page: number; perPage: number }>

const largestPage = 1_000_000

/** `page` from 1 and `perPage` from 1 to 100, 20 by default; other values are 422 (SPEC section 6). */
export function readPage(search: string): PageRequest {
  const messages: ValidationMessage[] = []
  const read = (field: string, fallback: number, largest: number): number => {
    const values = listValues(search, field)
    const [text] = values
    if (text === undefined) return fallback
    if (values.length > 1 || !/^-?\d{1,15}$/.test(text)) {
      messages.push({ field, rule: 'type', message: `${field} must be one integer.` })
      return fallback
    }
    const value = Number(text)
    if (value < 1) messages.push({ field, rule: 'min', message: `${field} must be at least 1.` })
    if (value > largest) messages.push({ field, rule: 'max', message: `${field} must be at most ${largest}.` })
    return value
  }
  const page = { page: read('page', 1, largestPage), perPage: read('perPage', 20, 100) }
  if (messages.length > 0) throw invalid(messages)
  return page
}

/** As they are written: digits need no escapes, and Node 24's `URLSearchParams` takes quadratic time for `&a &a &a …`. */
const listValues = (search: string, field: string): readonly string[] =>
  search
    .replace(/^\?/, '')
    .split('&')
    .filter((part) => part === field || part.startsWith(`${field}=`))
    .map((part) => part.slice(field.length + 1))
