/** Series as promtool writes them, a value a minute: `0+6x60` grows by 6 for an hour, `1x60` stays. */
type Series = Readonly<Record<string, string>>

/** Samples that make an alert fire after half an hour, and samples that come close and do not. */
export type AlertCase = Readonly<{ fires: Series; stays: Series }>

const hours = 'x40'

/** 100 answers a minute, of which `failed` are 5xx. */
const answers = (failed: number): Series => ({
  'sallyport_requests_total{status="200"}': `0+${100 - failed}${hours}`,
  'sallyport_requests_total{status="503"}': `0+${failed}${hours}`,
})

const upstream = (failed: number): Series => ({
  'sallyport_upstream_requests_total{upstream="data",outcome="2xx"}': `0+${100 - failed}${hours}`,
  'sallyport_upstream_requests_total{upstream="data",outcome="upstream_timeout"}': `0+${failed}${hours}`,
})

const decisions = (reason: string, share: number): Series => ({
  [`sallyport_decisions_total{reason="${reason}"}`]: `0+${share}${hours}`,
  'sallyport_decisions_total{reason="allowed"}': `0+${100 - share}${hours}`,
})

const stage = (slow: number): Series => ({
  'sallyport_stage_duration_seconds_bucket{stage="authenticate",le="0.1"}': `0+${100 - slow}${hours}`,
  'sallyport_stage_duration_seconds_bucket{stage="authenticate",le="1"}': `0+100${hours}`,
  'sallyport_stage_duration_seconds_bucket{stage="authenticate",le="+Inf"}': `0+100${hours}`,
})

const one = (series: string, fires: string, stays: string): AlertCase => ({
  fires: { [series]: fires },
  stays: { [series]: stays },
})

const stateOf = (series: string, bad: number, good: number): AlertCase =>
  // For a minute by then, which wakes no operator.
  one(series, `${bad}${hours}`, `${good}x28 ${bad}${hours}`)

const share = (part: string, whole: string): AlertCase => ({
  fires: { [part]: `95${hours}`, [whole]: `100${hours}` },
  stays: { [part]: `70${hours}`, [whole]: `100${hours}` },
})

