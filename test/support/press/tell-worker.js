// Each worker of a gateway tells the drill that it is one, by `NODE_OPTIONS`. The loader of TypeScript would take longer.
import cluster from 'node:cluster'
import { appendFileSync } from 'node:fs'

if (cluster.isWorker) appendFileSync(process.env.DEFENCES_EVIDENCE, '1\n')
