import { mkdirSync, writeFileSync } from 'node:fs'
import { composeReference, referenceFolder } from './reference.ts'

mkdirSync(referenceFolder, { recursive: true })
for (const [name, text] of Object.entries(await composeReference())) {
  writeFileSync(new URL(name, referenceFolder), text)
  process.stdout.write(`docs/reference/${name}\n`)
}
