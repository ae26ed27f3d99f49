// The loader of all TypeScript that is run from its sources, by the name that the benches know.
import '../../scripts/typescript.js'
