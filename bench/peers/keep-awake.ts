import { readFileSync, writeFileSync } from 'node:fs'
import type { Owner } from '../../test/support/owner.ts'

const folder = '/sys/module/haltpoll/parameters'

/** The nanoseconds for which a guest of a hypervisor looks for work before it lets the host halt it. */
const wanted = { guest_halt_poll_ns: '2000000', guest_halt_poll_grow_start: '1000000' }

/**
 * Lets a virtual processor poll before it sleeps, if the kernel allows that, until the bench ends. To wake one costs
 * the waking process about ten microseconds. That is as much as nginx takes for a request, and
 * none of it is a cost of a proxy. Returns a sentence that tells whether it polls.
 */
export function keepAwake(owner: Owner): string {
  try {
    for (const [name, value] of Object.entries(wanted)) {
      const path = `${folder}/${name}`
      const before = readFileSync(path, 'utf8')
      writeFileSync(path, value)
      owner.teardown(() => writeFileSync(path, before))
    }
    return 'processors look for work for up to 2 ms before they sleep, until this ends'
  } catch {
    return 'processors sleep as soon as they may; on virtual ones that costs each write some microseconds'
  }
}
