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

export function parseUnambiguous(text: string, mostDepth: number): unknown {
  const value = parseShallow(text, mostDepth)
  refuseRepeatedNames(text)
  return value
}

function refuseRepeatedNames(json: string): void {
  const open: Set<string>[] = []
  let last = ''
  for (const [token] of json.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}:]/g)) {
    if (token === '{') open.push(new Set())
    else if (token === '}') open.pop()
    else if (token !== ':') last = token
    else {
      const name = last.includes('\\') ? String(JSON.parse(last)) : last.slice(1, -1)
      if (open.at(-1)?.has(name)) throw new Error('an object names a member twice')
      open.at(-1)?.add(name)
    }
  }
}
