import type { Server as PlainServer } from 'node:net'
import { Server } from 'node:tls'
import type { Listener } from '../engine.ts'
import { checkServerIdentity, composeContext, type ListenerTls } from './server-context.ts'

/** Lets a running server present something else; whoever is connected stays so. */
export const replaceIdentity =
  (server: PlainServer, tls: ListenerTls | undefined): Listener['replaceIdentity'] =>
  (identity) => {
    if (!tls || !(server instanceof Server)) throw new Error('a listener without TLS presents nothing')
    checkServerIdentity(identity)
    server.setSecureContext(composeContext(identity, tls))
  }
