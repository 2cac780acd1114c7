// Which pods leave a node that is drained, as `kubectl drain --ignore-daemonsets --delete-emptydir-data` has it. Pure.
import type { KubeObject } from '../api/objects';

export type Fate = 'evict' | 'daemon' | 'static' | 'done' | 'alone';

export function fateOf(pod: KubeObject): Fate {
  const phase = String(pod.status?.['phase'] ?? '');
  if (phase === 'Succeeded' || phase === 'Failed') return 'done';
  if (pod.metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined) return 'static';
  const owner = pod.metadata.ownerReferences?.find((one) => one.controller);
  if (owner?.kind === 'DaemonSet') return 'daemon';
  // Nobody makes it anew: it is gone for good.
  return owner ? 'evict' : 'alone';
}
