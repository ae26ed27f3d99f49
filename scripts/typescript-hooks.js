// The hooks of `typescript.js`. They only strip types, which `npm run types` checks. Compiled files are kept, because
// compiling takes most of a small test's time.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

const require = createRequire(import.meta.url)
const kept = new URL('../.sallyport/compiled/', import.meta.url)
/** Another compiler, or other rules, would make another text. */
const compiler = [
  JSON.parse(readFileSync(require.resolve('typescript/package.json'), 'utf8')).version,
  readFileSync(new URL(import.meta.url)),
].join()

export async function load(url, context, loadNext) {
  if (!url.endsWith('.ts')) return loadNext(url, context)
  const text = await readFile(fileURLToPath(url), 'utf8')
  const name = nameOf(url, text)
  const source = await readFile(new URL(name, kept)).catch(() => compile(url, text, name))
  return { format: 'module', source, shortCircuit: true }
}

const nameOf = (url, text) => `${createHash('sha256').update(compiler).update(url).update(text).digest('hex')}.js`

/** Compiles what is not kept yet, for processes that start together: each would compile it again. */
export function compileAll(files) {
  for (const file of files) {
    const url = pathToFileURL(file).href
    const text = readFileSync(file, 'utf8')
    const name = nameOf(url, text)
    if (!existsSync(new URL(name, kept))) compile(url, text, name)
  }
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

/**
 * Written beside and then renamed, since other processes may read it at the same time. A failure to keep it does no
 * harm.
 */
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
