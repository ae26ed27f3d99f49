/** As RFC 6265 5.2 and RFC 9110 5.6.3: any other space makes another name to browsers and caches. */
export function trimBlanks(text: string): string {
  let start = 0
  let end = text.length
  while (start < end && isBlank(text[start])) start += 1
  while (end > start && isBlank(text[end - 1])) end -= 1
  return text.slice(start, end)
}

const isBlank = (character: string | undefined): boolean => character === ' ' || character === '\t'
