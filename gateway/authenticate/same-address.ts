/**
 * Whether two e-mail addresses are one: without case in ASCII alone. `toLowerCase` folds other letters into ASCII, such
 * as the Kelvin sign into "k", and would make two mailboxes one.
 */
export const isSameAddress = (left: string, right: string): boolean => foldAscii(left) === foldAscii(right)

const foldAscii = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
