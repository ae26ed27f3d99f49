// Several test files share a process, so the `t` that each imports is a test of its own. The same file has the hooks, which
// run in a thread of Node's.
const here = import.meta.url
let current

export const setFileTest = (test) => {
  current = test
}

export const fileTest = () => current

const domains = new URL('test-domains.js', here).href

export function resolve(specifier, context, nextResolve) {
  if (specifier === 'async-hook-domain') return { url: domains, shortCircuit: true }
  if (specifier !== 'tap' || !context.parentURL?.endsWith('.ts')) return nextResolve(specifier, context)
  return { url: `${here}?of=${encodeURIComponent(context.parentURL)}`, shortCircuit: true }
}

export async function load(url, context, nextLoad) {
  if (!url.startsWith(`${here}?`)) return nextLoad(url, context)
  const source = `import { fileTest } from '${here}'\nexport default fileTest()`
  return { format: 'module', source, shortCircuit: true }
}
