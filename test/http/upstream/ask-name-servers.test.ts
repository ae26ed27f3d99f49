import { Resolver } from 'node:dns'
import t from 'tap'
import { createAskNameServers } from '../../../gateway/http/upstream/ask-name-servers.ts'
import { createReadHosts } from '../../../gateway/http/upstream/hosts.ts'

function readFrom(files: Readonly<Record<string, string>>) {
  let nowMs = 0
  const read = createReadHosts(
    (file) => {
      const text = files[file]
      if (text === undefined) throw new Error('ENOENT')
      return text
    },
    () => nowMs,
  )
  return {
    read,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

t.test('/etc/hosts and the search list are read as the system reads them, and again', (t) => {
  const files: Record<string, string> = {
    '/etc/hosts': '127.0.0.1 localhost Local.Test # comment\n::1\tlocalhost\nbad name\n# 192.0.2.1 hidden\n',
    '/etc/resolv.conf':
      'nameserver 192.0.2.1\ndomain first.test\nsearch a.test b.test.\noptions timeout:1 ndots:2 ; ndots:9\n',
  }
  const { read, pass } = readFrom(files)
  t.same(read().find('LOCALHOST'), [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ])
  t.same(read().find('local.test.'), [{ address: '127.0.0.1', family: 4 }])
  t.equal(read().find('hidden'), undefined)
  t.same(read().expand('x'), ['x.a.test', 'x.b.test', 'x'])
  t.same(read().expand('x.y'), ['x.y.a.test', 'x.y.b.test', 'x.y'])
  t.same(read().expand('x.y.z'), ['x.y.z', 'x.y.z.a.test', 'x.y.z.b.test'])
  t.same(read().expand('x.'), ['x'])
  files['/etc/resolv.conf'] = ''
  t.same(read().expand('x').length, 3)
  pass(5_000)
  t.same(read().expand('x'), ['x'])
  t.same(readFrom({}).read().expand('x'), ['x'], 'a system without the files')
  t.end()
})

type Told = (error: NodeJS.ErrnoException | null, addresses?: readonly string[]) => void

/** Name servers that say what the test says, for IPv4 and IPv6. */
function answerAs(t: { teardown: (end: () => void) => void }, say: (family: 4 | 6, name: string, tell: Told) => void) {
  const { resolve4, resolve6, cancel } = Resolver.prototype
  t.teardown(() => Object.assign(Resolver.prototype, { resolve4, resolve6, cancel }))
  Object.assign(Resolver.prototype, {
    resolve4: (name: string, tell: Told) => say(4, name, tell),
    resolve6: (name: string, tell: Told) => say(6, name, tell),
    cancel: () => undefined,
  })
  const { read } = readFrom({ '/etc/resolv.conf': 'search a.test' })
  const ask = createAskNameServers(read)
  return (name: string) =>
    new Promise<unknown>((resolve) =>
      ask(name, (error, addresses) => resolve(error?.code ?? addresses.map(({ address }) => address))),
    )
}

const fail = (tell: Told, code: string): void => void setImmediate(tell, Object.assign(new Error(code), { code }))

t.test('both families are asked, IPv4 comes first, and neither waits long for the other', async (t) => {
  const look = answerAs(t, (family, name, tell) => {
    if (name === 'both.test')
      setTimeout(tell, family === 4 ? 20 : 0, null, [family === 4 ? '192.0.2.1' : '2001:db8::1'])
    else if (family === 4) setImmediate(tell, null, ['192.0.2.2'])
  })
  t.same(await look('both.test'), ['192.0.2.1', '2001:db8::1'])
  t.same(await look('mute.test'), ['192.0.2.2'])
})

t.test('an absent name is asked for in the next domain; a silent one is a time-out', async (t) => {
  const asked: string[] = []
  const look = answerAs(t, (family, name, tell) => {
    asked.push(name)
    if (name === 'x.a.test') fail(tell, family === 4 ? 'ENOTFOUND' : 'ENODATA')
    else if (name === 'x') setImmediate(tell, null, family === 4 ? ['192.0.2.1'] : [])
    else fail(tell, family === 4 ? 'ETIMEOUT' : 'ENODATA')
  })
  t.same(await look('x'), ['192.0.2.1'])
  t.same(new Set(asked), new Set(['x.a.test', 'x']))
  t.equal(await look('silent.test'), 'ETIMEOUT')
  t.same(
    asked.filter((name) => name.endsWith('silent.test.a.test')),
    [],
    'and not asked for again',
  )
})

t.test('a name that no question can hold does not exist', async (t) => {
  const ask = createAskNameServers(readFrom({}).read)
  const code = await new Promise((resolve) => ask(`${'a'.repeat(64)}.test`, (error) => resolve(error?.code)))
  t.match(code, /^E/)
})
