import { readdirSync } from 'node:fs'
import type { Drill } from './drill.ts'

const folder = new URL('faults/', import.meta.url)

/** Every drill by its name, which is its file's. */
export async function listDrills(): Promise<ReadonlyMap<string, Drill>> {
  const names = readdirSync(folder)
    .filter((file) => file.endsWith('.ts'))
    .map((file) => file.slice(0, -'.ts'.length))
    .sort()
  const drills = names.map(async (name): Promise<readonly [string, Drill]> => {
    const { drill } = (await import(new URL(`${name}.ts`, folder).href)) as { drill: Drill }
    return [name, drill]
  })
  return new Map(await Promise.all(drills))
}
