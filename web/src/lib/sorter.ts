// Rows in order, kept in order as they change: with thousands of rows and hundreds of changes a second, sorting all of them
// anew for each frame would be all that the page does.
import type { Row } from '../api/table';

const words = new Intl.Collator(undefined, { numeric: true });

/** As people sort: `web-2` before `web-10`. Made once, since making it costs more than using it. */
export const compareWords = (a: string, b: string): number => words.compare(a, b);

export class Sorter {
  private sorted: Row[] = [];
  private order = '';

  /**
   * `order` names how it is sorted; `compare` must tell any two rows apart, and `key` is what of a row it looks at besides
   * what never changes of it.
   */
  sort(rows: Row[], order: string, compare: (a: Row, b: Row) => number, key: (row: Row) => unknown): Row[] {
    this.sorted = order === this.order ? this.renew(rows, compare, key) : [...rows].sort(compare);
    this.order = order;
    return this.sorted;
  }

  private renew(rows: Row[], compare: (a: Row, b: Row) => number, key: (row: Row) => unknown): Row[] {
    const next = new Map<string, Row>();
    for (const row of rows) next.set(row.object.metadata.uid, row);
    const kept: Row[] = [];
    for (const old of this.sorted) {
      const row = next.get(old.object.metadata.uid);
      if (!row || (row !== old && key(row) !== key(old))) continue;
      kept.push(row);
      next.delete(old.object.metadata.uid);
    }
    const moved = [...next.values()];
    if (moved.length === 0) return kept;
    if (moved.length * 8 > kept.length) return [...rows].sort(compare);
    return insert(kept, moved.sort(compare), compare);
  }
}

/** Each of a few among many that are in order. */
function insert(many: Row[], few: Row[], compare: (a: Row, b: Row) => number): Row[] {
  const all: Row[] = [];
  let done = 0;
  for (const row of few) {
    let [low, high] = [done, many.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(many[middle] as Row, row) < 0) low = middle + 1;
      else high = middle;
    }
    for (; done < low; done++) all.push(many[done] as Row);
    all.push(row);
  }
  for (; done < many.length; done++) all.push(many[done] as Row);
  return all;
}
