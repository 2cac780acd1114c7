// Who owns whom: upwards along owner references, downwards among the kinds that workloads make.
import { getJson } from './client';
import { pathOf, type Kind } from './kinds';
import type { KubeObject } from './objects';
import { AS_TABLE, type Row, type Table } from './table';

export interface Relative {
  kind: Kind;
  namespace: string;
  name: string;
  uid: string;
  /** What its table says: ready, status. */
  state: string;
  children: Relative[];
}

/** What kinds can own, as far as we follow it. */
const CHILDREN: Record<string, string[]> = {
  Deployment: ['ReplicaSet'],
  ReplicaSet: ['Pod'],
  StatefulSet: ['Pod', 'PersistentVolumeClaim'],
  DaemonSet: ['Pod'],
  ReplicationController: ['Pod'],
  CronJob: ['Job'],
  Job: ['Pod'],
  Service: ['EndpointSlice'],
};

export type FindKind = (kind: string, group?: string) => Kind | undefined;

/** The topmost owner with everything below it. */
export async function familyOf(object: KubeObject, find: FindKind): Promise<Relative | undefined> {
  let top = object;
  for (;;) {
    const reference = top.metadata.ownerReferences?.find((owner) => owner.controller) ?? top.metadata.ownerReferences?.[0];
    const group = reference?.apiVersion.includes('/') ? reference.apiVersion.split('/')[0] : '';
    const kind = reference && find(reference.kind, group);
    if (!reference || !kind) break;
    try {
      const namespace = kind.namespaced ? (object.metadata.namespace ?? '') : '';
      top = await getJson<KubeObject>(pathOf(kind, namespace, reference.name));
    } catch {
      // Gone, or not for this user to see: the family begins below it.
      break;
    }
  }
  const group = top.apiVersion.includes('/') ? (top.apiVersion.split('/')[0] ?? '') : '';
  const kind = find(top.kind, group);
  if (!kind) return undefined;
  const namespace = top.metadata.namespace ?? '';
  const root: Relative = { kind, namespace, name: top.metadata.name, uid: top.metadata.uid, state: '', children: [] };
  await addChildren([root], namespace, find);
  return root;
}

async function addChildren(parents: Relative[], namespace: string, find: FindKind): Promise<void> {
  const names = new Set(parents.flatMap((parent) => CHILDREN[parent.kind.kind] ?? []));
  const next: Relative[] = [];
  for (const name of names) {
    const kind = find(name);
    if (!kind) continue;
    const table = await getJson<Table>(pathOf(kind, namespace), { accept: AS_TABLE });
    for (const row of table.rows ?? []) {
      const owner = parents.find((parent) => row.object.metadata.ownerReferences?.some((one) => one.uid === parent.uid));
      if (!owner) continue;
      const { metadata } = row.object;
      const child: Relative = { kind, namespace, name: metadata.name, uid: metadata.uid, state: stateOf(table, row), children: [] };
      owner.children.push(child);
      next.push(child);
    }
  }
  if (next.length > 0) await addChildren(next, namespace, find);
}

function stateOf(table: Table, row: Row): string {
  const columns = table.columnDefinitions ?? [];
  const cell = (name: string): string => {
    const index = columns.findIndex((column) => column.name === name);
    return index < 0 ? '' : String(row.cells[index] ?? '');
  };
  if (cell('Desired')) return `${cell('Ready')}/${cell('Desired')}`;
  return cell('Status') || cell('Completions') || cell('Ready');
}
