export type Pem = Readonly<{ text: string; file: string | undefined }>

type Path = readonly string[]

const pemNames: ReadonlySet<string> = new Set(['cert', 'key', 'clientCa', 'ca'])

type Sections = Readonly<
  Record<'listeners' | 'upstreams' | 'decisionPoints', object> & Record<'issuers' | 'transmitters', readonly Owner[]>
>

type Owner = Readonly<{ tls?: object }>

export function sourcePems<Written extends Sections>(written: Written, fileOf: (path: Path) => string | undefined) {
  const sourceOwner = (owner: Owner, path: Path): Owner =>
    owner.tls ? { ...owner, tls: sourceSection(owner.tls, [...path, 'tls'], fileOf) } : owner
  const source = (name: 'listeners' | 'upstreams' | 'decisionPoints') =>
    mapValues(written[name] as Readonly<Record<string, Owner>>, (owner, key) => sourceOwner(owner, [name, key]))
  const sourceList = (name: 'issuers' | 'transmitters') =>
    written[name].map((owner, index) => sourceOwner(owner, [name, String(index)]))
  const [issuers, transmitters] = [sourceList('issuers'), sourceList('transmitters')]
  return {
    ...written,
    listeners: source('listeners'),
    upstreams: source('upstreams'),
    decisionPoints: source('decisionPoints'),
    issuers,
    transmitters,
  } as Written
}

const sourceSection = (section: object, path: Path, fileOf: (path: Path) => string | undefined): object =>
  mapValues(section as Readonly<Record<string, unknown>>, (text, name) =>
    pemNames.has(name) ? { text, file: fileOf([...path, name]) } : text,
  )

const mapValues = <From, To>(record: Readonly<Record<string, From>>, map: (value: From, key: string) => To) =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value, key)]))
