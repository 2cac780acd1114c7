// Lists as the server's tables: what `kubectl get` shows, a tenth of the bytes of the objects themselves.

import { compareWords } from '../lib/sorter';

export interface Column {
  name: string;
  type: string;
  format?: string;
  description?: string;
  /** 0 is always shown, others on request. */
  priority: number;
}

export interface Metadata {
  name: string;
  namespace?: string;
  uid: string;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string; controller?: boolean }[];
  resourceVersion?: string;
}

export interface Row {
  cells: (string | number | boolean | null)[];
  object: { metadata: Metadata };
}

export interface Table {
  kind: 'Table';
  metadata: { resourceVersion?: string; continue?: string; remainingItemCount?: number };
  columnDefinitions?: Column[];
  rows?: Row[];
}

export interface WatchEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  object: Table & { code?: number; message?: string };
}

export const AS_TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';

/** Rows by their uid, changed by one event after another. Returns whether anything is to be shown anew. */
export function applyEvent(rows: Map<string, Row>, event: WatchEvent): boolean {
  if (event.type === 'BOOKMARK' || event.type === 'ERROR') return false;
  for (const row of event.object.rows ?? []) {
    const { uid } = row.object.metadata;
    if (event.type === 'DELETED') rows.delete(uid);
    else rows.set(uid, row);
  }
  return (event.object.rows ?? []).length > 0;
}

/** The version to go on watching from. */
export function versionOf(event: WatchEvent): string | undefined {
  return event.object.metadata?.resourceVersion || event.object.rows?.at(-1)?.object.metadata.resourceVersion;
}

/** Cells as people compare them: numbers by value, `2/3` by its first number, the rest as text. */
export function compareCells(a: Row['cells'][number], b: Row['cells'][number]): number {
  const [x, y] = [Number.parseFloat(String(a)), Number.parseFloat(String(b))];
  const both = !Number.isNaN(x) && !Number.isNaN(y) && /^[\d./%]+$/.test(`${a}${b}`);
  return both ? x - y : compareWords(String(a ?? ''), String(b ?? ''));
}
