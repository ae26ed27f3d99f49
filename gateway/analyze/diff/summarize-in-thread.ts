import { Worker } from 'node:worker_threads'
import { guarded } from '../../base/fault/guarded.ts'
import type { PolicyTexts } from '../../policy/file.ts'
import type { KnownUpstreams } from '../../policy/known-upstreams.ts'
import type { PolicySummary } from './summarize.ts'

export type ComparisonTask = Readonly<{
  directory: string
  old: PolicyTexts
  fresh: PolicyTexts
  upstreams: KnownUpstreams
}>

const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
const script = new URL(`./diff-thread.${extension}`, import.meta.url)

export function summarizeInThread(task: ComparisonTask): Promise<PolicySummary> {
  return new Promise((resolve, reject) => {
    const thread = new Worker(script, { name: 'policy diff', workerData: task, env: {} })
    thread.once('message', guarded('process', resolve))
    thread.once('error', reject)
    thread.once('exit', (code) =>
      reject(new Error(`the thread that compares policies ended without a result, with code ${code}`)),
    )
    thread.unref()
  })
}
