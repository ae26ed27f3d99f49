import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type * as Api from '@opentelemetry/api'
import { describeError, type Log } from '../log/log.ts'
import { redact } from '../log/redact.ts'

export type RunningSdk = Readonly<{ api: typeof Api; tracer: Api.Tracer; shutdown: () => Promise<void> }>

type Environment = Readonly<Record<string, string | undefined>>

type SdkPackage = Readonly<{
  NodeSDK: new (options: object) => { start: () => void; shutdown: () => Promise<void> }
  resources?: Readonly<Record<'envDetector' | 'hostDetector', unknown>>
}>

const packageName = '@opentelemetry/sdk-node'

/** The SDK may be installed beside the gateway or in the working directory, which an image can mount. */
const places = (): readonly string[] => [import.meta.url, join(process.cwd(), 'package.json')]

/**
 * Starts the SDK if a standard `OTEL_*` variable asks for traces. Without the package the gateway logs that and serves.
 */
export async function startSdk(environment: Environment, version: string, log: Log): Promise<RunningSdk | undefined> {
  if (!asksForTraces(environment)) return undefined
  const path = findSdk()
  if (path === undefined) {
    log.warn({ package: packageName }, 'tracing SDK missing; run npm install @opentelemetry/sdk-node')
    return undefined
  }
  try {
    const { NodeSDK, resources } = await importFrom<SdkPackage>(path)
    // The SDK's own copy of the API: copies of different versions do not see each other.
    const api = await importFrom<typeof Api>(createRequire(path).resolve('@opentelemetry/api'))
    const sdk = new NodeSDK({
      instrumentations: [],
      // The gateway passes contexts itself; the SDK's manager would follow every promise of the process.
      contextManager: null,
      textMapPropagator: null,
      metricReaders: [],
      logRecordProcessors: [],
      // The process detector would export the command line.
      ...(!environment.OTEL_NODE_RESOURCE_DETECTORS &&
        resources && { resourceDetectors: [resources.envDetector, resources.hostDetector] }),
      ...(!namesService(environment) && { serviceName: 'sallyport' }),
    })
    sdk.start()
    api.diag.setLogger(createDiagnostics(log), { logLevel: api.DiagLogLevel.WARN, suppressOverrideMessage: true })
    log.info({}, 'tracing started')
    return { api, tracer: api.trace.getTracer('sallyport', version), shutdown: () => sdk.shutdown() }
  } catch (error) {
    log.warn({ package: packageName, error: describeError(error) }, 'tracing SDK failed to start')
    return undefined
  }
}

/** An endpoint or an exporter turns traces on, unless an off switch is set. */
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
  return loaded.default ?? (loaded as Package)
}

/** Each batch of spans fails while a collector is down, every few seconds in each worker. */
const complainEveryMs = 10_000

/** The cause stands in the first words; the rest may be the page of a proxy in between. */
const detailLimit = 200

/** Logs only the parts of a diagnostic that describe an error, since the SDK quotes whole responses. */
function createDiagnostics(log: Log): Api.DiagLogger {
  let toldAtMs = Number.NEGATIVE_INFINITY
  const complain = (text: unknown): void => {
    const nowMs = performance.now()
    if (nowMs - toldAtMs < complainEveryMs) return
    toldAtMs = nowMs
    log.warn({ error: describe(String(text)) }, 'spans not exported')
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
