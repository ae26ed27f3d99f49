import type { ServerResponse } from 'node:http'
import { sendJson } from './prepare-answer.ts'
import type { AnswerRequest, BackendRequest } from './serve-backend.ts'

type Row = Readonly<Record<string, unknown>>
type Lists = Readonly<Record<string, (arrival: BackendRequest) => readonly Row[]>>

const lists: Lists = {
  '/datasets': (arrival) => datasetNames.map((_, index) => describeDataset(index + 1, arrival)),
  '/workflows': (arrival) => workflowNames.map((_, index) => describeWorkflow(index + 1, arrival)),
  '/clusters': (arrival) => clusterStates.map((state, index) => describeCluster(index + 1, state, arrival)),
}

const datasetNames = ['Support tickets', 'Product manuals', 'Meeting notes', 'Sensor readings', 'Price lists']
const workflowNames = ['Nightly import', 'Label new tickets', 'Weekly digest']
const clusterStates = ['healthy', 'suspended', 'offline', 'offline', 'offline']

export const answerPlatform: AnswerRequest = (arrival, response) => {
  if (arrival.method !== 'GET' && arrival.method !== 'HEAD') return undefined
  const value = readResource(arrival)
  if (value !== undefined) return answerWhenArrived(arrival, response, 200, value)
  if (arrival.path !== '/socket') return undefined
  // RFC 9110, section 15.5.22: a 426 names the protocol in Upgrade.
  const upgrade = ['Upgrade', 'websocket', 'Connection', 'Upgrade']
  return answerWhenArrived(arrival, response, 426, refuse(426, 'This is a WebSocket.'), upgrade)
}

export function refuse(status: number, message: string, code?: string): Row {
  return { success: false, message, error: { status, ...(code === undefined ? {} : { code }) } }
}

async function answerWhenArrived(
  { body }: BackendRequest,
  response: ServerResponse,
  status: number,
  value: Row,
  headers?: string[],
): Promise<void> {
  if (await body.arrived) sendJson(response, status, value, headers)
}

function readResource(arrival: BackendRequest): Row | undefined {
  const { path } = arrival
  if (path === '/status') return { status: 'ok', service: 'demo-platform', version: '1.4.2' }
  const listed = Object.hasOwn(lists, path) ? lists[path] : undefined
  if (listed !== undefined) return paginate(listed(arrival), arrival.query)

  const [, kind, digits, entries] = /^\/(datasets|workflows)\/([1-9]\d{0,8})(\/entries)?$/.exec(path) ?? []
  const id = Number(digits)
  if (kind === 'workflows') return entries ? undefined : { success: true, data: describeWorkflow(id, arrival) }
  if (kind !== 'datasets') return undefined
  if (entries === undefined) return { success: true, data: describeDataset(id, arrival) }
  return paginate(listEntries(id), arrival.query)
}

function paginate(rows: readonly Row[], query: URLSearchParams): Row {
  const currentPage = readCount(query.get('page'), 1)
  const perPage = Math.min(readCount(query.get('perPage'), 20), 100)
  const lastPage = Math.max(1, Math.ceil(rows.length / perPage))
  const data = rows.slice((currentPage - 1) * perPage, currentPage * perPage)
  return { success: true, meta: { currentPage, total: rows.length, perPage, lastPage }, data }
}

function readCount(text: string | null, fallback: number): number {
  const count = Number(text ?? fallback)
  return Number.isSafeInteger(count) && count > 0 ? count : fallback
}

function describeDataset(id: number, arrival: BackendRequest): Row {
  const name = datasetNames[id - 1] ?? `Dataset ${id}`
  return { ...describeRow(id, name, arrival), entryCount: '45', tags: ['demo'] }
}

function describeWorkflow(id: number, arrival: BackendRequest): Row {
  return { ...describeRow(id, workflowNames[id - 1] ?? `Workflow ${id}`, arrival), state: 'ready', steps: 3 }
}

function describeCluster(id: number, state: string, arrival: BackendRequest): Row {
  return { ...describeRow(id, `Cluster ${id}`, arrival), state, region: 'eu-west' }
}

function describeRow(id: number, name: string, { request }: BackendRequest): Row {
  const organizationId = Number(request.headers['x-organization-id'] ?? Number.NaN)
  const day = String(1 + (id % 28)).padStart(2, '0')
  return {
    id,
    slug: name.toLowerCase().replaceAll(' ', '-'),
    name,
    organizationId: Number.isInteger(organizationId) ? organizationId : null,
    createdAt: `2026-01-${day}T08:00:00.000Z`,
    updatedAt: `2026-02-${day}T08:00:00.000Z`,
  }
}

function listEntries(datasetId: number): readonly Row[] {
  return Array.from({ length: 45 }, (_, index) => ({
    id: datasetId * 1000 + index + 1,
    datasetId,
    slug: `entry-${index + 1}`,
    title: `Entry ${index + 1}`,
    createdAt: '2026-02-01T08:00:00.000Z',
  }))
}
