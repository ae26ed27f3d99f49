import { posix } from 'node:path'

/** A path as a server behind the gateway may interpret it. */
export type BackendReading = Readonly<{ name: string; read: (path: string) => string }>

const decodeAll = (path: string): string =>
  path.replace(/(?:%[0-9a-f]{2})+/gi, (run) => {
    try {
      return decodeURIComponent(run)
    } catch {
      return Buffer.from(run.replace(/%/g, ''), 'hex').toString('latin1')
    }
  })

const cutParameters = (path: string): string => path.replace(/;[^/]*/g, '')
const mergeSlashes = (path: string): string => path.replace(/\/{2,}/g, '/')
const turnBackslashes = (path: string): string => path.replaceAll('\\', '/')
const trimNames = (path: string): string => path.replace(/ *(?=\/|$)/g, '').replace(/\/ +/g, '/')
const dropEndDots = (path: string): string => path.replace(/\.+(?=\/|$)/g, '')
const removeDots = (path: string): string => posix.normalize(path)

/** Written apart from the gateway's own, and from strings: what servers and frameworks are known to do with a path. */
export const backendReadings: readonly BackendReading[] = [
  { name: 'raw', read: (path) => path },
  { name: 'decoded once', read: decodeAll },
  { name: 'decoded twice', read: (path) => decodeAll(decodeAll(path)) },
  { name: 'dots removed, then decoded', read: (path) => decodeAll(removeDots(path)) },
  { name: 'decoded, then dots removed', read: (path) => removeDots(decodeAll(path)) },
  { name: 'as a WHATWG URL', read: (path) => decodeAll(new URL(`http://h${path}`).pathname) },
  { name: 'slashes merged', read: (path) => mergeSlashes(decodeAll(path)) },
  { name: 'backslash as slash', read: (path) => mergeSlashes(turnBackslashes(decodeAll(path))) },
  { name: 'path parameters cut, then decoded', read: (path) => decodeAll(cutParameters(path)) },
  { name: 'decoded, then path parameters cut', read: (path) => cutParameters(decodeAll(path)) },
  { name: 'decoded, path parameters cut, decoded again', read: (path) => decodeAll(cutParameters(decodeAll(path))) },
  {
    name: 'path parameters cut, decoded, and cut again',
    read: (path) => cutParameters(decodeAll(cutParameters(path))),
  },
  { name: 'decoded, then read as a target', read: (path) => removeDots(decodeAll(path).replace(/[?#].*$/s, '')) },
  { name: 'lower case, then decoded', read: (path) => decodeAll(path.toLowerCase()) },
  { name: 'without spaces around names', read: (path) => trimNames(decodeAll(path)) },
  { name: 'without dots at the ends of names', read: (path) => dropEndDots(decodeAll(path)) },
  { name: 'lower case', read: (path) => decodeAll(path).toLowerCase() },
  { name: 'without the trailing slash', read: (path) => decodeAll(path).replace(/(?<=.)\/$/, '') },
  {
    name: 'everything at once',
    read: (path) => removeDots(mergeSlashes(turnBackslashes(cutParameters(decodeAll(decodeAll(path)))))).toLowerCase(),
  },
]
