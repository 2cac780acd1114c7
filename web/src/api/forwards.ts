// Web interfaces of pods at hosts of their own: what `minik8s dashboard` offers on the machine where it runs. The API server's
// own page has none, and answers something that is no list.
import { podBehind, portsOf, type Port } from '../lib/ports';
import { getJson, send } from './client';
import type { KubeObject } from './objects';

const PATH = '/ui/forwards';

export interface Forward {
  id: string;
  namespace: string;
  pod: string;
  port: number;
  secondsLeft: number;
}

/** Undefined where nobody forwards. */
export async function listForwards(): Promise<Forward[] | undefined> {
  const response = await send(PATH);
  if (!response.headers.get('content-type')?.startsWith('application/json')) return undefined;
  return ((await response.json()) as { items: Forward[] }).items;
}

/** A link that works once and within a minute. */
export async function openForward(wanted: { id: string } | { namespace: string; pod: string; port: number }): Promise<string> {
  const { url } = await getJson<{ url: string }>(PATH, { method: 'POST', body: JSON.stringify(wanted) });
  return url;
}

export async function closeForward(id: string): Promise<void> {
  await send(`${PATH}?id=${encodeURIComponent(id)}`, { method: 'DELETE' });
}

/** The pod itself, or one that is ready behind a Service. */
export async function targetOf(object: KubeObject): Promise<{ pod: string; ports: Port[] } | undefined> {
  const { namespace = '', name } = object.metadata;
  if (object.kind === 'Pod') return { pod: name, ports: portsOf(object) };
  const query = new URLSearchParams({ labelSelector: `kubernetes.io/service-name=${name}` });
  const slices = await getJson<{ items: Parameters<typeof podBehind>[0] }>(`/apis/discovery.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/endpointslices?${query}`);
  return podBehind(slices.items);
}
