import { parentPort, workerData } from 'node:worker_threads'
import { summarizeTexts } from './summarize.ts'
import type { ComparisonTask } from './summarize-in-thread.ts'

const { directory, old, fresh, upstreams }: ComparisonTask = workerData

parentPort?.postMessage(summarizeTexts(directory, old, fresh, upstreams))
