import { type Html, html } from './html.ts'

/** A sign, a word and a colour, so that no state depends on colour alone. Undefined is neither good nor bad. */
export function state(isGood: boolean | undefined, word: string): Html {
  if (isGood === undefined) return html`<span class="state idle"><span aria-hidden="true">○</span> ${word}</span>`
  return isGood
    ? html`<span class="state good"><span aria-hidden="true">●</span> ${word}</span>`
    : html`<span class="state bad"><span aria-hidden="true">▲</span> ${word}</span>`
}

export const formatTime = (iso: string, now: Date): Html =>
  html`<time datetime="${iso}">${iso.slice(0, 19).replace('T', ' ')}</time> <span class="quiet">(${ago(iso, now)})</span>`

export const ago = (iso: string, now: Date): string =>
  `${duration((now.getTime() - new Date(iso).getTime()) / 1_000)} ago`

export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  if (whole < 120) return `${whole} s`
  if (whole < 7_200) return `${Math.round(whole / 60)} min`
  if (whole < 172_800) return `${Math.round(whole / 3_600)} h`
  return `${Math.round(whole / 86_400)} days`
}

export const amount = (value: number): string => Math.round(value).toLocaleString('en-GB')

export const percent = (part: number, whole: number): string =>
  whole === 0 ? '–' : `${((part / whole) * 100).toFixed(part === whole || part === 0 ? 0 : 1)} %`

export function formatMs(ms: number | undefined): string {
  if (ms === undefined) return '–'
  if (ms >= 10_000) return `${Math.round(ms / 1_000)} s`
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(1)} s`
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`
}
