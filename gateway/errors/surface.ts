/** The dialects in which a response can be written (SPEC section 7). */
export const surfaces = ['platform', 'data', 'model', 'files', 'graphql'] as const

export type Surface = (typeof surfaces)[number]
