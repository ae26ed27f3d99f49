type Runnable<Module> = {
  [Name in keyof Module]: Module[Name] extends (...given: never[]) => unknown ? Name : never
}[keyof Module]

type Given<Run> = Run extends (...given: infer All) => unknown ? All : never

/** Imports the action's module when it runs, so that help and health checks do not load the database driver. */
export const lazyCommand =
  <Module, Name extends Runnable<Module>>(load: () => Promise<Module>, name: Name) =>
  async (...given: Given<Module[Name]>): Promise<void> => {
    const run = (await load())[name] as (...all: typeof given) => unknown
    await run(...given)
  }
