// What the overview says, from tables: pure, so that five thousand pods are a loop and nothing more.
import type { Column, Row } from '../api/table';
import { toneOf, type Tone } from './tone';

export interface PodCounts {
  all: number;
  running: number;
  waiting: number;
  failing: number;
  done: number;
}

export interface Cell {
  uid: string;
  name: string;
  namespace: string;
  status: string;
  tone: Tone;
}

function indexOf(columns: Column[], name: string): number {
  return columns.findIndex((column) => column.name === name);
}

/** A pod that runs without being ready is not yet well. */
export function podTone(columns: Column[], row: Row): Tone {
  const status = String(row.cells[indexOf(columns, 'Status')] ?? '');
  const [ready, all] = String(row.cells[indexOf(columns, 'Ready')] ?? '').split('/');
  const tone = toneOf(status);
  return tone === 'good' && ready !== all ? 'busy' : tone;
}

export function countPods(columns: Column[], rows: Row[]): PodCounts {
  const counts: PodCounts = { all: rows.length, running: 0, waiting: 0, failing: 0, done: 0 };
  const field = { good: 'running', busy: 'waiting', bad: 'failing', done: 'done', none: 'waiting' } as const;
  for (const row of rows) counts[field[podTone(columns, row)]]++;
  return counts;
}

/** Pods by the node that they are on; those without one under the empty name. */
export function podsByNode(columns: Column[], rows: Row[]): [string, Cell[]][] {
  const [status, node] = [indexOf(columns, 'Status'), indexOf(columns, 'Node')];
  const found = new Map<string, Cell[]>();
  for (const row of rows) {
    const place = String(row.cells[node] ?? '').replace('<none>', '');
    const { uid, name, namespace = '' } = row.object.metadata;
    const cell = { uid, name, namespace, status: String(row.cells[status] ?? ''), tone: podTone(columns, row) };
    const cells = found.get(place);
    if (cells) cells.push(cell);
    else found.set(place, [cell]);
  }
  return [...found].sort(([a], [b]) => Number(a === '') - Number(b === '') || a.localeCompare(b, undefined, { numeric: true }));
}

/** Pods that need somebody: failing ones first, then those that wait for longer than a start takes. */
export function troubled(columns: Column[], rows: Row[], now: number, most: number): Row[] {
  const patience = 10_000;
  const isLate = (row: Row): boolean => now - Date.parse(row.object.metadata.creationTimestamp ?? '') > patience;
  const bad = rows.filter((row) => podTone(columns, row) === 'bad');
  const late = rows.filter((row) => podTone(columns, row) === 'busy' && isLate(row));
  return [...bad, ...late].slice(0, most);
}
