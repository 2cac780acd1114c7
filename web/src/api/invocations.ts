// Calls of a function that are kept: made from here, listed while the page is open.
import { getJson } from './client';
import { apiVersion, pathOf, type Kind } from './kinds';
import type { KubeObject } from './objects';

export interface Invocation extends KubeObject {
  spec: { function: string; payload?: string };
  status?: { phase?: string; attempts?: number; code?: number; result?: string; completionTime?: string };
}

/** Makes a call; its result comes with its status. */
export async function invoke(kind: Kind, namespace: string, name: string, payload: string): Promise<Invocation> {
  const metadata = { generateName: `${name}-`, namespace };
  // Nobody waits longer than the page does: a call that fails is shown as it is, and not tried again unseen.
  const spec = { function: name, payload, contentType: 'application/json', attempts: 1 };
  const body = JSON.stringify({ apiVersion: apiVersion(kind), kind: kind.kind, metadata, spec });
  return await getJson<Invocation>(`${pathOf(kind, namespace)}?fieldManager=minik8s-dashboard`, { method: 'POST', body });
}

/** Milliseconds from the acceptance of a call to its end; the API tells seconds. */
export function tookOf(call: Invocation): string {
  const end = Date.parse(call.status?.completionTime ?? '');
  const start = Date.parse(call.metadata.creationTimestamp ?? '');
  if (Number.isNaN(end) || Number.isNaN(start)) return '';
  return end - start < 1000 ? '< 1 s' : `${Math.round((end - start) / 1000)} s`;
}
