import type { Drill } from '../drill.ts'

export const drill: Drill = {
  about: 'the issuer resets every connection; its keys are known',
  cells: [['issuer', 'refuses']],
  alerts: ['SallyportIssuerDown'],
  prepare: () => ({ settings: { jwks: { refreshMs: 1_000 } } }),
  begin: ({ wires: { issuer } }) => {
    issuer.refuse()
    issuer.cut()
  },
  end: ({ wires: { issuer } }) => issuer.accept(),
}
