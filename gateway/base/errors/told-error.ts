/** The error that an upstream wrote itself. */
export type ToldError = Readonly<{ message: string; type?: string; code?: string | number | null }>
