import { UsageError } from '../configuration/failure.ts'
import { GatewayError, type ValidationMessage } from '../errors/gateway-error.ts'

/** A refused mint in an operator's words; what an operator cannot be told stays as it is. */
export function explainMint(error: unknown, organizationId: number, userId: number): unknown {
  if (!(error instanceof GatewayError)) return error
  switch (error.code) {
    case 'enterprise_required':
      return new Error(
        `organization ${organizationId} is no Enterprise organization, and only those have API tokens; ` +
          'name another with --organization',
      )
    case 'resource_not_found':
      return new Error(
        `user ${userId} is no member of organization ${organizationId}; give it a role there, or name another with --user`,
      )
    case 'validation_failure':
      return explainMessages(error.details.messages ?? [])
    default:
      return error
  }
}

const options: Readonly<Record<string, string>> = {
  userId: '--user',
  scope: '--scope',
  name: '--name',
  expiresAt: '--expires-at',
}

/** A user who cannot have tokens is a fact of the directory; everything else is how the command was called. */
function explainMessages(messages: readonly ValidationMessage[]): Error {
  const text = messages.map(({ field, message }) => `${options[field] ?? field}: ${message}`).join('\n')
  const isUsage = messages.some(({ field }) => field !== 'userId')
  return isUsage ? new UsageError(text) : new Error(`${text} Name a service account with --user.`)
}
