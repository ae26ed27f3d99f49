import t from 'tap'
import { isWholeObject } from '../../../gateway/stages/relay/whole-json.ts'
import { drawNumbers } from '../../support/event-streams.ts'

const isObject = (json: string): boolean => {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}

const whole = [
  '{}',
  ' {"a" : [ ] , "b":{ } }\r\n',
  '{"type":"response.completed","n":[-0,1.5e-3,10E+2,true,false,null],"s":"\\u00e4\\"\\\\\\/\\n"}',
  '{"a":[[[{"b":[{},[],"",{"c":{}}]}]]],"a":1}',
]

t.test('an object is whole where JSON.parse takes it, and at no cut of it', async (t) => {
  for (const text of whole) {
    t.equal(isWholeObject(Buffer.from(text)), true, text)
    for (let cut = 0; cut < text.trimEnd().length; cut += 1)
      if (isWholeObject(Buffer.from(text.slice(0, cut)))) t.fail(`cut at ${cut} of ${text}`)
  }
})

t.test('it agrees with JSON.parse on 50,000 broken texts', async (t) => {
  const draw = drawNumbers(7)
  const letters = '{}[]",:\\u0a1.-+eE tfn\n\u0001'
  const pick = (text: string): string => text[Math.floor(draw() * text.length)] ?? ''
  for (let count = 0; count < 50_000; count += 1) {
    let text = whole[Math.floor(draw() * whole.length)] ?? ''
    for (let changes = 1 + Math.floor(draw() * 3); changes > 0; changes -= 1) {
      const at = Math.floor(draw() * text.length)
      text = text.slice(0, at) + (draw() < 0.5 ? pick(letters) : '') + text.slice(at + (draw() < 0.5 ? 1 : 0))
    }
    if (isWholeObject(Buffer.from(text)) !== isObject(text)) t.fail(text)
  }
})

t.test('an object nested deeper than SDKs read is not whole, and costs no stack', async (t) => {
  const nested = (depth: number): Buffer => Buffer.from(`{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`)
  t.equal(isWholeObject(nested(500)), true)
  t.equal(isWholeObject(nested(600)), false)
  t.equal(isWholeObject(nested(5_000_000)), false)
})
