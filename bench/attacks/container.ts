import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../../test/support/gateway.ts'
import type { Owner } from '../../test/support/owner.ts'
import { listTree } from '../peers/cpu-time.ts'

/** The chart's limit of a pod. */
export const limitBytes = 512 * 1024 * 1024

/** A cgroup with the memory that the chart allows, and a Node that runs in it. */
export type Container = Readonly<{
  node: string
  /** Whether the system ended a process for want of memory. */
  hasKilled: () => boolean
}>

/** The files of both versions of cgroups. */
const versions = [
  { root: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes', events: 'memory.oom_control' },
  { root: '/sys/fs/cgroup', limit: 'memory.max', events: 'memory.events' },
]

let count = 0

/** Undefined where this process may make no cgroup: then memory is counted, and nothing enforces the limit. */
export function createContainer(owner: Owner): Container | undefined {
  const version = versions.find(
    ({ root, limit }) => existsSync(join(root, limit)) || existsSync(`${root}/cgroup.procs`),
  )
  if (!version) return undefined
  const folder = join(version.root, `sallyport-bench-${process.pid}-${count++}`)
  try {
    mkdirSync(folder)
    // Teardowns run the latest first, so the processes of the group have ended when this one runs.
    owner.teardown(async () => {
      await until(() => readFileSync(join(folder, 'cgroup.procs'), 'utf8') === '', 'the end of a cgroup')
      rmdirSync(folder)
    })
    writeFileSync(join(folder, version.limit), String(limitBytes))
  } catch {
    return undefined
  }
  const scripts = mkdtempSync(join(tmpdir(), 'sallyport-bench-'))
  owner.teardown(() => rmSync(scripts, { recursive: true, force: true }))
  const node = join(scripts, 'node')
  writeFileSync(node, `#!/bin/sh\necho $$ > ${folder}/cgroup.procs\nexec ${process.execPath} "$@"\n`)
  chmodSync(node, 0o755)
  return { node, hasKilled: () => /^oom_kill [1-9]/m.test(readFileSync(join(folder, version.events), 'utf8')) }
}

/** The most memory that each of its processes has occupied so far, together. */
export function readPeakRss(pid: number): number {
  return listTree(pid).reduce((sum, each) => sum + readPeak(each), 0)
}

function readPeak(pid: number): number {
  try {
    const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kibibytes) * 1024
  } catch {
    return 0 // it has ended
  }
}
