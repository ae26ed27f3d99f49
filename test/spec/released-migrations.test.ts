import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'

// From 0.1.0 on migrations only add: databases keep the checksum of each file that ran.

/** Files of releases, by the SHA-256 of their bytes. A release adds its new files; no line changes or goes. */
const released: Readonly<Record<string, string>> = {
  'adopted/0100.do.tables.sql': 'aebf4635b9a4555fe6751597d7b2bd5ac6e7bc8e9c89a6b918a0e964b72971a5',
  'adopted/0102.do.watch.sql': '76231ffee6f410c86324c93e29d7985a8a2dbf07a1412eb591e4acd1bff68b5b',
  'own/0100.do.tables.sql': 'fcf18d89c6efd15b51a5906f3bd4c01fe85335b3602dfd7badad71a1bba1fa4a',
  'own/0102.do.views-and-triggers.sql': '4899b2ebe4032250e582d73b111739281be75e1bfc41fe7823c11734bede43da',
  'shared/0101.do.shared-tables.sql': '162163fa1380f99059a626d20e9939c1eefcefb2c0688097531c308cf982d309',
}

const folder = fileURLToPath(new URL('../../gateway/directory/postgres/migrations/', import.meta.url))
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => file.endsWith('.sql'))

const numberOf = (file: string): number => Number(/^(?:own|adopted|shared)\/(\d{4})\.do\.[a-z-]+\.sql$/.exec(file)?.[1])

t.test('a migration that was released is as it was', async (t) => {
  for (const [file, digest] of Object.entries(released))
    t.equal(
      createHash('sha256')
        .update(readFileSync(`${folder}${file}`))
        .digest('hex'),
      digest,
      file,
    )
})

t.test('each other migration has a higher number, and no database meets a number twice', async (t) => {
  const last = Math.max(...Object.keys(released).map(numberOf))
  for (const file of files.filter((file) => !(file in released))) t.ok(numberOf(file) > last, file)
  for (const kind of ['own', 'adopted']) {
    const numbers = files.filter((file) => file.startsWith('shared/') || file.startsWith(`${kind}/`)).map(numberOf)
    t.equal(new Set(numbers).size, numbers.length, kind)
  }
})
