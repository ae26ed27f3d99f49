import type { Duplex } from 'node:stream'
import pg from 'pg'
import { guarded } from '../../fault/guarded.ts'

type Listeners = { attachListeners: (stream: Duplex) => void }

const failures = ['error', 'errorMessage'] as const

/** A client whose connection ends where the server answers out of its protocol. */
export class StrictClient extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super(config)
    this.#dropUnlessConnected()
    this.#guardParser()
  }

  /**
   * pg leaves a connection open that could not be set up, unless the server hangs up itself. The pool does not count it, so
   * that each request would add one.
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

  /** The parser of pg throws where a message is shorter than its content says, and that would end the process. */
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
          stream.destroy(error as Error) // `parse` throws nothing else
        }
      }
      stream.on('data', guarded('directory', parseOrDrop))
    }
  }
}
