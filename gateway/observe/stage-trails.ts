import { type Stage, type StageMetrics, stages } from './stage-metrics.ts'
import type { BeginTrail } from './trail.ts'

/** Observes how long each stage takes, by what the trail hears of it: the clock is read once a stage. */
export const createStageTrails =
  (beginTrail: BeginTrail, { observeStage, countFailure }: StageMetrics, monotonicMs: () => number): BeginTrail =>
  (exchange, requestId) => {
    let sinceMs = monotonicMs()
    /** The stage under way: a refusal ends it. */
    let current: Stage | undefined = 'route'
    let isAllowed = false
    const end = (stage: Stage): void => {
      const nowMs = monotonicMs()
      observeStage[stage](nowMs - sinceMs)
      sinceMs = nowMs
      current = stageAfter[stage]
    }
    const trail = beginTrail(exchange, requestId)
    return {
      ...trail,
      matched: (match) => {
        trail.matched(match)
        end('route')
      },
      authenticated: (principal) => {
        trail.authenticated(principal)
        end('authenticate')
      },
      resolved: (organization) => {
        trail.resolved(organization)
        end('resolve')
      },
      found: (resource) => {
        trail.found(resource)
        end('resource')
      },
      allowed: () => {
        trail.allowed()
        isAllowed = true
        // A preflight is allowed before there is a route.
        end(current === 'route' ? 'route' : 'decide')
      },
      located: (upstream) => {
        trail.located(upstream)
        end('locate')
      },
      settled: (status) => {
        if (current === 'pin') end('pin')
        current = undefined
        return trail.settled(status)
      },
      refused: (error) => {
        if (current) end(current)
        current = undefined
        if (isAllowed) countFailure(error.code)
        return trail.refused(error)
      },
    }
  }

const stageAfter: Readonly<Partial<Record<Stage, Stage>>> = Object.fromEntries(
  stages.slice(0, -1).map((stage, index) => [stage, stages[index + 1]]),
)
