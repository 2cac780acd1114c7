// The cluster then and now: what went, came and changed between two lists. Pure.
import type { Row } from '../api/table';

export type Since = 'gone' | 'changed' | 'same' | 'new';

export interface Compared {
  row: Row;
  since: Since;
}

/** Everything of then, and what has come since, by name. */
export function compare(then: Row[], now: Row[]): Compared[] {
  const present = new Map(now.map((row) => [row.object.metadata.uid, row]));
  const known = new Set(then.map((row) => row.object.metadata.uid));
  const old = then.map((row): Compared => {
    const current = present.get(row.object.metadata.uid);
    if (!current) return { row, since: 'gone' };
    const isSame = current.object.metadata.resourceVersion === row.object.metadata.resourceVersion;
    return { row, since: isSame ? 'same' : 'changed' };
  });
  const fresh = now.filter((row) => !known.has(row.object.metadata.uid)).map((row): Compared => ({ row, since: 'new' }));
  return [...old, ...fresh];
}

/** The last moment that is not after a time. */
export function momentAt(moments: (readonly [number, string])[], at: number): number {
  let found = 0;
  moments.forEach(([time], i) => {
    if (time <= at) found = i;
  });
  return found;
}

export function agoText(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 120 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
