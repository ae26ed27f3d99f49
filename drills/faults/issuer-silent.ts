import type { Drill } from '../drill.ts'

export const drill: Drill = {
  about: 'the issuer takes connections and answers nothing; its keys are known',
  cells: [['issuer', 'hangs']],
  alerts: ['SallyportIssuerDown'],
  prepare: () => ({ settings: { jwks: { refreshMs: 1_000 } } }),
  begin: ({ wires: { issuer } }) => issuer.freeze(),
  end: ({ wires: { issuer } }) => issuer.thaw(),
}
