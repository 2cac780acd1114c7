// What the filter line means: words that must all be there. `key=value` asks for a label, `column:text` for a cell, and
// `!` before a word for its absence.
import type { Column, Row } from '../api/table';

export function filterRows(rows: Row[], columns: Column[], filter: string): Row[] {
  const words = filter.trim().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  const tests = words.map((word) => testOf(word, columns));
  return rows.filter((row) => tests.every((test) => test(row)));
}

function testOf(word: string, columns: Column[]): (row: Row) => boolean {
  if (word.startsWith('!') && word.length > 1) {
    const test = testOf(word.slice(1), columns);
    return (row) => !test(row);
  }
  const label = /^([^=:]+)=(.*)$/.exec(word);
  if (label) {
    const [, key = '', value] = label;
    return (row) => row.object.metadata.labels?.[key] === value;
  }
  const cell = /^([^:]+):(.+)$/.exec(word);
  const index = cell ? columns.findIndex((column) => same(column.name, cell[1] ?? '')) : -1;
  if (cell && index >= 0) {
    const raw = (cell[2] ?? '').toLowerCase();
    const isNot = raw.startsWith('!');
    const text = isNot ? raw.slice(1) : raw;
    return (row) => String(row.cells[index] ?? '').toLowerCase().includes(text) !== isNot;
  }
  const text = word.toLowerCase();
  return (row) =>
    (row.object.metadata.namespace ?? '').includes(text) ||
    row.cells.some((value) => String(value ?? '').toLowerCase().includes(text));
}

function same(a: string, b: string): boolean {
  return a.toLowerCase().replace(/\s/g, '') === b.toLowerCase();
}
