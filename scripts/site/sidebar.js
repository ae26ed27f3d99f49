// The sidebar of the site: the sections of docs/README.md with their pages, so that both show one order and one set of names.
import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'

/** A page by its file, as the site links it. */
const toLink = (file) => `/${file.replace(/(?:README)?\.md$/, '')}`

const titleOf = (root, file) => /^# (.+)$/m.exec(readFileSync(`${root}/${file}`, 'utf8'))?.[1] ?? file

/** The other pages in the folder of an index, beneath it. */
function listFolder(root, index) {
  const folder = posix.dirname(index)
  return readdirSync(`${root}/${folder}`)
    .filter((name) => name.endsWith('.md') && name !== 'README.md')
    .sort()
    .map((name) => ({ text: titleOf(root, `${folder}/${name}`), link: toLink(`${folder}/${name}`) }))
}

/** A page of the index. The root's README is the site's first page, and has no folder of documents. */
function composeItem(root, text, file) {
  const items = file !== 'README.md' && file.endsWith('/README.md') ? listFolder(root, file) : []
  return { text, link: toLink(file), ...(items.length > 0 && { collapsed: true, items }) }
}

/** `{ text, items }` for each section of the index, in its order. */
export function composeSidebar(root, index = 'docs/README.md') {
  const [, ...sections] = readFileSync(`${root}/${index}`, 'utf8').split(/^## /m)
  return sections.map((section) => {
    const [text] = section.split('\n')
    const links = [...section.matchAll(/\[([^\]]+)\]\(([^)#]+\.md)\)/g)]
    const items = links.map(([, name, path]) => composeItem(root, name, posix.join(posix.dirname(index), path)))
    return { text, items }
  })
}
