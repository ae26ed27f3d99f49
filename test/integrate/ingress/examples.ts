import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { Owner } from '../../support/owner.ts'

/** The addresses of every example of `docs/guides/external-authorization`. */
export type Places = Readonly<{
  /** 8000: the proxy. */
  front: number
  /** 8080: the gateway's public listener. */
  public: number
  /** 8081: its decision listener. */
  decision: number
  /** 9090: its admin listener. */
  admin?: number
  /** 3000: the backend. */
  backend: number
}>

const folder = fileURLToPath(new URL('../../../docs/guides/external-authorization', import.meta.url))

const read = (name: string): string => readFileSync(join(folder, name), 'utf8')

/** An example as its page shows it, but for the ports: they are all that a test changes. */
export function placeExample(name: string, places: Places): string {
  const ports: Readonly<Record<string, number>> = {
    8000: places.front,
    8080: places.public,
    8081: places.decision,
    9090: places.admin ?? 9090,
    3000: places.backend,
  }
  return read(name).replace(/\b(?:8000|8080|8081|9090|3000)\b/g, (port) => String(ports[port]))
}

/** Writes files into a folder that goes with the owner. */
export function writeFolder(owner: Owner, files: Readonly<Record<string, string>>): string {
  const written = mkdtempSync(join(tmpdir(), 'sallyport-ingress-'))
  owner.teardown(() => rmSync(written, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(written, basename(name)), text)
  return written
}

/** A page shows the very files that are tested. */
export function testShown(t: Test, page: string, names: readonly string[]): void {
  void t.test(`${page} shows ${names.join(' and ')} word for word`, async (t) => {
    const blocks = [...read(page).matchAll(/^```\w+\n([\s\S]*?)^```$/gm)].map(([, text]) => text)
    for (const name of names) t.ok(blocks.includes(read(name)), name)
  })
}
