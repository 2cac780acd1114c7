// Who calls whom, as a picture: callers on the left, what they call to the right of them. Deterministic, so that a map that is
// drawn anew every few seconds does not jump. Pure.

/** MeshTraffic, as the server tells it. */
export interface Traffic {
  source: string;
  service: string;
  requests: number;
  windowSeconds: number;
  requestsPerSecond: number;
  errorsPerSecond: number;
  p50Milliseconds?: number;
  p99Milliseconds?: number;
}

export interface MapNode {
  id: string;
  namespace: string;
  name: string;
  /** Requests per second that it is asked. */
  rate: number;
  errors: number;
  x: number;
  y: number;
}

export interface MapLine {
  traffic: Traffic;
  path: string;
  x: number;
  y: number;
  /** How thick, in pixels. */
  width: number;
  tone: 'good' | 'busy' | 'bad' | 'none';
}

export interface MeshMap {
  nodes: MapNode[];
  lines: MapLine[];
  width: number;
  height: number;
  /** Lines that were left out, the quietest of all. */
  folded: number;
}

export const NODE = { width: 176, height: 54 };
const LABEL = { width: 100, height: 38 };
const ACROSS = 170;
const DOWN = 34;
const PADDING = 12;
/** How far lines that lead back hang below the boxes. */
const SAG = 46;
/** A picture with more lines shows nothing any more: the busiest are drawn. */
const MOST = 150;

export function share(traffic: Pick<Traffic, 'requestsPerSecond' | 'errorsPerSecond'>): number {
  return traffic.requestsPerSecond > 0 ? traffic.errorsPerSecond / traffic.requestsPerSecond : 0;
}

function toneOf(traffic: Traffic): MapLine['tone'] {
  if (traffic.requestsPerSecond === 0) return 'none';
  const errors = share(traffic);
  return errors >= 0.05 ? 'bad' : errors > 0 ? 'busy' : 'good';
}

export function mapOf(all: Traffic[], most = MOST): MeshMap {
  const busiest = [...all].sort((a, b) => b.requestsPerSecond - a.requestsPerSecond || b.requests - a.requests);
  const edges = busiest.slice(0, most).sort((a, b) => a.source.localeCompare(b.source) || a.service.localeCompare(b.service));
  const nodes = new Map<string, MapNode>();
  const node = (id: string): MapNode => {
    const known = nodes.get(id);
    if (known) return known;
    const [namespace = '', name = ''] = id.split('/');
    const made = { id, namespace, name, rate: 0, errors: 0, x: 0, y: 0 };
    nodes.set(id, made);
    return made;
  };
  for (const edge of edges) {
    node(edge.source);
    const target = node(edge.service);
    target.rate += edge.requestsPerSecond;
    target.errors += edge.errorsPerSecond;
  }
  const columns = place(nodes, edges);
  const rows = Math.max(1, ...columns.map((column) => column.length));
  const height = rows * (NODE.height + DOWN) - DOWN;
  columns.forEach((column, at) => {
    const taken = column.length * (NODE.height + DOWN) - DOWN;
    column.forEach((one, row) => {
      one.x = PADDING + at * (NODE.width + ACROSS);
      one.y = PADDING + (height - taken) / 2 + row * (NODE.height + DOWN);
    });
  });
  const fastest = Math.max(1, ...edges.map((edge) => edge.requestsPerSecond));
  return {
    nodes: [...nodes.values()],
    lines: apart(edges.map((traffic) => lineOf(traffic, node(traffic.source), node(traffic.service), fastest))),
    width: Math.max(1, columns.length) * (NODE.width + ACROSS) - ACROSS + 2 * PADDING,
    height: height + 2 * PADDING + (edges.some((edge) => node(edge.service).x <= node(edge.source).x) ? SAG : 0),
    folded: all.length - edges.length,
  };
}

/** Columns by the longest way from a caller that nobody calls; what leads back to where it came from does not count. */
function place(nodes: Map<string, MapNode>, edges: Traffic[]): MapNode[][] {
  const next = new Map<string, string[]>();
  for (const edge of edges) next.set(edge.source, [...(next.get(edge.source) ?? []), edge.service]);
  const depth = new Map<string, number>();
  const open = new Set<string>();
  const visit = (id: string, at: number): void => {
    if (open.has(id) || (depth.get(id) ?? -1) >= at) return;
    depth.set(id, at);
    open.add(id);
    for (const to of next.get(id) ?? []) visit(to, at + 1);
    open.delete(id);
  };
  const called = new Set(edges.map((edge) => edge.service));
  for (const id of nodes.keys()) if (!called.has(id)) visit(id, 0);
  for (const id of nodes.keys()) if (!depth.has(id)) visit(id, 0);
  const columns: MapNode[][] = [];
  for (const one of nodes.values()) (columns[depth.get(one.id) ?? 0] ??= []).push(one);
  const filled = Array.from(columns, (column) => column ?? []);
  // Near to who calls it: fewer lines cross.
  filled.forEach((column, at) => {
    const before = new Map((filled[at - 1] ?? []).map((one, row) => [one.id, row]));
    const middle = (one: MapNode): number => {
      const rows = edges.filter((edge) => edge.service === one.id).flatMap((edge) => before.get(edge.source) ?? []);
      return rows.length ? rows.reduce((sum, row) => sum + row, 0) / rows.length : Number.MAX_SAFE_INTEGER;
    };
    const order = new Map(column.map((one) => [one.id, middle(one)]));
    column.sort((a, b) => (order.get(a.id) ?? 0) - (order.get(b.id) ?? 0) || a.id.localeCompare(b.id));
  });
  return filled.filter((column) => column.length > 0);
}

