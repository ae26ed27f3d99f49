/** A copy of latin1 text. A slice would keep the whole text that it comes from, such as the head of a request. */
export const ownText = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')
