import { readdirSync, readFileSync } from 'node:fs'

/** Fenced code of a document. */
export type CodeBlock = Readonly<{ file: string; line: number; language: string; text: string }>

const root = new URL('../../', import.meta.url)

const isProse = (file: string): boolean => file.endsWith('.md')

/** Every document that users read, by its path from the root. */
export const listDocuments = (): readonly string[] => [
  ...readdirSync(root).filter(isProse),
  ...readdirSync(new URL('docs/', root), { recursive: true, encoding: 'utf8' })
    .filter(isProse)
    .map((file) => `docs/${file}`),
]

/** Those beside them that a reader of the sources meets. */
export const listAllDocuments = (): readonly string[] => [
  ...listDocuments(),
  'helm/sallyport/README.md',
  'test/README.md',
  'test/advisories/README.md',
  'gateway/http/README.md',
]

export const readDocument = (file: string): string => readFileSync(new URL(file, root), 'utf8')

/** All code between fences, also within lists. */
export const listCodeBlocks = (): readonly CodeBlock[] =>
  listDocuments().flatMap((file) => {
    const text = readDocument(file)
    return [...text.matchAll(/^( *)```(\w*)\n([\s\S]*?)^\1```$/gm)].map(
      ({ index, 1: indent = '', 2: language = '', 3: body = '' }) => ({
        file,
        line: text.slice(0, index).split('\n').length,
        language,
        text: body.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
      }),
    )
  })
