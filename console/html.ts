const markup = Symbol('markup')

/** Escaped markup. Only this module can make it, so text from the network never passes for it. */
export type Html = Readonly<{ [markup]: string }>

type Value = string | number | undefined | Html | readonly Html[]

/** Escapes every value that is not markup, for element contents and quoted attributes. */
export const html = (parts: TemplateStringsArray, ...values: readonly Value[]): Html => ({
  [markup]: parts.map((part, index) => part + (index < values.length ? write(values[index]) : '')).join(''),
})

/** For constants such as a style sheet or a script; never for a value. */
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

/** Bidirectional controls could make one path look like another; other controls are invisible. */
const escapeText = (text: string): string =>
  text.replace(/[\p{Bidi_Control}\p{Cc}]/gu, disarm).replace(/[&<>"']/g, (unit) => entities[unit] ?? unit)

const disarm = (unit: string): string => (unit === '\n' || unit === '\t' ? unit : '\ufffd')
