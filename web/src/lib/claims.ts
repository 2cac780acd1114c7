// Which pods use which claim. Pure.
import type { KubeObject } from '../api/objects';

/** Names of pods that have not ended, by `namespace/claim`. */
export function usersOf(pods: KubeObject[]): Map<string, string[]> {
  const users = new Map<string, string[]>();
  for (const pod of pods) {
    if (['Succeeded', 'Failed'].includes(String(pod.status?.['phase']))) continue;
    const volumes = Array.isArray(pod.spec?.['volumes']) ? pod.spec['volumes'] : [];
    for (const volume of volumes as { name: string; persistentVolumeClaim?: { claimName: string }; ephemeral?: object }[]) {
      // A generic ephemeral volume's claim has the names of both.
      const claim = volume.persistentVolumeClaim?.claimName ?? (volume.ephemeral && `${pod.metadata.name}-${volume.name}`);
      if (!claim) continue;
      const key = `${pod.metadata.namespace ?? ''}/${claim}`;
      users.set(key, [...(users.get(key) ?? []), pod.metadata.name]);
    }
  }
  return users;
}
