// The loader of TypeScript sources, under the path that benches give to `--import`.
import '../scripts/typescript.js'
