import { randomUUID } from 'node:crypto'
import { answerAgent } from './answer-agent.ts'
import { answerCluster } from './answer-cluster.ts'
import { answerFiles } from './answer-files.ts'
import { answerGraphql } from './answer-graphql.ts'
import { answerPlatform } from './answer-platform.ts'
import { echoWebSocket } from './echo-websocket.ts'
import { openShelf } from './keep-files.ts'
import { openJournal } from './record-requests.ts'
import { type Backend, serveBackend } from './serve-backend.ts'
import { serveRecorder } from './serve-recorder.ts'

export type DemoBackends = Readonly<{
  urls: Readonly<{
    platform: string
    agent: string
    files: string
    graphql: string
    data: string
    clusterHealthy: string
    clusterGlobex: string
    recorder: string
  }>
  stop: () => Promise<void>
}>

export async function startBackends({ host = '127.0.0.1' }: { host?: string } = {}): Promise<DemoBackends> {
  const now = () => Date.now()
  const makeId = () => randomUUID().replaceAll('-', '')
  const journal = openJournal(now)
  const serve = (backend: Backend) => serveBackend(backend, journal, host)

  const [platform, agent, files, graphql, data, clusterHealthy, clusterGlobex, recorder] = await Promise.all([
    serve({ name: 'platform', answer: answerPlatform, takeUpgrade: echoWebSocket() }),
    serve({ name: 'agent', answer: answerAgent({ now, makeId }) }),
    serve({ name: 'files', answer: answerFiles(openShelf(now)) }),
    serve({ name: 'graphql', answer: answerGraphql }),
    serve({ name: 'data', answer: answerCluster('data', '/data') }),
    serve({ name: 'cluster-healthy', answer: answerCluster('cluster-healthy') }),
    serve({ name: 'cluster-globex', answer: answerCluster('cluster-globex') }),
    serveRecorder(journal, host),
  ])
  const running = { platform, agent, files, graphql, data, clusterHealthy, clusterGlobex, recorder }

  async function stop(): Promise<void> {
    await Promise.all(Object.values(running).map((server) => server.stop()))
  }

  return {
    urls: {
      platform: platform.url,
      agent: agent.url,
      files: files.url,
      graphql: graphql.url,
      data: data.url,
      clusterHealthy: clusterHealthy.url,
      clusterGlobex: clusterGlobex.url,
      recorder: recorder.url,
    },
    stop,
  }
}
