import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const environments = fileURLToPath(new URL('../../.sallyport/python', import.meta.url))

/** The environments that `scripts/install-tools.js python` makes, and the variables that name interpreters instead. */
export const pythonVariables = {
  'openai-1': 'SALLYPORT_PYTHON_OPENAI_1',
  'openai-newest': 'SALLYPORT_PYTHON_OPENAI_NEWEST',
  pyjwt: 'SALLYPORT_PYTHON_PYJWT',
} as const

export type PythonEnvironment = keyof typeof pythonVariables

/** Undefined without the environment. */
export function findPython(name: PythonEnvironment): string | undefined {
  const named = process.env[pythonVariables[name]]
  if (named) return named
  const environment = `${environments}/${name}`
  // Written last, so a half-made environment does not count.
  return existsSync(`${environment}/.requirements`) ? `${environment}/bin/python` : undefined
}

/** The reason to skip. */
export const describePythonLack = (name: PythonEnvironment): string =>
  `there is no ${name}: run scripts/install-tools.js python, or set ${pythonVariables[name]}`
