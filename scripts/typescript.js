// Lets plain Node run the TypeScript of test/ and gateway/, in threads as well: `node --import=…/typescript.js FILE.ts`.
import { register } from 'node:module'

register('./typescript-hooks.js', import.meta.url)
