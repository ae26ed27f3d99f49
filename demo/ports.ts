import { isPortFree } from './free-port.ts'

export type Ports = Readonly<{ public: number; decision: number; admin: number }>

const attempts = 3

/** Starts on free ports from the preferred ones on, and again if another process took one before it was listened on. */
export async function startOnFreePorts<Started>(
  preferred: Ports,
  start: (ports: Ports) => Promise<Started>,
): Promise<Started> {
  for (let attempt = 1; ; attempt += 1) {
    const ports = await choosePorts(preferred)
    try {
      return await start(ports)
    } catch (error) {
      if (attempt === attempts || (await areFree(ports))) throw error
    }
  }
}

async function choosePorts(preferred: Ports): Promise<Ports> {
  const taken = new Set<number>()
  const choose = async (first: number): Promise<number> => {
    for (let port = first; first > 0 && port < first + 100; port++) {
      if (taken.has(port) || !(await isPortFree(port))) continue
      taken.add(port)
      return port
    }
    return 0
  }
  return {
    public: await choose(preferred.public),
    decision: await choose(preferred.decision),
    admin: await choose(preferred.admin),
  }
}

const areFree = async (ports: Ports): Promise<boolean> =>
  (await Promise.all(Object.values(ports).map(isPortFree))).every(Boolean)
