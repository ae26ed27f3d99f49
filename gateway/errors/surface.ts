export const surfaces = ['platform', 'data', 'model', 'files', 'graphql'] as const

export type Surface = (typeof surfaces)[number]

export const streamKinds = ['responses', 'chat'] as const

export type StreamKind = (typeof streamKinds)[number]
