// Whose logs belong to an object: a pod's containers, or the pods that a workload selects.
import { getJson, type Json } from './client';
import type { KubeObject } from './objects';

export interface LogSource {
  namespace: string;
  pod: string;
  container: string;
  /** Before each line, where there are several. */
  prefix: string;
}

/** Loopback has six connections for all of the page. */
export const MOST_PODS = 4;

export function containerNames(pod: KubeObject): string[] {
  const spec: (Json | undefined)[] = [pod.spec?.['containers'], pod.spec?.['initContainers']].flat();
  return spec.flatMap((one) => String((one as { name?: string } | undefined)?.name ?? '') || []);
}

export function hasLogs(kind: string): boolean {
  return ['Pod', 'Deployment', 'ReplicaSet', 'StatefulSet', 'DaemonSet', 'Job', 'ReplicationController'].includes(kind);
}

export async function logSources(object: KubeObject, container: string): Promise<LogSource[]> {
  const namespace = object.metadata.namespace ?? '';
  if (object.kind === 'Pod') return [{ namespace, pod: object.metadata.name, container, prefix: '' }];
  if (object.kind === 'GPUJob') return [{ namespace, pod: `${object.metadata.name}-submit`, container, prefix: '' }];
  const selector = object.kind === 'Function' ? `minik8s.io/function=${object.metadata.name}` : selectorOf(object);
  if (!selector) return [];
  const query = new URLSearchParams({ labelSelector: selector, limit: String(MOST_PODS) });
  const pods = await getJson<{ items: KubeObject[] }>(`/api/v1/namespaces/${namespace}/pods?${query}`);
  return pods.items.map((pod) => ({
    namespace,
    pod: pod.metadata.name,
    container: containerNames({ ...pod, kind: 'Pod' })[0] ?? '',
    prefix: `${pod.metadata.name.slice(object.metadata.name.length).replace(/^-/, '')} | `,
  }));
}

/** As a query: `app=web,tier in (a,b)`. */
export function selectorOf(object: KubeObject): string {
  const selector = object.spec?.['selector'] as
    | { matchLabels?: Record<string, string>; matchExpressions?: { key: string; operator: string; values?: string[] }[] }
    | Record<string, string>
    | undefined;
  if (!selector) return '';
  const isPlain = object.kind === 'ReplicationController';
  const labels = isPlain ? (selector as Record<string, string>) : ((selector.matchLabels ?? {}) as Record<string, string>);
  const parts = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  const expressions = isPlain ? [] : ((selector as { matchExpressions?: unknown }).matchExpressions ?? []);
  for (const one of expressions as { key: string; operator: string; values?: string[] }[]) {
    const values = `(${(one.values ?? []).join(',')})`;
    const forms: Record<string, string> = {
      In: `${one.key} in ${values}`, NotIn: `${one.key} notin ${values}`, Exists: one.key, DoesNotExist: `!${one.key}`,
    };
    parts.push(forms[one.operator] ?? '');
  }
  return parts.filter(Boolean).join(',');
}
