import { readFileSync } from 'node:fs'

/** A panel of Grafana, as far as anything here reads it. */
export type Panel = Readonly<{
  id: number
  type: string
  title: string
  description?: string
  gridPos: Readonly<{ x: number; y: number; w: number; h: number }>
  targets?: readonly Readonly<{ expr: string; legendFormat: string; datasource: Readonly<{ uid: string }> }>[]
  fieldConfig?: Readonly<{ defaults: Readonly<{ unit: string }> }>
}>

type Variable = Readonly<{ name: string; type: string }>

/** The dashboard that is shipped. */
export const dashboard = JSON.parse(
  readFileSync(new URL('../../helm/sallyport/files/dashboard.json', import.meta.url), 'utf8'),
) as Readonly<{ schemaVersion: number; panels: readonly Panel[]; templating: Readonly<{ list: readonly Variable[] }> }>

/** The question that Grafana would ask for all replicas, over this range. */
export const askedBy = (expression: string, range: string): string =>
  expression.replaceAll('$__rate_interval', range).replaceAll('$instance', '.*')
