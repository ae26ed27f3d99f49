/** Parses JSON of at most this many levels; a deeper text costs no more than a look at its brackets. */
export function parseShallow(text: string, mostDepth: number): unknown {
  let depth = 0
  let isInString = false
  for (let index = 0; index < text.length; index++) {
    const character = text[index]
    if (character === '"') isInString = !isInString
    else if (isInString) index += character === '\\' ? 1 : 0
    else if (character === '[' || character === '{') depth += 1
    else if (character === ']' || character === '}') depth -= 1
    if (depth > mostDepth) throw new Error(`the text is nested more than ${mostDepth} levels deep`)
  }
  return JSON.parse(text)
}
