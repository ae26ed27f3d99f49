/** RFC 9110 5.1 and 5.5: a token, and what can neither end its line nor be mistaken for its end. */
const namePattern = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const valuePattern = /^[\t\x20-\x7e\x80-\xff]*$/

/** One line of a head; throws rather than write what would be two of them, or none. */
export function composeLine(name: string, value: string): string {
  // Apart: a line put together to be looked at would be copied for it.
  if (!namePattern.test(name) || !valuePattern.test(value)) throw new TypeError('not a header line')
  return `${name}: ${value}\r\n`
}
