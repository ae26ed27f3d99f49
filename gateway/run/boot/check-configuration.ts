import { checkDecisionPoints, checkResourceHeaders, checkRuleNames } from '../../analyze/rule-names.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import { readUpstreamAddresses } from '../../configuration/upstream-addresses.ts'
import { loadPolicy } from '../../policy/load.ts'
import { openKeyring } from '../reload/identity-keys.ts'
import { checkListenerTls } from '../reload/listener-tls.ts'
import { checkIssuers } from './check-issuers.ts'
import { checkListeners } from './check-listeners.ts'
import { checkPassedHeaders, readClusterNetworks, readTrustedProxies } from './snapshot.ts'
import { checkUpstreams } from './upstreams.ts'

export async function checkConfiguration(configuration: Configuration): Promise<void> {
  checkListeners(configuration)
  checkIssuers(configuration)
  readTrustedProxies(configuration)
  readClusterNetworks(configuration, new Set())
  checkPassedHeaders(configuration)
  checkListenerTls(configuration)
  checkUpstreams(configuration)
  await openKeyring(configuration, () => new Date())
  const policy = loadPolicy(configuration.policies.directory, readUpstreamAddresses(configuration))
  checkRuleNames(configuration, policy)
  checkDecisionPoints(configuration, policy)
  checkResourceHeaders(configuration, policy)
}