/** The cases of each alert, by its name. */
export const alertCases: Readonly<Record<string, AlertCase>> = {
  SallyportDown: { fires: {}, stays: { 'sallyport_build_info{instance="a"}': `1${hours}` } },
  SallyportReplicaDown: one('up{job="sallyport-admin",instance="a"}', `0${hours}`, `1${hours}`),
  SallyportErrorBudgetFastBurn: { fires: answers(2), stays: answers(1) },
  SallyportErrorBudgetSlowBurn: { fires: answers(1), stays: answers(0.5) },
  SallyportInternalErrors: {
    fires: {
      'sallyport_failures_total{code="internal",instance="a"}': `0x25 1${hours}`,
      'sallyport_decisions_total{reason="internal",instance="a"}': '_',
    },
    stays: {
      'sallyport_failures_total{code="internal",instance="a"}': `3${hours}`,
      'sallyport_failures_total{code="upstream_timeout",instance="a"}': `0+3${hours}`,
    },
  },
  SallyportWorkersRestarting: one('sallyport_worker_restarts_total', `0+1${hours}`, `0x25 1${hours}`),
  SallyportUpstreamFailing: { fires: upstream(20), stays: upstream(8) },
  SallyportUpstreamAddressDown: stateOf('sallyport_upstream_address_up{upstream="u",address="a:80"}', 0, 1),
  SallyportUpstreamSurplus: one(
    'sallyport_upstream_surplus_total{upstream="u",kind="head"}',
    `0+1${hours}`,
    `5${hours}`,
  ),
  SallyportDnsStale: one('sallyport_dns_stale_seconds{instance="a"}', `0+60${hours}`, `60${hours}`),
  SallyportClustersOffline: one('sallyport_failures_total{code="cluster_offline"}', `0+6${hours}`, `0+0.5${hours}`),
  SallyportStreamsFailing: {
    fires: { 'sallyport_streams_failed_total{code="worker_disconnected"}': `0+3${hours}` },
    stays: {
      'sallyport_streams_failed_total{code="worker_disconnected"}': `0+0.5${hours}`,
      // A rollout ends streams, and must not raise an alarm.
      'sallyport_streams_failed_total{code="gateway_draining"}': `0+9${hours}`,
    },
  },
  SallyportIssuerDown: stateOf('sallyport_jwks_issuer_up{issuer="i"}', 0, 1),
  SallyportJwksStale: one('sallyport_jwks_age_seconds{issuer="i"}', `50000${hours}`, `30000${hours}`),
  SallyportIssuerUnavailable: {
    fires: decisions('issuer_unavailable', 5),
    stays: decisions('issuer_unavailable', 0.5),
  },
  SallyportUnauthenticatedSurge: { fires: decisions('unauthenticated', 60), stays: decisions('unauthenticated', 40) },
  SallyportStageSlow: { fires: stage(5), stays: stage(0.5) },
  SallyportLogoutUnmatched: {
    fires: {
      'sallyport_security_events_total{transmitter="idp",outcome="stored",cause="without_subject"}': `0x20 1${hours}`,
      'sallyport_logins_without_session{issuer="i"}': `1${hours}`,
    },
    stays: {
      'sallyport_logouts_total{outcome="stored",cause="without_subject"}': `0x20 1${hours}`,
    },
  },
  SallyportSecurityEventsRefused: {
    fires: {
      'sallyport_security_events_total{transmitter="idp",outcome="refused",cause="other_issuer"}': `0x20 1${hours}`,
    },
    stays: {
      'sallyport_security_events_total{transmitter="idp",outcome="stored",cause="none"}': `0+1${hours}`,
      'sallyport_security_events_total{transmitter="unknown",outcome="refused",cause="secret_wrong"}': `0+9${hours}`,
    },
  },
  SallyportTransmitterSilent: one(
    'sallyport_security_event_timestamp_seconds{transmitter="idp"}',
    `-86400${hours}`,
    `-80000${hours}`,
  ),
  SallyportEventPollFailing: one(
    'sallyport_event_poll_timestamp_seconds{transmitter="idp"}',
    `-310+60${hours}`,
    `-290+60${hours}`,
  ),
  SallyportEventStreamUnverified: {
    fires: {
      'sallyport_event_stream_verified_timestamp_seconds{transmitter="idp"}': `-310+60${hours}`,
      'sallyport_event_stream_verification_interval_seconds{transmitter="idp"}': `100${hours}`,
    },
    stays: {
      'sallyport_event_stream_verified_timestamp_seconds{transmitter="idp"}': `-290+60${hours}`,
      'sallyport_event_stream_verification_interval_seconds{transmitter="idp"}': `100${hours}`,
    },
  },
  SallyportEventStreamPaused: {
    fires: {
      'sallyport_event_stream_status_timestamp_seconds{transmitter="idp",status="paused",instance="a"}': `7${hours}`,
      'sallyport_event_stream_status_timestamp_seconds{transmitter="idp",status="enabled",instance="b"}': `5${hours}`,
    },
    stays: {
      'sallyport_event_stream_status_timestamp_seconds{transmitter="idp",status="paused",instance="a"}': `7${hours}`,
      'sallyport_event_stream_status_timestamp_seconds{transmitter="idp",status="enabled",instance="b"}': `9${hours}`,
      'sallyport_event_stream_status_timestamp_seconds{transmitter="new",status="disabled",instance="a"}': `0${hours}`,
      'sallyport_event_stream_status_timestamp_seconds{transmitter="new",status="enabled",instance="a"}': `0${hours}`,
    },
  },
  SallyportDatabaseFailing: one('sallyport_database_errors_total{kind="connection"}', `0+10${hours}`, `0+1${hours}`),
  SallyportDatabaseRefusesStatements: {
    fires: { 'sallyport_database_errors_total{kind="statement"}': `0+2${hours}` },
    stays: {
      'sallyport_database_errors_total{kind="statement"}': `0${hours}`,
      'sallyport_database_errors_total{kind="connection"}': `0+9${hours}`,
    },
  },
  SallyportDatabaseStandby: stateOf('sallyport_database_standby{instance="a"}', 1, 0),
  SallyportDirectoryGrace: one('sallyport_cache_reads_total{cache="users",result="grace"}', `0+5${hours}`, `5${hours}`),
  SallyportDatabasePoolExhausted: share(
    'sallyport_database_connections{state="busy",instance="a"}',
    'sallyport_database_connections_limit{instance="a"}',
  ),
  SallyportInvalidationSourceDown: stateOf('sallyport_invalidation_source_up{source="postgres"}', 0, 1),
  SallyportInvalidationLag: one('sallyport_invalidation_lag_seconds{source="postgres"}', `60${hours}`, `0.3${hours}`),
  SallyportRedisDown: {
    fires: { 'sallyport_invalidation_source_up{source="redis"}': `0${hours}` },
    stays: {
      'sallyport_invalidation_source_up{source="redis"}': `1${hours}`,
      'sallyport_invalidation_source_up{source="postgres"}': `0${hours}`,
    },
  },
  SallyportRedisRefusing: stateOf('sallyport_redis_refusing{command="count"}', 1, 0),
  SallyportRateLimitsUncounted: one(
    'sallyport_rate_limit_errors_total{limit="l",outcome="allow"}',
    `0+6${hours}`,
    `0x25 6${hours}`,
  ),
  SallyportPolicyReloadFailing: stateOf('sallyport_policy_reload_success', 0, 1),
  SallyportPolicyHeld: stateOf('sallyport_policy_held', 1, 0),
  SallyportPolicyWidened: one(
    'sallyport_policy_changes_total{kind="widened",route="r"}',
    `0x20 1${hours}`,
    `1${hours}`,
  ),
  SallyportShadowReloadFailing: stateOf('sallyport_shadow_reload_success', 0, 1),
  SallyportIdentityKeysReloadFailing: stateOf('sallyport_identity_keys_reload_success', 0, 1),
  // The clock of these begins at 0: 10 days, and 15.
  SallyportCertificateEnding: one(
    'sallyport_tls_certificate_not_after_seconds{listener="public"}',
    `864000${hours}`,
    `1296000${hours}`,
  ),
  SallyportCertificateReloadFailing: stateOf('sallyport_tls_reload_success{listener="public"}', 0, 1),
  SallyportUpstreamCertificateReloadFailing: stateOf('sallyport_upstream_tls_reload_success{upstream="u"}', 0, 1),
  SallyportAuditDropping: one('sallyport_audit_dropped_total', `0x26 5${hours}`, `5${hours}`),
  SallyportAuditSinkDown: stateOf('sallyport_audit_sink_up', 0, 1),
  SallyportLogDropping: one('sallyport_log_lines_dropped_total', `0x26 5${hours}`, `5${hours}`),
  SallyportEventLoopLag: {
    fires: {
      'nodejs_eventloop_lag_p99_seconds{instance="a"}': `0.5${hours}`,
      'sallyport_build_info{instance="a"}': `1${hours}`,
    },
    stays: {
      'nodejs_eventloop_lag_p99_seconds{instance="a"}': `0.02${hours}`,
      // Another program of Node is not watched.
      'nodejs_eventloop_lag_p99_seconds{instance="b"}': `3${hours}`,
      'sallyport_build_info{instance="a"}': `1${hours}`,
    },
  },
  SallyportConnectionsNearLimit: share(
    'sallyport_connections_open{listener="public"}',
    'sallyport_connections_limit{listener="public"}',
  ),
  SallyportConnectionsRefused: {
    fires: { 'sallyport_connections_dropped_total{reason="limit",listener="public"}': `0x26 1${hours}` },
    // The client's own doing.
    stays: { 'sallyport_connections_dropped_total{reason="stalled",listener="public"}': `0+9${hours}` },
  },
  SallyportListenerCrowded: {
    fires: { 'sallyport_connections_dropped_total{reason="displaced",listener="signals"}': `0x26 1+1${hours}` },
    stays: { 'sallyport_connections_dropped_total{reason="handshake",listener="signals"}': `0+9${hours}` },
  },
  SallyportUpstreamConnectionsNearLimit: share(
    'sallyport_upstream_connections_open{origin="http://a",instance="a"}',
    'sallyport_upstream_connections_limit{instance="a"}',
  ),
}
