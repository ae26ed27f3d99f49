/** The dialects in which a response can be written (SPEC section 7). */
export const surfaces = ['platform', 'data', 'model', 'files', 'graphql'] as const

export type Surface = (typeof surfaces)[number]

/** What the event streams of the `model` surface speak: the Responses API, or Chat Completions. */
export const streamKinds = ['responses', 'chat'] as const

export type StreamKind = (typeof streamKinds)[number]
