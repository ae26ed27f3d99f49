// The site of docs/: `npm run site`. It shows the files as they are, and asks no other server for anything.
import { cpSync, existsSync, statSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** Pages beside docs/, to which pages of docs/ lead. */
const others = ['README.md', 'SECURITY.md', 'SUPPORT.md', 'CONTRIBUTING.md', 'CODE_OF_CONDUCT.md', 'CHANGELOG.md']
const inner = ['helm/sallyport/README.md', 'test/README.md', 'test/advisories/README.md']
const isPage = (file) =>
  file.endsWith('.md') && (file.startsWith('docs/') || others.includes(file) || inner.includes(file))

/** Files of the repository to which pages lead, for the copy after the build. */
const linked = new Set()

/** A link as the site needs it: a page, a file that is copied, or text for a folder. */
function translate(href, page) {
  if (/^[a-z]+:|^#|^\//.test(href)) return href
  const [path, anchor] = href.split('#')
  const file = relative(root, resolve(dirname(resolve(root, page)), decodeURI(path)))
  if (file.startsWith('..') || !existsSync(resolve(root, file))) throw new Error(`${page}: ${href} leads nowhere`)
  const suffix = anchor === undefined ? '' : `#${anchor}`
  if (isPage(file)) return `/${file.replace(/README\.md$/, 'index.md')}${suffix}`
  if (statSync(resolve(root, file)).isDirectory()) return undefined
  linked.add(file)
  return `/${file}`
}

function translateLinks(markdown) {
  markdown.core.ruler.push('repository-links', ({ tokens, env }) => {
    for (const token of tokens)
      for (const child of token.children ?? []) {
        if (child.type !== 'link_open') continue
        const href = translate(child.attrGet('href'), env.relativePath.replace(/index\.md$/, 'README.md'))
        if (href === undefined) child.attrs = []
        else child.attrSet('href', href)
        // The router of the site knows pages alone.
        if (href !== undefined && !/\.md(?:#|$)/.test(href) && href.startsWith('/')) child.attrSet('target', '_self')
      }
  })
}

/** Names of code in a table may break at their parts, so that a wide table fits its page. */
function breakCode(markdown) {
  const render = markdown.renderer.rules.code_inline
  markdown.renderer.rules.code_inline = (...args) => {
    const [tokens, index] = args
    const html = render(...args)
    return tokens[index].meta?.isInTable
      ? html.replace(/>[^<]*/, (text) => text.replaceAll(/[_./=,;{](?=\w)|[a-z](?=[A-Z])/g, '$&<wbr>'))
      : html
  }
  markdown.core.ruler.push('code-in-tables', ({ tokens }) => {
    let isInTable = false
    for (const { type, children } of tokens) {
      if (type.startsWith('table_')) isInTable = type === 'table_open'
      if (isInTable) for (const child of children ?? []) child.meta = { ...child.meta, isInTable }
    }
  })
}

const style = `
.vp-doc :is(th, td) { padding: 6px 10px; font-size: 13px; line-height: 20px; vertical-align: top }
.vp-doc .language-text code { font-size: 11px }
`

/** As GitHub makes it, so that a link holds at both places. */
const makeAnchor = (heading) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-')

const item = (text, link, items) => ({ text, link, ...(items && { collapsed: true, items }) })
const guide = (text, name, items) => item(text, `/docs/guides/${name}`, items)
const explanation = (text, name) => item(text, `/docs/explanation/${name}`)
const reference = (text, name) => item(text, `/docs/reference/${name}`)

const sidebar = [
  {
    text: 'Learn',
    items: [
      item('Sallyport', '/'),
      item('First request', '/docs/tutorials/first-request'),
      item('Your platform', '/docs/tutorials/your-platform'),
    ],
  },
  {
    text: 'Do',
    items: [
      guide('Deploy', 'deploy'),
      guide('Operate', 'run'),
      guide('Replicas and workers', 'workers'),
      guide('Configuration', 'configure'),
      guide('Identity providers', 'identity-providers', [guide('Recipes', 'identity-provider-recipes')]),
      guide('Opaque tokens', 'opaque-tokens'),
      guide('Outside decision points', 'decision-points'),
      guide('Users from claims', 'users-from-claims'),
      guide('Organizations from claims', 'organizations-from-claims'),
      guide('Write policies', 'write-policies'),
      guide('Guard resources', 'guard-resources'),
      guide('Change policies', 'review-policy-changes'),
      guide('Reload policies', 'reload-policies'),
      guide('Open streams and rights', 'open-exchanges'),
      guide('Logouts', 'logouts'),
      guide('Security events', 'security-events'),
      guide('Verify the identity header', 'verify-identity'),
      guide('API tokens', 'api-tokens'),
      guide('External authorization', 'external-authorization/', [
        guide('nginx', 'external-authorization/nginx'),
        guide('ingress-nginx', 'external-authorization/ingress-nginx'),
        guide('Caddy', 'external-authorization/caddy'),
        guide('Traefik', 'external-authorization/traefik'),
        guide('Envoy', 'external-authorization/envoy'),
        guide('HAProxy', 'external-authorization/haproxy'),
      ]),
      guide('Adopt a database', 'adopt-a-database'),
      guide('Adopt uuids and large integers', 'adopt-other-keys'),
      guide('Fill the directory', 'fill-the-directory'),
      guide('PostgreSQL', 'postgresql'),
      guide('Redis', 'redis'),
      guide('TLS', 'tls'),
      guide('Upstreams', 'upstreams'),
      guide('Connections and memory', 'connections'),
      guide('Rotate keys', 'rotate-keys'),
      guide('Explain a refusal', 'explain-a-refusal'),
      guide('Console', 'console'),
      guide('Incidents on the console', 'incidents'),
      guide('Dashboard', 'dashboard'),
      guide('Tracing', 'tracing'),
      guide('Runbook', 'runbook', [
        guide('Availability', 'runbook/availability'),
        guide('Upstreams', 'runbook/upstreams'),
        guide('Authentication', 'runbook/authentication'),
        guide('Database and caches', 'runbook/database'),
        guide('Configuration and audit', 'runbook/configuration'),
        guide('Capacity', 'runbook/capacity'),
      ]),
      guide('Drills', 'drills'),
    ],
  },
  {
    text: 'Look up',
    items: [
      reference('Configuration keys', 'configuration'),
      reference('Policy keys', 'policies'),
      reference('Commands', 'commands'),
      reference('Error codes', 'errors'),
      reference('Metrics', 'metrics'),
      reference('Logs', 'logs'),
      reference('Audit', 'audit'),
      reference('Event streams', 'event-streams'),
      reference('Decision API', 'decision-api'),
      reference('Change messages', 'change-messages'),
      reference('Signals', 'signals'),
    ],
  },
  {
    text: 'Understand',
    items: [
      explanation('The life of a request', 'life-of-a-request'),
      explanation('Architecture', 'architecture'),
      explanation('Walks through the code', 'walks'),
      explanation('Caches', 'caches'),
      explanation('Revocation', 'revocation'),
      explanation('Outages', 'outages'),
      explanation('Performance', 'performance'),
      explanation('Scale', 'scale'),
      item('Benchmarks', '/docs/benchmarks/'),
      item('Security', '/SECURITY'),
      item('Support', '/SUPPORT'),
      explanation('Decisions', 'decisions/'),
      explanation('Interpretations of the contract', 'contract'),
      explanation('Parts', 'parts'),
      explanation('Glossary', 'glossary'),
      item('Contributing', '/CONTRIBUTING', [
        item('Tests and benches', '/test/'),
        item('Advisories', '/test/advisories/'),
      ]),
    ],
  },
]

export default {
  title: 'Sallyport',
  description: 'An authorization gateway and reverse proxy for multi-tenant platforms',
  srcDir: root,
  outDir: resolve(root, '.sallyport/site-pages'),
  cacheDir: resolve(root, '.sallyport/site-cache'),
  srcExclude: ['{coverage,dist*,examples,gateway,policies,scripts}/**', 'test/!(advisories|README.md)/**'],
  rewrites: (page) => page.replace(/(^|\/)README\.md$/, '$1index.md'),
  // A page by its path, on any server of files.
  cleanUrls: false,
  head: [
    ['link', { rel: 'icon', href: 'data:,' }],
    ['style', {}, style],
  ],
  lastUpdated: false,
  markdown: {
    config: (markdown) => {
      translateLinks(markdown)
      breakCode(markdown)
    },
    anchor: { slugify: makeAnchor },
    languageAlias: { caddyfile: 'nginx', haproxy: 'nginx' },
  },
  themeConfig: {
    nav: [
      item('First request', '/docs/tutorials/first-request'),
      item('All pages', '/docs/'),
      item('Changes', '/CHANGELOG'),
    ],
    sidebar,
    outline: [2, 3],
    search: { provider: 'local' },
  },
  buildEnd({ outDir }) {
    for (const file of linked) cpSync(resolve(root, file), resolve(outDir, file))
  },
}
