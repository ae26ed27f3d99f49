import { type Html, verbatim } from './html.ts'

/** A screen reader announces text that is set again, even if it is the same. */
const say = `'use strict'
const say = (id, text) => {
  const place = document.getElementById(id)
  if (place && place.textContent !== text) place.textContent = text
}
`

const filter = `
const search = document.getElementById('q')
const rows = [...document.querySelectorAll('#matrix-table tbody tr')]
const filter = () => {
  const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean)
  for (const row of rows) row.hidden = !words.every((word) => row.dataset.words.includes(word))
  say('matches', rows.filter((row) => !row.hidden).length + ' of ' + rows.length + ' routes')
}
search.addEventListener('input', filter)
search.form.addEventListener('submit', (event) => event.preventDefault())
search.form.hidden = false
document.getElementById('find').hidden = true
filter()
`

const refresh = `
const everyMs = 2000
const button = document.getElementById('pause')
let isPaused = false
let isLost = false
const tell = () => {
  button.textContent = isPaused ? 'Resume' : 'Pause'
  say('fresh', isLost ? 'The gateway does not answer. These are its last figures' : isPaused ? 'Paused' : 'Live, every 2 s')
  document.body.classList.toggle('lost', isLost)
}
// A part with the keyboard focus or a selection is not replaced.
const isInUse = (part) =>
  part.contains(document.activeElement) || (!getSelection().isCollapsed && getSelection().containsNode(part, true))
const refresh = async () => {
  const answer = await fetch('/console/live' + location.search, { cache: 'no-store', signal: AbortSignal.timeout(5000) })
  if (!answer.ok) throw new Error(String(answer.status))
  const live = new DOMParser().parseFromString(await answer.text(), 'text/html')
  if (isPaused) return
  for (const part of live.querySelectorAll('[data-live]')) {
    const here = document.getElementById(part.id)
    if (!here || here.innerHTML === part.innerHTML || isInUse(here)) continue
    here.className = part.className
    here.replaceChildren(...part.childNodes)
  }
}
const again = async () => {
  if (!isPaused && !document.hidden) {
    isLost = await refresh().then(() => false, () => true)
    tell()
  }
  setTimeout(again, everyMs)
}
button.hidden = false
button.addEventListener('click', () => {
  isPaused = !isPaused
  tell()
})
tell()
setTimeout(again, everyMs)
`

export const consoleScript: Html = verbatim(say + filter + refresh)

export const matrixScript: Html = verbatim(say + filter)
