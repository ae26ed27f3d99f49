import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { Admission, type ConnectionPlace } from '../../../gateway/http/server/admission.ts'

const limit = 8

type Open = Readonly<{ address: string; place: ConnectionPlace; close: () => void }>

/** An admission over sockets that are told apart by their address alone. */
function createAdmissionFixture(connections = limit) {
  const open: Open[] = []
  const dropped: string[] = []
  const options = { limit: connections, onDropped: (reason: string) => void dropped.push(reason), monotonicMs: () => 0 }
  const admission = new Admission(options)
  const connect = (address: string): Open | undefined => {
    const emitter = new EventEmitter()
    let one: Open | undefined
    const close = (): void => {
      const index = one ? open.indexOf(one) : -1
      if (index >= 0) open.splice(index, 1)
      emitter.emit('close')
    }
    const socket = Object.assign(emitter, { remoteAddress: address, destroy: close }) as unknown as Socket
    const place = admission.admit(socket) ? admission.placeOf(socket) : undefined
    if (!place) return undefined
    one = { address, place, close }
    open.push(one)
    return one
  }
  const countOf = (address: string): number => open.filter((one) => one.address === address).length
  return { admission, open, dropped, connect, countOf }
}

const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4', '192.0.2.5']
const steps = ['connect', 'connect', 'begin', 'answered', 'rest', 'leave', 'prove'] as const
const histories = fc.array(fc.tuple(fc.constantFrom(...steps), fc.nat(4), fc.nat(7)), { maxLength: 120 })

t.test(
  'a newcomer takes no place with a request in flight, and an idle one only where all brought something',
  async () => {
    fc.assert(
      fc.property(histories, (history) => {
        const { admission, open, connect, countOf } = createAdmissionFixture()
        const known = new Set<string>()
        for (const [step, who, which] of history) {
          const address = addresses[who] ?? ''
          const one = open[which]
          if (step === 'prove') {
            admission.keepPlacesFor(address)
            known.add(address)
          } else if (step === 'begin') one?.place.begin()
          else if (step === 'answered') one?.place.answered()
          else if (step === 'rest') one?.place.rest()
          else if (step === 'leave') one?.close()
          else {
            const before = open.map((other) => ({ ...other, state: other.place.state }))
            const wasBeyond = countOf(address) > limit / 4
            const isIn = connect(address) !== undefined
            const gone = before.filter(({ place }) => place.state === 'left')
            if (gone.length > (isIn ? 1 : 0)) throw new Error('more than the newcomer needs')
            for (const { state, address: owner } of gone) {
              if (state === 'busy') throw new Error('a request in flight went')
              const isOthers = owner !== address
              if ((state === 'idle' || state === 'taking') && isOthers && wasBeyond)
                throw new Error('of another, beyond the share')
              const mayGo = (other: (typeof before)[number]): boolean =>
                ['unproven', 'taking'].includes(other.state) && (known.size === 0 || !known.has(other.address))
              if (state === 'idle' && isOthers && before.some(mayGo))
                throw new Error('idle, before one without a request or with a response to take')
            }
            const countStrangers = (all: readonly Pick<Open, 'address'>[]): number =>
              all.filter((other) => !known.has(other.address)).length
            const mostStrangers = Math.max(6, countStrangers(before))
            if (known.size > 0 && countStrangers(open) > mostStrangers) throw new Error('a kept place')
          }
          if (open.length > limit) throw new Error('more than the limit')
          for (const each of addresses) if (countOf(each) > 6) throw new Error('more than three quarters')
        }
      }),
      { numRuns: Number(process.env.CAMPAIGN ?? 500) },
    )
  },
)

t.test('addresses of one /64 share their places, and an IPv4 address is the same on a dual stack', async (t) => {
  const { connect, countOf, open } = createAdmissionFixture()
  for (let host = 1; host <= 20; host += 1) connect(`2001:db8::${host}`)
  t.equal(open.length, 6)
  t.ok(connect('2001:db8:0:1::1') && connect('2001:db8:0:2::1'))
  t.equal(open.length, 8)
  connect('::ffff:192.0.2.1')
  t.equal(open.filter(({ address }) => address.startsWith('2001:db8::')).length, 5, 'beyond its share')
  t.equal(countOf('::ffff:192.0.2.1'), 1)
})

t.test('the oldest that brought nothing goes before the newest', async (t) => {
  const { connect, open } = createAdmissionFixture()
  const first = addresses.map(connect)
  for (const address of addresses.slice(0, 4)) connect(`${address}0`)
  t.notOk(open.includes(first[0] as Open))
  t.ok(first.slice(1).every((one) => one && open.includes(one)))
})

t.test('places that are kept for a known address are its own, and no longer than it is known', async (t) => {
  let nowMs = 0
  const admission = new Admission({ limit, onDropped: () => undefined, monotonicMs: () => nowMs })
  const admit = (address: string): boolean =>
    admission.admit(Object.assign(new EventEmitter(), { remoteAddress: address, destroy: () => undefined }) as never)
  const begin = (address: string): boolean => {
    const socket = Object.assign(new EventEmitter(), { remoteAddress: address, destroy: () => undefined })
    const isIn = admission.admit(socket as never)
    admission.placeOf(socket as never)?.begin()
    return isIn
  }
  admission.keepPlacesFor('192.0.2.9')
  for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4', '192.0.2.5', '192.0.2.6'])
    t.ok(begin(address))
  t.notOk(admit('192.0.2.7'), 'a stranger')
  t.ok(begin('192.0.2.9'))
  nowMs = 8 * 24 * 3_600_000
  t.ok(admit('192.0.2.8'), 'once nothing is known any more')
})
