import { createHash } from 'node:crypto'
import { type Html, html, toText, verbatim } from './html.ts'
import { style } from './style.ts'

/** A document without outside resources, and the policy that forbids them. */
export type Document = Readonly<{ text: string; contentSecurityPolicy: string }>

export type DocumentParts = Readonly<{
  title: string
  body: Html
  script: Html
  isServed: boolean
}>

const icon =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='3' fill='%231f4f86'/%3E%3Cpath d='M4 13V6a4 4 0 0 1 8 0v7M6.7 3v10M9.3 3v10M4 7h8M4 10h8' fill='none' stroke='white' stroke-width='1.1'/%3E%3C/svg%3E"

/** A file opened by hand has no headers, so it carries its policy in a meta element. */
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
