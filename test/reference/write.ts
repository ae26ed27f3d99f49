import { writeFileSync } from 'node:fs'
import { composeReference, documentsFolder } from './reference.ts'

for (const [name, text] of Object.entries(await composeReference())) {
  writeFileSync(new URL(name, documentsFolder), text)
  process.stdout.write(`docs/${name}\n`)
}
