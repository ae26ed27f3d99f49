// All commands of the program. Each loads its own file only when it runs.
import type { Command } from 'commander'
import { findLackingFixes } from '../../configuration/node-releases.ts'
import { describeVersions, readVersion } from '../../configuration/version.ts'
import { createCluster, provisioning } from '../provision/commands.ts'
import { config, type DeclaredCommand, type DeclaredCommands, json, lazy, mandatory, option } from './command.ts'
import { describeProgram } from './describe-program.ts'
import { policy } from './policy/commands.ts'

const loadTokens = () => import('./tokens.ts')
const loadClusters = () => import('./clusters.ts')
const loadSessions = () => import('./sessions.ts')

/** In the order of help and reference: what runs a gateway, what looks at it, what manages its directory and policies. */
export const createCommands = (runDemo: () => Promise<void>): DeclaredCommands => ({
  serve: {
    description: 'Run the gateway; SIGTERM drains it, and Ctrl-C drains it within 2 s',
    options: [config()],
    examples: ['DATABASE_URL=postgres://… npx sallyport serve --config config/gateway.yaml'],
    run: lazy(() => import('./serve.ts'), 'runServe'),
  },
  demo: {
    description:
      'Run a complete demo on this machine: PostgreSQL, an OIDC issuer, backends, and the gateway before them',
    examples: ['npx sallyport demo', 'cat .sallyport/demo.json'],
    run: runDemo,
  },
  ...running,
  keys,
  token,
  tokens,
  clusters,
  sessions,
  directory,
  ...provisioning,
  policy,
  ...about,
})

const running: DeclaredCommands = {
  migrate: {
    description: "Update the schema of the directory's database",
    options: [
      config(),
      option('--adopt', "keep another program's tables as they are, and add the gateway's own beside them"),
      option('--from-unreleased', 'take over the database of a program from before 0.1.0, once; its data stay'),
      json('print the applied migrations as JSON'),
    ],
    examples: ['DATABASE_URL=postgres://… npx sallyport migrate'],
    run: lazy(() => import('./migrate.ts'), 'runMigrate'),
  },
  healthcheck: {
    description: 'Check whether the gateway of this configuration, on this machine, is ready; exit with 1 if not',
    options: [
      config('configuration file; names the admin listener'),
      option('--live', 'check liveness only (/healthz); ignore database outages and draining'),
      option('--timeout-ms <milliseconds>', 'longest wait for a response', '4000'),
      json('print the response as JSON'),
    ],
    examples: ['npx sallyport healthcheck --config config/gateway.yaml'],
    run: lazy(() => import('./healthcheck.ts'), 'runHealthcheck'),
  },
  'explain-request': {
    description: 'Say why a request was refused, from the audit file or the admin listener',
    arguments: { '<request-id>': 'x-request-id of the response' },
    options: [
      option('--audit <file>', 'search this audit file; - is standard input'),
      option('--admin <url>', 'ask this admin listener for the requests that it remembers'),
      config('configuration file; names the policy, the database, and both places where neither is given'),
      json('print what was found as JSON'),
    ],
    examples: [
      'npx sallyport explain-request 0f9b2c3e-0d4e-4a51-9a57-3e1f2a7d9b11',
      'kubectl logs deploy/sallyport | npx sallyport explain-request ID --audit -',
      'npx sallyport explain-request ID --admin http://127.0.0.1:9090 --json',
    ],
    run: lazy(() => import('./explain-request.ts'), 'runExplainRequest'),
  },
}

const keys: DeclaredCommand = {
  description: 'Manage the keys that sign the identity header',
  examples: ['npx sallyport keys generate'],
  commands: {
    generate: {
      description: 'Write a new private key to a new file (mode 0600)',
      options: [
        option('-o, --out <file>', 'file to write', '.sallyport/identity.pem'),
        option('-a, --algorithm <name>', 'EdDSA or ES256', 'EdDSA'),
        json('print the file and key id as JSON'),
      ],
      examples: ['npx sallyport keys generate --out /etc/sallyport/identity.pem'],
      run: lazy(() => import('./keys.ts'), 'generateKey'),
    },
    rotate: {
      description: 'Add a signing key to a key file and remove expired keys',
      options: [
        option('--file <file>', 'the key file', '.sallyport/identity.pem'),
        option('--after <seconds>', 'time between the publication of the new key and its first signature', '300'),
        option('--force', 'replace a new key that has not signed yet'),
        json('print the key ids as JSON'),
      ],
      examples: ['npx sallyport keys rotate --file /etc/sallyport/identity.pem'],
      run: lazy(() => import('./rotate-keys.ts'), 'runRotateKeys'),
    },
  },
}

const token: DeclaredCommand = {
  description: 'Judge a token as the gateway does',
  examples: ['npx sallyport token inspect < token.txt'],
  commands: {
    inspect: {
      description: 'Say which checks of the gateway the token on standard input passes, without printing it',
      options: [config('configuration file; names issuers and database'), json('print the checks as JSON')],
      examples: ['npx sallyport token inspect < token.txt', 'pbpaste | npx sallyport token inspect --json'],
      run: lazy(() => import('./inspect-token.ts'), 'runInspectToken'),
    },
  },
}

