import t from 'tap'
import type { Configuration } from '../../gateway/configuration/configuration.ts'
import { checkListeners } from '../../gateway/run/boot/check-listeners.ts'

const check = (...hosts: readonly (readonly [host: string, port: number])[]): (() => void) => {
  const [first, second, third = ['127.0.0.1', 9090] as const] = hosts
  const listen = ([host, port]: readonly [string, number] = ['127.0.0.1', 0]) => ({ host, port })
  const listeners: Configuration['listeners'] = {
    public: listen(first),
    decision: listen(second),
    admin: listen(third),
  }
  return () =>
    checkListeners({ listeners, problemAt: (_, message) => ({ file: 'gateway.yaml', line: 1, column: 1, message }) })
}

t.test('two listeners never share a port of one address', async (t) => {
  for (const [left, right] of [
    ['127.0.0.1', '127.0.0.1'],
    ['0.0.0.0', '127.0.0.1'],
    ['10.0.0.1', '0.0.0.0'],
    ['::', '127.0.0.1'],
    ['10.0.0.1', '::'],
    ['::0', '::1'],
    ['0:0::0', '10.0.0.1'],
    ['::ffff:0.0.0.0', '10.0.0.1'],
    ['::ffff:127.0.0.1', '127.0.0.1'],
    ['::1', '0:0:0:0:0:0:0:1'],
    ['localhost', '127.0.0.1'],
    ['::1', 'LOCALHOST'],
    ['gateway.internal', 'Gateway.internal'],
    ['gateway.internal', 'gateway.internal.'],
    ['localhost.', '127.0.0.1'],
    ['127.1', '127.0.0.1'],
    ['0x7f000001', '127.0.0.1'],
    ['0', '10.0.0.1'],
    ['10.0.0.1', '0x0'],
  ] as const)
    t.throws(check([left, 8080], [right, 8080]), { message: /listeners\.decision\.port: 8080/ }, `${left} ${right}`)
  t.throws(check(['10.0.0.1', 1], ['10.0.0.2', 2], ['0.0.0.0', 2]), {
    message: /admin\.port: 2 .* listeners\.decision/,
  })
})

t.test('other ports, other addresses and free ports do not conflict', async (t) => {
  for (const [left, right] of [
    [
      ['0.0.0.0', 8080],
      ['0.0.0.0', 8081],
    ],
    [
      ['0.0.0.0', 0],
      ['0.0.0.0', 0],
    ],
    [
      ['127.0.0.1', 8080],
      ['127.0.0.2', 8080],
    ],
    [
      ['127.0.0.1', 8080],
      ['::1', 8080],
    ],
  ] as const)
    t.doesNotThrow(check(left, right))
})
