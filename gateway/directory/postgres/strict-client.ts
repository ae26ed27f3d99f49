import type { Duplex } from 'node:stream'
import pg from 'pg'
import { guarded } from '../../base/fault/guarded.ts'

type Listeners = { attachListeners: (stream: Duplex) => void }

const failures = ['error', 'errorMessage'] as const

export class StrictClient extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super(config)
    this.#dropUnlessConnected()
    this.#guardParser()
  }

  /**
   * pg leaves a connection open if its setup fails and the server does not close it. The pool does not count it, so
   * each request would add one.
   */
  #dropUnlessConnected(): void {
    const { connection } = this
    const drop = guarded('directory', () => void connection.stream.destroy())
    for (const failure of failures) connection.on(failure, drop)
    const keep = (): void => {
      for (const failure of failures) connection.off(failure, drop)
    }
    this.once('connect', guarded('directory', keep))
  }

  /** pg's parser throws on a message that is shorter than its content claims, which would end the process. */
  #guardParser(): void {
    const connection = this.connection as unknown as Listeners // pg calls it for the plain stream, or for the one on TLS
    const attach = connection.attachListeners
    connection.attachListeners = (stream) => {
      attach.call(connection, stream)
      const parsers = stream.listeners('data')
      stream.removeAllListeners('data')
      const parseOrDrop = (bytes: Buffer): void => {
        try {
          for (const parse of parsers) parse(bytes)
        } catch (error) {
          stream.destroy(error as Error) // `parse` throws only errors
        }
      }
      stream.on('data', guarded('directory', parseOrDrop))
    }
  }
}
