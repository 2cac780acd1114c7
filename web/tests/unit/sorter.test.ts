import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Row } from '../../src/api/table';
import { compareWords, Sorter } from '../../src/lib/sorter';

const row = (uid: number, value: number): Row => ({ cells: [value], object: { metadata: { uid: String(uid), name: `web-${uid}` } } });

test('rows stay in order, whatever changes, comes and goes', () => {
  // A fixed sequence that looks random.
  let state = 7;
  const next = (below: number): number => (state = (state * 48271) % 2147483647) % below;
  const compare = (a: Row, b: Row): number => Number(a.cells[0]) - Number(b.cells[0]) || compareWords(a.object.metadata.name, b.object.metadata.name);
  const sorter = new Sorter();
  const rows = new Map<number, Row>(Array.from({ length: 200 }, (_, i) => [i, row(i, next(50))]));
  for (let round = 0; round < 300; round++) {
    for (let i = next(12); i > 0; i--) {
      const uid = next(260);
      if (next(3) === 0) rows.delete(uid);
      else rows.set(uid, row(uid, next(50)));
    }
    const found = sorter.sort([...rows.values()], 'by value', compare, (one) => one.cells[0]);
    assert.deepEqual(found, [...rows.values()].sort(compare), `round ${round}`);
  }
  const down = sorter.sort([...rows.values()], 'down', (a, b) => compare(b, a), (one) => one.cells[0]);
  assert.deepEqual(down, [...rows.values()].sort((a, b) => compare(b, a)));
});
