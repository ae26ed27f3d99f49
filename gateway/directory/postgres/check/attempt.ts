import type pg from 'pg'

export type Row = Readonly<Record<string, unknown>>

export async function attempt(
  client: pg.Client,
  text: string,
  values: readonly unknown[] = [],
): Promise<Readonly<{ rows: readonly Row[] } | { refusal: string }>> {
  await client.query('savepoint attempt')
  try {
    const { rows } = await client.query<Row>(text, [...values])
    await client.query('release savepoint attempt')
    return { rows }
  } catch (error) {
    await client.query('rollback to savepoint attempt')
    const { code, message } = error as Error & { code?: string }
    if (code === undefined) throw error // a lost connection, not a refused statement
    // A data exception (class 22) quotes a value, which may be a secret.
    return {
      refusal: code.startsWith('22') ? `a value does not have the form it should (${code})` : `${message} (${code})`,
    }
  }
}
