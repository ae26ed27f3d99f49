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

/** As GitHub makes it, so that a link holds at both places. */
const makeAnchor = (heading) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-')

const item = (text, link) => ({ text, link })
const guide = (text, name) => item(text, `/docs/guides/${name}`)
const explanation = (text, name) => item(text, `/docs/explanation/${name}`)
const reference = (text, name) => item(text, `/docs/reference/${name}`)

const sidebar = [
  { text: 'Learn', items: [item('Sallyport', '/'), item('First request', '/docs/tutorials/first-request')] },
  {
    text: 'Do',
    items: [
      guide('Deploy', 'deploy'),
      guide('Operate', 'run'),
      guide('Replicas and workers', 'workers'),
      guide('Configuration', 'configure'),
      guide('Write policies', 'write-policies'),
      guide('Change policies', 'review-policy-changes'),
      guide('Reload policies', 'reload-policies'),
      guide('Verify the identity header', 'verify-identity'),
      guide('API tokens', 'api-tokens'),
      guide('External authorization', 'external-authorization/'),
      guide('Adopt a database', 'adopt-a-database'),
      guide('Fill the directory', 'fill-the-directory'),
      guide('PostgreSQL', 'postgresql'),
      guide('Redis', 'redis'),
      guide('TLS', 'tls'),
      guide('Upstreams', 'upstreams'),
      guide('Connections and memory', 'connections'),
      guide('Rotate keys', 'rotate-keys'),
      guide('Explain a refusal', 'explain-a-refusal'),
      guide('Console', 'console'),
      guide('Dashboard', 'dashboard'),
      guide('Tracing', 'tracing'),
      guide('Runbook', 'runbook'),
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
      item('Security', '/SECURITY'),
      explanation('Decisions', 'decisions/'),
      explanation('Interpretations of the contract', 'contract'),
      explanation('Parts', 'parts'),
      explanation('Glossary', 'glossary'),
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
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  lastUpdated: false,
  markdown: {
    config: translateLinks,
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
