import { createHash } from 'node:crypto'
import { type Html, html, toText, verbatim } from './html.ts'
import { style } from './style.ts'

/** A document that brings all it needs with it, and the policy that keeps it from anything else. */
export type Document = Readonly<{ text: string; contentSecurityPolicy: string }>

export type DocumentParts = Readonly<{
  title: string
  body: Html
  script: Html
  /** What this very origin may be asked for: forms and refreshing. */
  isServed: boolean
}>

/** A portcullis, as data: a request for an icon would be one more. */
const icon =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='3' fill='%231f4f86'/%3E%3Cpath d='M4 13V6a4 4 0 0 1 8 0v7M6.7 3v10M9.3 3v10M4 7h8M4 10h8' fill='none' stroke='white' stroke-width='1.1'/%3E%3C/svg%3E"

/** A file that is opened by hand has no headers: there the policy stands in the document as well. */
export function renderDocument({ title, body, script, isServed }: DocumentParts): Document {
  const ownOrigin = isServed ? "connect-src 'self'; form-action 'self'" : "form-action 'none'"
  const rules = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data:; base-uri 'none'; ${ownOrigin}`
  const meta = isServed ? undefined : html`<meta http-equiv="Content-Security-Policy" content="${rules}">\n`
  const page = html`${verbatim('<!doctype html>')}
<html lang="en">
<head>
<meta charset="utf-8">
${meta}<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${title}</title>
<link rel="icon" href="${icon}">
<style>${style}</style>
</head>
<body>
${body}<script>${script}</script>
</body>
</html>
`
  return { text: toText(page), contentSecurityPolicy: `${rules}; frame-ancestors 'none'` }
}

const hash = (part: Html): string => `'sha256-${createHash('sha256').update(toText(part)).digest('base64')}'`
