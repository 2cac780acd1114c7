// Two texts line by line: what stays, goes and comes. Myers' shortest edit script, between the equal head and tail.
export interface Change {
  sign: ' ' | '-' | '+';
  text: string;
}

export function diffLines(before: string, after: string): Change[] {
  const [a, b] = [before.split('\n'), after.split('\n')];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const same = (lines: string[]): Change[] => lines.map((text) => ({ sign: ' ', text }));
  return [
    ...same(a.slice(0, head)),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...same(a.slice(a.length - tail)),
  ];
}

function middle(a: string[], b: string[]): Change[] {
  const trace: Map<number, number>[] = [];
  let ends = new Map<number, number>([[1, 0]]);
  for (let steps = 0; steps <= a.length + b.length; steps++) {
    trace.push(new Map(ends));
    for (let k = -steps; k <= steps; k += 2) {
      const down = k === -steps || (k !== steps && at(ends, k - 1) < at(ends, k + 1));
      let x = down ? at(ends, k + 1) : at(ends, k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      ends.set(k, x);
      if (x >= a.length && x - k >= b.length) return back(trace, a, b);
    }
    ends = new Map(ends);
  }
  return [];
}

function back(trace: Map<number, number>[], a: string[], b: string[]): Change[] {
  const changes: Change[] = [];
  let [x, y] = [a.length, b.length];
  for (let steps = trace.length - 1; steps >= 0; steps--) {
    const ends = trace[steps] ?? new Map<number, number>();
    const k = x - y;
    const down = k === -steps || (k !== steps && at(ends, k - 1) < at(ends, k + 1));
    const from = down ? k + 1 : k - 1;
    const start = steps === 0 ? 0 : at(ends, from);
    while (x > start && y > start - from && x > 0 && y > 0 && a[x - 1] === b[y - 1]) {
      changes.push({ sign: ' ', text: a[--x] ?? '' });
      y--;
    }
    if (steps === 0) break;
    if (down) changes.push({ sign: '+', text: b[--y] ?? '' });
    else changes.push({ sign: '-', text: a[--x] ?? '' });
  }
  return changes.reverse();
}

function at(ends: Map<number, number>, k: number): number {
  return ends.get(k) ?? -1;
}

/** Only what changes, with a few lines around it; null is a gap. */
export function withContext(changes: Change[], around = 3): (Change | null)[] {
  const near = changes.map((_, i) => changes.slice(Math.max(0, i - around), i + around + 1).some((c) => c.sign !== ' '));
  const shown: (Change | null)[] = [];
  changes.forEach((change, i) => {
    if (near[i]) shown.push(change);
    else if (shown.length > 0 && shown.at(-1) !== null) shown.push(null);
  });
  return shown.at(-1) === null ? shown.slice(0, -1) : shown;
}
