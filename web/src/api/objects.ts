// Whole objects: only the one that is open is read as such.
import { getJson, send, type Json, type JsonObject } from './client';
import { pathOf, type Kind } from './kinds';
import type { Metadata } from './table';

export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: Metadata & JsonObject;
  spec?: JsonObject;
  status?: JsonObject;
  [field: string]: Json | undefined;
}

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface KubeEvent {
  metadata: { uid: string; namespace?: string };
  type?: string;
  reason?: string;
  message?: string;
  count?: number;
  series?: { count?: number; lastObservedTime?: string };
  lastTimestamp?: string;
  eventTime?: string;
  firstTimestamp?: string;
  involvedObject: { kind?: string; name?: string; namespace?: string; uid?: string };
  source?: { component?: string };
}

export async function getObject(kind: Kind, namespace: string, name: string): Promise<KubeObject> {
  return await getJson<KubeObject>(pathOf(kind, namespace, name));
}

export function conditionsOf(object: KubeObject): Condition[] {
  const found = object.status?.['conditions'];
  return Array.isArray(found) ? (found as unknown as Condition[]) : [];
}

export async function getEvents(object: KubeObject): Promise<KubeEvent[]> {
  const namespace = object.metadata.namespace || 'default';
  const fields = `involvedObject.uid=${object.metadata.uid}`;
  const byUid = await listEvents(`/api/v1/namespaces/${namespace}/events`, fields);
  if (byUid.length > 0 || object.kind !== 'Node') return byUid;
  // Agents know their node by name only.
  return await listEvents('/api/v1/events', `involvedObject.kind=Node,involvedObject.name=${object.metadata.name}`);
}

export async function listEvents(path: string, fields = '', limit = 500): Promise<KubeEvent[]> {
  const query = new URLSearchParams({ limit: String(limit) });
  if (fields) query.set('fieldSelector', fields);
  const list = await getJson<{ items: KubeEvent[] }>(`${path}?${query}`);
  return list.items.sort((a, b) => eventTime(b).localeCompare(eventTime(a)));
}

export function eventTime(event: KubeEvent): string {
  return event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.firstTimestamp ?? '';
}

export function eventCount(event: KubeEvent): number {
  return event.series?.count ?? event.count ?? 1;
}

export async function remove(kind: Kind, namespace: string, name: string): Promise<void> {
  await send(pathOf(kind, namespace, name), { method: 'DELETE' });
}

export async function mergePatch(kind: Kind, namespace: string, name: string, patch: Json, sub = ''): Promise<void> {
  const type = 'application/merge-patch+json';
  await send(pathOf(kind, namespace, name, sub), { method: 'PATCH', type, body: JSON.stringify(patch) });
}

const REVISION = 'deployment.kubernetes.io/revision';

/** As `kubectl rollout undo` does it: the template of the revision before. Answers its number. */
export async function undo(kind: Kind, deployment: KubeObject): Promise<number> {
  const { namespace = '', name, uid } = deployment.metadata;
  const path = `/apis/apps/v1/namespaces/${encodeURIComponent(namespace)}/replicasets`;
  const sets = await getJson<{ items: KubeObject[] }>(path);
  const before = previousTemplate(sets.items, uid, Number(deployment.metadata.annotations?.[REVISION]));
  if (!before) throw new Error(`deployment ${name} has no revision before this one`);
  const body = JSON.stringify([{ op: 'replace', path: '/spec/template', value: before.template }]);
  await send(pathOf(kind, namespace, name), { method: 'PATCH', type: 'application/json-patch+json', body });
  return before.revision;
}

/** The newest revision below the current one, without the label that tells its pods apart. */
export function previousTemplate(sets: KubeObject[], owner: string, current: number): { revision: number; template: JsonObject } | undefined {
  const revisionOf = (set: KubeObject): number => Number(set.metadata.annotations?.[REVISION] ?? 0);
  const own = sets.filter((set) => set.metadata.ownerReferences?.some((one) => one.uid === owner));
  const [newest] = own.filter((set) => revisionOf(set) < current).sort((a, b) => revisionOf(b) - revisionOf(a));
  if (!newest) return undefined;
  const template = JSON.parse(JSON.stringify(newest.spec?.['template'] ?? {})) as JsonObject & { metadata?: { labels?: JsonObject } };
  delete template.metadata?.labels?.['pod-template-hash'];
  return { revision: revisionOf(newest), template };
}

/** As `kubectl rollout restart` does it. */
export async function restart(kind: Kind, namespace: string, name: string): Promise<void> {
  const annotations = { 'kubectl.kubernetes.io/restartedAt': new Date().toISOString() };
  await mergePatch(kind, namespace, name, { spec: { template: { metadata: { annotations } } } });
}
