const markup = Symbol('markup')

/** Text that may stand in a page as it is. Only `html` makes it; nothing that came over a wire can look like it. */
export type Html = Readonly<{ [markup]: string }>

type Value = string | number | undefined | Html | readonly Html[]

/** Puts values into markup. Whatever is no markup itself is escaped, for element contents and quoted attributes. */
export const html = (parts: TemplateStringsArray, ...values: readonly Value[]): Html => ({
  [markup]: parts.map((part, index) => part + (index < values.length ? write(values[index]) : '')).join(''),
})

/** Markup of our own that no value is part of: a style sheet, a script. */
export const verbatim = (text: string): Html => ({ [markup]: text })

export const toText = (page: Html): string => page[markup]

function write(value: Value): string {
  if (value === undefined) return ''
  if (typeof value === 'string') return escapeText(value)
  if (typeof value === 'number') return String(value)
  if (isList(value)) return value.map((part) => part[markup]).join('')
  return value[markup]
}

const isList = (value: Html | readonly Html[]): value is readonly Html[] => Array.isArray(value)

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Characters that turn the direction of writing could make one path look like another; controls show nothing at all. */
const escapeText = (text: string): string =>
  text.replace(/[\p{Bidi_Control}\p{Cc}]/gu, disarm).replace(/[&<>"']/g, (unit) => entities[unit] ?? unit)

const disarm = (unit: string): string => (unit === '\n' || unit === '\t' ? unit : '\ufffd')
