import { type Aggregator, AggregatorRegistry, type Registry } from 'prom-client'

export type MetricsSnapshot = Readonly<Awaited<ReturnType<Registry['getMetricsAsJSON']>>>

/**
 * How the gauges of several processes become one. Sums of ages, flags or limits would be meaningless, so every gauge
 * has an entry; among limits the worst counts.
 */
export const gaugeAggregators: Readonly<Record<string, Aggregator>> = {
  sallyport_requests_in_flight: 'sum',
  sallyport_streams_open: 'sum',
  sallyport_websockets_open: 'sum',
  sallyport_jwks_age_seconds: 'max',
  sallyport_jwks_issuer_up: 'min',
  sallyport_cache_entries: 'sum',
  sallyport_unknown_tokens_waiting: 'sum',
  sallyport_introspections_waiting: 'sum',
  sallyport_pdp_waiting: 'sum',
  sallyport_held_bytes: 'sum',
  sallyport_held_bytes_limit: 'sum',
  sallyport_connections_throttled: 'sum',
  sallyport_invalidation_source_up: 'min',
  sallyport_invalidation_lag_seconds: 'max',
  sallyport_redis_refusing: 'max',
  sallyport_policy_held: 'max',
  sallyport_build_info: 'first',
  sallyport_database_connections: 'sum',
  sallyport_database_connections_limit: 'sum',
  sallyport_database_waiting: 'sum',
  sallyport_database_standby: 'max',
  sallyport_database_standby_lag_seconds: 'max',
  sallyport_upstream_connections_open: 'sum',
  sallyport_upstream_connections_limit: 'sum',
  sallyport_upstream_waiting_most: 'max',
  sallyport_upstream_origins_distrusted: 'max',
  sallyport_dns_stale_seconds: 'max',
  sallyport_identity_keys_reload_success: 'min',
  sallyport_policy_reload_success: 'min',
  sallyport_policy_loaded_timestamp_seconds: 'min',
  sallyport_shadow_reload_success: 'min',
  sallyport_audit_sink_up: 'min',
  sallyport_log_sink_up: 'min',
  sallyport_tls_reload_success: 'min',
  sallyport_tls_certificate_not_after_seconds: 'min',
  sallyport_upstream_address_up: 'min',
  sallyport_upstream_tls_reload_success: 'min',
  sallyport_connections_open: 'sum',
  sallyport_connections_limit: 'sum',
  sallyport_workers: 'sum',
  sallyport_logouts_in_force: 'max',
  sallyport_logouts_unstored: 'sum',
  sallyport_logins_without_session: 'max',
  sallyport_security_event_timestamp_seconds: 'max',
  sallyport_event_stream_status_timestamp_seconds: 'max',
  sallyport_event_poll_timestamp_seconds: 'max',
  sallyport_event_stream_verified_timestamp_seconds: 'max',
  sallyport_event_stream_verification_interval_seconds: 'max',
  process_start_time_seconds: 'min',
  process_resident_memory_bytes: 'sum',
  process_virtual_memory_bytes: 'sum',
  process_heap_bytes: 'sum',
  process_open_fds: 'max',
  process_max_fds: 'min',
  nodejs_eventloop_lag_seconds: 'max',
  nodejs_eventloop_lag_min_seconds: 'min',
  nodejs_eventloop_lag_max_seconds: 'max',
  nodejs_eventloop_lag_mean_seconds: 'max',
  nodejs_eventloop_lag_stddev_seconds: 'max',
  nodejs_eventloop_lag_p50_seconds: 'max',
  nodejs_eventloop_lag_p90_seconds: 'max',
  nodejs_eventloop_lag_p99_seconds: 'max',
  nodejs_heap_size_total_bytes: 'sum',
  nodejs_heap_size_used_bytes: 'sum',
  nodejs_external_memory_bytes: 'sum',
  nodejs_heap_space_size_total_bytes: 'sum',
  nodejs_heap_space_size_used_bytes: 'sum',
  nodejs_heap_space_size_available_bytes: 'sum',
  nodejs_version_info: 'first',
}

export const combineMetrics = (parts: readonly MetricsSnapshot[]): Registry =>
  AggregatorRegistry.aggregate(
    parts.map((metrics) =>
      metrics.map((metric) => ({ ...metric, aggregator: gaugeAggregators[metric.name] ?? metric.aggregator })),
    ),
  )

export const onlyCounts = (snapshot: MetricsSnapshot): MetricsSnapshot =>
  snapshot.filter(({ type }) => ['counter', 'histogram'].includes(String(type)))

/** A primary serves no requests: its unset gauges must not pass for a worker's. */
export const withoutStates = (snapshot: MetricsSnapshot): MetricsSnapshot =>
  snapshot.filter(({ name, type }) => String(type) !== 'gauge' || !name.startsWith('sallyport_'))
