/** The names of what can be run in a module. */
type Runnable<Module> = {
  [Name in keyof Module]: Module[Name] extends (...given: never[]) => unknown ? Name : never
}[keyof Module]

type Given<Run> = Run extends (...given: infer All) => unknown ? All : never

/**
 * An action that loads what it needs as it runs: whoever asks for help, or every ten seconds for health, waits for no
 * driver of a database.
 */
export const lazyCommand =
  <Module, Name extends Runnable<Module>>(load: () => Promise<Module>, name: Name) =>
  async (...given: Given<Module[Name]>): Promise<void> => {
    const run = (await load())[name] as (...all: typeof given) => unknown
    await run(...given)
  }
