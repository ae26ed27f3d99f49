/**
 * Credentials have no business in a path or in an error's message; where one is put there all the same, it stays out of
 * what is written down. So do the names and passwords of connection strings.
 */
export const redact = (text: string): string =>
  text.replace(/oat_[\w.%-]+|eyJ[\w-]{8,}\.[\w.-]+|(?<=:\/\/)[^/\s:@]*:[^/\s]*(?=@)/g, '[redacted]')
