// What `typescript.js` registers. Types are stripped here, and checked by `npm run types`. What was compiled once is kept:
// most of a small test's time would go there.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const require = createRequire(import.meta.url)
const kept = new URL('../.sallyport/compiled/', import.meta.url)
/** Of another compiler, or by other rules, it would be another text. */
const compiler = [
  JSON.parse(readFileSync(require.resolve('typescript/package.json'), 'utf8')).version,
  readFileSync(new URL(import.meta.url)),
].join()

export async function load(url, context, loadNext) {
  if (!url.endsWith('.ts')) return loadNext(url, context)
  const text = await readFile(fileURLToPath(url), 'utf8')
  const name = `${createHash('sha256').update(compiler).update(url).update(text).digest('hex')}.js`
  const source = await readFile(new URL(name, kept)).catch(() => compile(url, text, name))
  return { format: 'module', source, shortCircuit: true }
}

function compile(url, text, name) {
  const ts = require('typescript')
  const { outputText } = ts.transpileModule(text, {
    fileName: url,
    compilerOptions: {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.ESNext,
      verbatimModuleSyntax: true,
      inlineSourceMap: true,
    },
  })
  keep(name, outputText)
  return outputText
}

/** Beside, then renamed: other processes may look for it at the same time. Where nothing can be kept, all goes on. */
function keep(name, text) {
  try {
    mkdirSync(kept, { recursive: true })
    const fresh = new URL(`${name}-${process.pid}`, kept)
    writeFileSync(fresh, text)
    renameSync(fresh, new URL(name, kept))
  } catch (error) {
    if (process.env.DEBUG) console.error(error)
  }
}
