// Lets plain Node run the TypeScript of test/ and gateway/: `node --import=…/typescript.js FILE.ts`. Types are stripped
// here, and checked by `npm run types`.
import { readFile } from 'node:fs/promises'
import { register } from 'node:module'
import { fileURLToPath } from 'node:url'
import { isMainThread } from 'node:worker_threads'

// Node loads the hooks once more, in a thread of their own; only there is the compiler wanted.
if (isMainThread) register(import.meta.url)
const ts = isMainThread ? undefined : (await import('typescript')).default

const compilerOptions = ts && {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  verbatimModuleSyntax: true,
  inlineSourceMap: true,
}

export async function load(url, context, loadNext) {
  if (!url.endsWith('.ts')) return loadNext(url, context)
  const text = await readFile(fileURLToPath(url), 'utf8')
  const { outputText } = ts.transpileModule(text, { compilerOptions, fileName: url })
  return { format: 'module', source: outputText, shortCircuit: true }
}
