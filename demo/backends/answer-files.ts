import type { ServerResponse } from 'node:http'
import { refuse } from './answer-platform.ts'
import type { FileShelf, KeptFile } from './keep-files.ts'
import { isZeros } from './keep-files.ts'
import { sendJson } from './prepare-answer.ts'
import { receiveUpload } from './receive-upload.ts'
import { sendContent } from './send-content.ts'
import type { AnswerRequest, BackendRequest } from './serve-backend.ts'

export function answerFiles(shelf: FileShelf): AnswerRequest {
  return (arrival, response) => {
    const method = arrival.method === 'HEAD' ? 'GET' : arrival.method
    if (arrival.path === '/v1/files') return answerCollection(method, shelf, arrival, response)
    const [, id, content] = /^\/v1\/files\/([^/]+)(\/content)?$/.exec(arrival.path) ?? []
    if (id === undefined) return undefined
    const operation = content === undefined ? method : `${method} content`
    return answerFile(operation, id, shelf, arrival, response)
  }
}

function answerCollection(method: string, shelf: FileShelf, arrival: BackendRequest, response: ServerResponse) {
  if (method === 'POST') return keepUpload(shelf, arrival, response)
  if (method !== 'GET') return undefined
  const purpose = arrival.query.get('purpose')
  return whenArrived(arrival, () => {
    const data = shelf.list().filter((file) => purpose === null || file.purpose === purpose)
    sendJson(response, 200, { object: 'list', data, has_more: false })
  })
}

function answerFile(
  operation: string,
  id: string,
  shelf: FileShelf,
  arrival: BackendRequest,
  response: ServerResponse,
) {
  const missing = () => sendJson(response, 404, refuse(404, `No such file: ${id}`, 'file_not_found'))
  switch (operation) {
    case 'GET':
      return whenArrived(arrival, () => {
        const kept = shelf.find(id)
        return kept === undefined ? missing() : sendJson(response, 200, kept.file)
      })
    case 'GET content':
      return whenArrived(arrival, () => {
        const kept = shelf.find(id)
        return kept === undefined ? missing() : answerContent(kept, arrival, response)
      })
    case 'DELETE':
      return whenArrived(arrival, () =>
        shelf.remove(id) ? sendJson(response, 200, { id, object: 'file', deleted: true }) : missing(),
      )
    default:
      return undefined
  }
}

function answerContent(kept: KeptFile, { request }: BackendRequest, response: ServerResponse): Promise<void> | void {
  const isKept = kept.head.length === kept.file.bytes || isZeros(kept.file.id)
  if (isKept) return sendContent(kept, request.headers.range, response)
  const message = `The demo keeps content up to 1 MiB; this file has ${kept.file.bytes} bytes, SHA-256 ${kept.sha256}.`
  sendJson(response, 404, refuse(404, message, 'content_not_kept'))
}

async function keepUpload(shelf: FileShelf, arrival: BackendRequest, response: ServerResponse): Promise<void> {
  const upload = await receiveUpload(arrival, shelf)
  switch (upload) {
    case 'cut':
      return
    case 'no-form':
      return sendJson(response, 400, refuse(400, 'The body must be multipart/form-data.', 'invalid_multipart'))
    case 'no-file':
      return sendJson(response, 400, refuse(400, 'The form has no part named file.', 'missing_file'))
    default:
      return sendJson(response, 200, upload)
  }
}

async function whenArrived({ body }: BackendRequest, answer: () => Promise<void> | void): Promise<void> {
  if (await body.arrived) await answer()
}
