import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import { findManifest, type Manifest, repository } from './deploy.ts'
import { type Mount, nobody } from './sandbox.ts'

/** Files of a folder with their contents; null stands for a fresh private key. */
export type Content = Readonly<Record<string, string | null>>

/** Folders with these files, to be mounted at these places; readable to the group alone, as Kubernetes mounts Secrets. */
export function mountContents(folder: string, contents: Readonly<Record<string, Content>>): readonly Mount[] {
  return Object.entries(contents).map(([to, files], index) => {
    const from = join(folder, String(index))
    mkdirSync(from)
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(from, name), text ?? generatePem('EdDSA'))
      // A root test gives the file to the group of the pod. Any other test runs the pod as its own user and group.
      if (process.getuid?.() === 0) chownSync(join(from, name), 0, nobody.gid)
      chmodSync(join(from, name), 0o440)
    }
    return { from, to }
  })
}

/** The policy files of this repository. */
export const shippedPolicies = (): Content =>
  Object.fromEntries(
    readdirSync(join(repository, 'policies'))
      .filter((file) => /^[a-z]+\.yaml$/.test(file))
      .map((file) => [file, readFileSync(join(repository, 'policies', file), 'utf8')]),
  )

/** Contents of a pod's volumes at their mount paths: ConfigMaps of the chart, and Secrets by their names. */
export function contentsOfPod(
  spec: Manifest,
  manifests: readonly Manifest[],
  secrets: Readonly<Record<string, Content>>,
): Readonly<Record<string, Content>> {
  const read = ({ configMap, secret }: Manifest): Content =>
    configMap
      ? findManifest(manifests, 'ConfigMap', configMap.name).data
      : pick(secret, secrets[secret.secretName] ?? {})
  const volumes = new Map<string, Content>((spec.volumes ?? []).map((volume: Manifest) => [volume.name, read(volume)]))
  return Object.fromEntries(
    (spec.containers[0].volumeMounts ?? []).map(({ name, mountPath }: Manifest) => [
      mountPath,
      volumes.get(name) ?? {},
    ]),
  )
}

/** The items of a Secret under the names that they get; one that it lacks would keep a pod from starting. */
const pick = ({ items, secretName }: Manifest, content: Content): Content =>
  Object.fromEntries(
    items.map(({ key, path }: Manifest) => {
      if (!(key in content)) throw new Error(`${secretName} has no ${key}`)
      return [path, content[key]]
    }),
  )
