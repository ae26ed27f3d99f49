import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type * as Api from '@opentelemetry/api'
import { describeError, type Log } from '../log/log.ts'
import { redact } from '../log/redact.ts'

/** OpenTelemetry's SDK, running. */
export type RunningSdk = Readonly<{ api: typeof Api; tracer: Api.Tracer; shutdown: () => Promise<void> }>

type Environment = Readonly<Record<string, string | undefined>>

/** As far as it is used here; it is no dependency, so that its types are not at hand. */
type SdkPackage = Readonly<{
  NodeSDK: new (options: object) => { start: () => void; shutdown: () => Promise<void> }
  resources?: Readonly<Record<'envDetector' | 'hostDetector', unknown>>
}>

const packageName = '@opentelemetry/sdk-node'

/** Beside the gateway, or where it was started: an image may bring the SDK in a folder of its own. */
const places = (): readonly string[] => [import.meta.url, join(process.cwd(), 'package.json')]

/**
 * Starts the SDK as the standard `OTEL_*` variables say, if one of them asks for traces. Where it is not installed the log
 * says so, and the gateway serves without.
 */
export async function startSdk(environment: Environment, version: string, log: Log): Promise<RunningSdk | undefined> {
  if (!asksForTraces(environment)) return undefined
  const path = findSdk()
  if (path === undefined) {
    log.warn(
      { package: packageName },
      'traces are asked for, and OpenTelemetry’s SDK is not installed: npm install @opentelemetry/sdk-node',
    )
    return undefined
  }
  try {
    const { NodeSDK, resources } = await importFrom<SdkPackage>(path)
    // Its own copy of the interface: copies of different versions refuse to know each other.
    const api = await importFrom<typeof Api>(createRequire(path).resolve('@opentelemetry/api'))
    const sdk = new NodeSDK({
      instrumentations: [],
      // The gateway hands contexts on by itself: the SDK's way would follow every promise of the process.
      contextManager: null,
      textMapPropagator: null,
      // Traces alone: metrics are scraped, and the log is standard output.
      metricReaders: [],
      logRecordProcessors: [],
      // Without the detector of processes, which tells the command line.
      ...(!environment.OTEL_NODE_RESOURCE_DETECTORS &&
        resources && { resourceDetectors: [resources.envDetector, resources.hostDetector] }),
      ...(!namesService(environment) && { serviceName: 'sallyport' }),
    })
    sdk.start()
    api.diag.setLogger(createDiagnostics(log), { logLevel: api.DiagLogLevel.WARN, suppressOverrideMessage: true })
    log.info({}, 'traces are exported')
    return { api, tracer: api.trace.getTracer('sallyport', version), shutdown: () => sdk.shutdown() }
  } catch (error) {
    log.warn({ package: packageName, error: describeError(error) }, 'traces are asked for, and the SDK did not start')
    return undefined
  }
}

/** An endpoint, or an exporter by name, unless one of the two off switches is set. */
function asksForTraces(environment: Environment): boolean {
  const { OTEL_TRACES_EXPORTER: exporter, OTEL_SDK_DISABLED: disabled } = environment
  if (disabled?.toLowerCase() === 'true' || exporter === 'none') return false
  return [exporter, environment.OTEL_EXPORTER_OTLP_ENDPOINT, environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT].some(
    Boolean,
  )
}

const namesService = (environment: Environment): boolean =>
  Boolean(environment.OTEL_SERVICE_NAME) || /(?:^|,)\s*service\.name=/.test(environment.OTEL_RESOURCE_ATTRIBUTES ?? '')

function findSdk(): string | undefined {
  for (const place of places()) {
    try {
      return createRequire(place).resolve(packageName)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error
    }
  }
  return undefined
}

async function importFrom<Package>(path: string): Promise<Package> {
  const loaded = (await import(pathToFileURL(path).href)) as { default?: Package }
  // A package in CommonJS stands whole in its default.
  return loaded.default ?? (loaded as Package)
}

/** One line of the log in so long says that spans are lost. */
const complaintMs = 10_000
const detailLimit = 200

/** What the SDK complains of, of which only the words about an error are written down: it quotes whole answers. */
function createDiagnostics(log: Log): Api.DiagLogger {
  let toldAtMs = Number.NEGATIVE_INFINITY
  const complain = (text: unknown): void => {
    const nowMs = performance.now()
    if (nowMs - toldAtMs < complaintMs) return
    toldAtMs = nowMs
    log.warn({ error: describe(String(text)) }, 'spans could not be exported')
  }
  const ignore = (): void => undefined
  return { error: complain, warn: complain, info: ignore, debug: ignore, verbose: ignore }
}

function describe(text: string): Readonly<Record<string, string>> {
  try {
    const { name, message, code } = JSON.parse(text) as Record<string, unknown>
    const parts = { name, code, message }
    return Object.fromEntries(
      Object.entries(parts).flatMap(([key, value]) =>
        value === undefined ? [] : [[key, redact(String(value)).slice(0, detailLimit)]],
      ),
    )
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return { message: redact(text).slice(0, detailLimit) }
  }
}
