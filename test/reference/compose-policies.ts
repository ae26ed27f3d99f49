import { code, composeHead, composeKeys } from './markdown.ts'
import { listKeys, readSchema, type SchemaKey } from './schema-keys.ts'

const introduction = `Every key of \`policies/*.yaml\`, from the [schema](../../policies/policy.schema.json), and of the expectations beside them,
\`*.test.yaml\`, from [theirs](../../policies/policy-test.schema.json). How to write them: [Write policies](../guides/write-policies.md),
[Change policies](../guides/change-policies.md).`

/** The page of all that policy files may say. */
export const composePolicies = (): string =>
  [
    composeHead('Policy keys', introduction),
    ...listKeys(readSchema('policies/policy.schema.json')).map(composeSection),
    '\n# Expectations\n',
    ...listKeys(readSchema('policies/policy-test.schema.json')).map(composeSection),
  ].join('')

const composeSection = (key: SchemaKey): string => `\n## ${code(key.path)}\n\n${composeKeys(key)}`