function lineOf(traffic: Traffic, from: MapNode, to: MapNode, fastest: number): MapLine {
  const forward = to.x > from.x;
  const [x1, y1] = [forward ? from.x + NODE.width : from.x + NODE.width / 2, forward ? from.y + NODE.height / 2 : from.y + NODE.height];
  const [x2, y2] = [forward ? to.x - 2 : to.x + NODE.width / 2, forward ? to.y + NODE.height / 2 : to.y + NODE.height + 2];
  const bend = forward ? (x2 - x1) / 2 : 0;
  const sag = forward ? 0 : SAG;
  const path = `M${x1},${y1}C${x1 + bend},${y1 + sag} ${x2 - bend},${y2 + sag} ${x2},${y2}`;
  // In the gap before what is called: there the lines of one caller are apart, and no box is in the way.
  const part = forward ? 1 - (ACROSS * 0.4) / Math.max(ACROSS, x2 - x1) : 0.5;
  const at = (a: number, b: number, c: number, d: number): number =>
    (1 - part) ** 3 * a + 3 * (1 - part) ** 2 * part * b + 3 * (1 - part) * part ** 2 * c + part ** 3 * d;
  return {
    traffic,
    path,
    x: Math.round(at(x1, x1 + bend, x2 - bend, x2)),
    y: Math.round(at(y1, y1 + sag, y2 + sag, y2)),
    width: 1.5 + 4 * Math.sqrt(traffic.requestsPerSecond / fastest),
    tone: toneOf(traffic),
  };
}

/** Labels that would cover each other move down. */
function apart(lines: MapLine[]): MapLine[] {
  const placed: MapLine[] = [];
  for (const line of lines.filter((one) => one.tone !== 'none').sort((a, b) => a.y - b.y)) {
    const covers = (): boolean => placed.some((one) => Math.abs(one.x - line.x) < LABEL.width && Math.abs(one.y - line.y) < LABEL.height);
    for (let i = 0; i < 20 && covers(); i++) line.y += LABEL.height / 2;
    placed.push(line);
  }
  return lines;
}

export function rateText(perSecond: number): string {
  return `${perSecond >= 100 ? Math.round(perSecond) : perSecond.toFixed(1)}/s`;
}

export function percentText(part: number): string {
  return `${(part * 100).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %`;
}

export function msText(milliseconds: number | undefined): string {
  return milliseconds === undefined ? '–' : `<${milliseconds} ms`;
}

/** An entry of a VirtualService. */
export interface Subset {
  name: string;
  weight?: number;
  url?: string;
  headers?: Record<string, string>;
}

/** Whether it splits by weight. */
export function isSplit(subsets: Subset[]): boolean {
  return subsets.length > 0 && subsets.every((subset) => typeof subset.weight === 'number');
}

/** Weights as parts of a hundred that add up. */
export function percents(weights: number[]): number[] {
  const sum = weights.reduce((total, weight) => total + weight, 0);
  if (sum === 0) return weights.map(() => 0);
  const exact = weights.map((weight) => (weight * 100) / sum);
  const parts = exact.map(Math.floor);
  const order = exact.map((value, at) => [value - Math.floor(value), at] as const).sort((a, b) => b[0] - a[0]);
  for (let left = 100 - parts.reduce((total, part) => total + part, 0), i = 0; left > 0; left--, i++) {
    const at = order[i % order.length]?.[1] ?? 0;
    parts[at] = (parts[at] ?? 0) + 1;
  }
  return parts;
}

/** One part set, the others sharing the rest as they did before. */
export function shifted(parts: number[], at: number, value: number): number[] {
  const wanted = Math.max(0, Math.min(100, Math.round(value)));
  const rest = parts.reduce((sum, part, i) => (i === at ? sum : sum + part), 0);
  const others = parts.map((part, i) => (i === at ? 0 : rest === 0 ? 1 : part));
  const sum = others.reduce((total, part) => total + part, 0);
  if (sum === 0) return parts.map((_, i) => (i === at ? 100 : 0));
  const scaled = percents(others).map((part) => (part * (100 - wanted)) / 100);
  const whole = scaled.map(Math.floor);
  let left = 100 - wanted - whole.reduce((total, part) => total + part, 0);
  const order = scaled.map((part, i) => [part - Math.floor(part), i] as const).sort((a, b) => b[0] - a[0]);
  for (const [, i] of order) {
    if (left <= 0) break;
    if (i === at) continue;
    whole[i] = (whole[i] ?? 0) + 1;
    left--;
  }
  whole[at] = wanted;
  return whole;
}
