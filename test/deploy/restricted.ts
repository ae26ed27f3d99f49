import type { Manifest } from '../support/deploy.ts'

/** The template of the pods that an object makes; undefined where it makes none. */
export const podTemplateOf = ({ kind, spec }: Manifest): Manifest | undefined =>
  kind === 'Pod' ? { spec } : ['Deployment', 'Job'].includes(kind) ? spec.template : undefined

/** Volumes that Pod Security "restricted" lets a pod have. */
const volumeKinds = [
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
]

/** Breaches of Pod Security "restricted" and of this project's rules; empty for a good pod. */
export function complaintsAbout({ spec }: Manifest): readonly string[] {
  const containers: readonly Manifest[] = [...(spec.initContainers ?? []), ...spec.containers]
  const shared = ['hostNetwork', 'hostPID', 'hostIPC'].filter((name) => spec[name])
  return [
    ...shared.map((name) => `shares the node: ${name}`),
    ...(spec.automountServiceAccountToken === false ? [] : ['mounts a token']),
    ...(spec.enableServiceLinks === false ? [] : ['gets variables of Services']),
    ...(spec.securityContext?.runAsNonRoot === true ? [] : ['may be root']),
    ...(spec.securityContext?.seccompProfile?.type === 'RuntimeDefault' ? [] : ['runs without seccomp']),
    ...(spec.volumes ?? []).flatMap((volume: Manifest) =>
      volumeKinds.some((kind) => kind in volume) ? [] : [`volume ${volume.name} is of the node`],
    ),
    ...containers.flatMap(complaintsAboutContainer),
  ]
}

function complaintsAboutContainer({ name, securityContext: context = {}, resources = {}, env = [] }: Manifest) {
  const capabilities: Manifest = context.capabilities ?? {}
  const broken: Readonly<Record<string, boolean>> = {
    'may gain privileges': context.allowPrivilegeEscalation !== false,
    'is privileged': Boolean(context.privileged),
    'may be root': context.runAsNonRoot === false || context.runAsUser === 0,
    'may write its root': context.readOnlyRootFilesystem !== true,
    'keeps capabilities': capabilities.drop?.join() !== 'ALL' || (capabilities.add ?? []).length > 0,
    'runs without seccomp': !['RuntimeDefault', undefined].includes(context.seccompProfile?.type),
    'has no limits': !resources.limits?.cpu || !resources.limits?.memory,
    'is promised nothing': !resources.requests?.cpu || !resources.requests?.memory,
    'has a secret in clear': env.some(({ value = '' }: Manifest) => /:\/\/[^/@]*:[^/@]*@|PRIVATE KEY/.test(value)),
  }
  return Object.keys(broken).flatMap((what) => (broken[what] ? [`${name} ${what}`] : []))
}