const tokens: DeclaredCommand = {
  description: 'Manage API tokens of service accounts directly in the database',
  examples: ['npx sallyport tokens list --user 8'],
  commands: {
    mint: {
      description: 'Mint a token and print it, once, on standard output',
      options: [
        mandatory('--organization <id>', 'an Enterprise organization'),
        mandatory('--user <id>', 'a service account that is a member of it'),
        mandatory('--scope <scope>', 'api-key or api-secret, or another token scope of the policy'),
        option('--name <text>', 'purpose of the token'),
        option('--expires-at <time>', 'RFC 3339, such as 2030-01-01T00:00:00Z; without it the token does not expire'),
        config(),
        json('print token and metadata as JSON'),
      ],
      examples: ['TOKEN=$(npx sallyport tokens mint --organization 1 --user 8 --scope api-key --name ci)'],
      run: lazy(loadTokens, 'runMintToken'),
    },
    list: {
      description: "List a user's tokens without their secrets, newest first",
      options: [mandatory('--user <id>', 'id of the user'), config(), json('print the list as JSON')],
      examples: ['npx sallyport tokens list --user 8'],
      run: lazy(loadTokens, 'runListTokens'),
    },
    revoke: {
      description: 'Revoke a token; further requests with it get 401',
      arguments: { '<id>': 'id of the token, from "tokens list"' },
      options: [config(), json('print the revoked token as JSON')],
      examples: ['npx sallyport tokens revoke 12'],
      run: lazy(loadTokens, 'runRevokeToken'),
    },
  },
}

type ClusterChange = 'runSuspendCluster' | 'runResumeCluster' | 'runRecordHeartbeat'

const changeCluster = (name: string, description: string, run: ClusterChange): DeclaredCommand => ({
  description,
  arguments: { '<id>': 'id of the cluster, from "clusters list"' },
  options: [config(), json('print the cluster as JSON')],
  examples: [`npx sallyport clusters ${name} 7`],
  run: lazy(loadClusters, run),
})

const clusters: DeclaredCommand = {
  description: 'Manage data clusters directly in the database',
  examples: ['npx sallyport clusters list'],
  commands: {
    list: {
      description: 'List all clusters with their state',
      options: [config(), json('print the list as JSON')],
      examples: ['npx sallyport clusters list'],
      run: lazy(loadClusters, 'runListClusters'),
    },
    suspend: changeCluster('suspend', 'Suspend a cluster: its proxy responds with 403', 'runSuspendCluster'),
    resume: changeCluster('resume', 'Resume a suspended cluster', 'runResumeCluster'),
    heartbeat: changeCluster('heartbeat', 'Record a heartbeat of a cluster', 'runRecordHeartbeat'),
    create: createCluster,
  },
}

const chosenSessions = [
  option('--user <id>', 'exchanges of this user'),
  option('--organization <id>', 'exchanges in this organization'),
  option('--token <id>', 'exchanges of this API token, and of those minted with it'),
  option('--route <id>', 'exchanges that this route permitted'),
  option('--request <id>', 'the exchange with this x-request-id'),
  config('configuration file; names the admin listener and the database'),
]

const sessions: DeclaredCommand = {
  description: 'List open exchanges, and end them on every replica',
  examples: ['npx sallyport sessions list --user 8', 'npx sallyport sessions end --user 8'],
  commands: {
    list: {
      description: 'List the exchanges that are open at one replica, oldest first',
      options: [
        ...chosenSessions,
        option('--admin <url>', 'admin listener of the replica'),
        option('--limit <n>', 'largest number of exchanges in a page, up to 1000', '100'),
        option('--after <place>', 'continue after this place, which the previous page names'),
        json('print the page as JSON'),
      ],
      examples: [
        'npx sallyport sessions list --organization 3 --admin http://127.0.0.1:9090',
        'npx sallyport sessions list --json',
      ],
      run: lazy(loadSessions, 'runListSessions'),
    },
    end: {
      description: 'End the open exchanges that match all options, on every replica; rights stay as they are',
      options: [...chosenSessions, json('print the order as JSON')],
      examples: ['npx sallyport sessions end --user 8'],
      run: lazy(loadSessions, 'runEndSessions'),
    },
  },
}

const directory: DeclaredCommand = {
  description: 'Check the database of users, organizations and tokens',
  examples: ['npx sallyport directory check'],
  commands: {
    check: {
      description: 'Check every view, column, value and trigger that the gateway needs; change nothing',
      options: [
        config(),
        option(
          '--try-writes',
          'also log in, mint, revoke and update watched tables once, in a transaction that is rolled back',
        ),
        json('print the findings as JSON'),
      ],
      examples: ['DATABASE_URL=postgres://… npx sallyport directory check'],
      run: lazy(() => import('./check-directory.ts'), 'runCheckDirectory'),
    },
  },
}

const about: DeclaredCommands = {
  completion: {
    description: 'Print the completion script of a shell',
    arguments: { '<shell>': 'bash, zsh or fish' },
    examples: ['source <(sallyport completion bash)', 'sallyport completion fish | source'],
    run: async (shell: string, _options: unknown, command: Command) =>
      (await import('./completion.ts')).runCompletion(programOf(command), shell),
  },
  version: {
    description: 'Print the version of the program; as JSON, also those of Node, policies and schema, and the commit',
    options: [json('print all versions as JSON')],
    examples: ['npx sallyport version --json'],
    run: printVersion,
  },
  reference: {
    description: 'Print every command as JSON, for the documentation',
    examples: [],
    isHidden: true,
    run: (_options: unknown, command: Command) =>
      void process.stdout.write(`${JSON.stringify(describeProgram(programOf(command)))}\n`),
  },
}

const programOf = (command: Command): Command => command.parent ?? command

async function printVersion({ json: isJson }: Readonly<{ json?: boolean }>): Promise<void> {
  process.stdout.write(`${isJson ? JSON.stringify(await describeVersions()) : readVersion()}\n`)
  const lack = findLackingFixes(process.version, new Date())
  // On standard error, since scripts read the version.
  if (lack !== undefined) process.stderr.write(`sallyport: Node ${process.version} is for trying only, ${lack}\n`)
}
