export const surfaces = ['platform', 'data', 'model', 'files', 'graphql'] as const

export type Surface = (typeof surfaces)[number]

export const streamKinds = ['responses', 'chat'] as const

export type StreamKind = (typeof streamKinds)[number]

/** The dialect of an event stream, and its good end: an event that says so, or the `finish_reason` of each choice. */
export type StreamRules = Readonly<{ kind: StreamKind; end: 'marker' | 'finishReason' }>
