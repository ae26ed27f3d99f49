import { codeOf, listRefusals } from '../../gateway/base/errors/gateway-error.ts'
import { listExactCauses, remedies, streamRemedies } from '../../gateway/base/errors/remedies.ts'
import { listStreamFailures, type StreamFailureCode } from '../../gateway/base/errors/stream-failure.ts'
import { code, composeHead, composeTable } from './markdown.ts'

const introduction = `Every refusal of the gateway, from its catalogue. The code is \`error.code\` on the surfaces \`platform\`, \`files\` and
\`model\`, \`extensions.reason\` on \`graphql\`, and in the log; on \`data\` there is the message alone. A 403 has the check that
failed in \`error.check\`. Upstreams' own errors pass unchanged, and are not here.`

const streams = `
## In event streams

A stream of the model surface that ends early closes with \`response.failed\` ([Streams](event-streams.md)); the code is in
\`x_service_error_code\`. While no head is out it is the refusal of the last column instead. With
\`access_unverified\`, and if a right ends other than the credential, the connection breaks.

`

const causes = `
## Causes

Operators see more than clients: \`cause\` beside the reason in the [log](../guides/observe.md#logs), the
[audit](audit.md) and \`sallyport_decisions_total\`. No response has it. A code that is not listed here is its own
cause.

`

/** The page of all error codes. */
export const composeErrors = (): string =>
  [
    composeHead('Error codes', introduction),
    '\n',
    composeTable(
      ['Status', 'Code', 'Message', 'Meaning', 'What to do'],
      listRefusals().map(({ status, code: name, message, check }) => [
        check === undefined ? String(status) : `${status}, ${code(check)}`,
        code(name),
        message,
        ...remedies[name],
      ]),
    ),
    causes,
    composeTable(
      ['Code', 'Cause', 'Meaning', 'What to do'],
      listExactCauses().map(({ cause, code: name, meaning, remedy }) => [code(name), code(cause), meaning, remedy]),
    ),
    streams,
    composeTable(
      ['Code', 'Message', 'What to do', 'Before the head'],
      listStreamFailures().map(([name, detail, refusal]) => [
        code(name),
        detail,
        streamRemedies[name as StreamFailureCode], // Object.entries forgets the type of its keys
        code(codeOf(refusal)),
      ]),
    ),
  ].join('')
