/** Whoever started something and ends it with itself: a tap test, or a program with a list of its own. */
export type Owner = Readonly<{ teardown: (end: () => unknown) => unknown }>
