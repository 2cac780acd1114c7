// Numbers over time as lines: scales, ticks, paths. Pure.

/** Time in milliseconds, and what was measured; null is a gap. */
export type Point = readonly [number, number | null];

export interface Line {
  name: string;
  points: Point[];
}

/** A round number that is no less than what there is to show, and the ticks up to it. */
export function ticksOf(most: number, base: 10 | 2): number[] {
  if (!(most > 0)) return [0, 1];
  const unit = base === 2 ? 1024 ** Math.floor(Math.log(most) / Math.log(1024)) : 1;
  const scaled = most / unit;
  const magnitude = 10 ** Math.floor(Math.log10(scaled));
  const step = ([1, 2, 2.5, 5, 10].find((one) => (one * magnitude) / 2 >= scaled / 4) ?? 10) * (magnitude / 2);
  const count = Math.ceil(scaled / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, i) => i * step * unit);
}

export interface Frame {
  from: number;
  to: number;
  top: number;
  width: number;
  height: number;
}

export function place(frame: Frame, [at, value]: readonly [number, number]): [number, number] {
  const x = ((at - frame.from) / Math.max(1, frame.to - frame.from)) * frame.width;
  const y = frame.height - (value / (frame.top || 1)) * frame.height;
  return [Math.round(x * 10) / 10, Math.round(y * 10) / 10];
}

/** One path; a gap or a silence of more than `silence` breaks the line. */
export function pathOf(points: Point[], frame: Frame, silence: number): string {
  let path = '';
  let last = Number.NEGATIVE_INFINITY;
  for (const [at, value] of points) {
    if (at < frame.from) continue;
    if (value === null) {
      last = Number.NEGATIVE_INFINITY;
      continue;
    }
    const [x, y] = place(frame, [at, value]);
    path += `${at - last > silence ? 'M' : 'L'}${x},${y}`;
    last = at;
  }
  return path;
}

/** The point nearest to a moment. */
export function nearest(points: Point[], at: number): Point | undefined {
  let best: Point | undefined;
  for (const point of points) if (!best || Math.abs(point[0] - at) < Math.abs(best[0] - at)) best = point;
  return best;
}

export function mostOf(lines: Line[], from: number, limit = 0): number {
  const values = lines.flatMap((line) => line.points.filter(([at]) => at >= from).map(([, value]) => value ?? 0));
  return Math.max(limit, ...values, 0);
}
