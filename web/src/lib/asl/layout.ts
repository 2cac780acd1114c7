// Places for a graph: states in layers from top to bottom, labels between them as if they were states, long lines around
// what is in their way. Deterministic, so that a picture does not jump while one types. Pure.
import { END, START, type Graph, type GraphEdge, type GraphNode } from './graph';

export interface Box {
  id: string;
  node: GraphNode;
  x: number;
  y: number;
  width: number;
  height: number;
  inner: { label: string; x: number; y: number; picture: Picture }[];
}

export interface Line {
  edge: GraphEdge;
  path: string;
  label: { x: number; y: number; width: number } | undefined;
}

export interface Picture {
  boxes: Box[];
  lines: Line[];
  width: number;
  height: number;
}

const WIDTH = 176;
const HEIGHT = 52;
const MARK = 18;
const ACROSS = 28;
const DOWN = 30;
const LETTER = 7;
const LABEL = 20;
const LONGEST_LABEL = 30;
const PADDING = 14;
/** Where a state that holds others has its name. */
export const HEAD = 40;

/** One thing in a layer: a state, a label, or a bend of a line that goes further. */
interface Item {
  id: string;
  layer: number;
  width: number;
  height: number;
  x: number;
  place: number;
  box?: Box;
}

interface Link {
  from: Item;
  to: Item;
}

export function shorten(text: string, most = LONGEST_LABEL): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

export function layout(graph: Graph): Picture {
  const items = new Map<string, Item>();
  for (const node of graph.nodes) {
    const box = boxOf(node);
    items.set(node.id, { id: node.id, layer: 0, width: box.width, height: box.height, x: 0, place: 0, box });
  }
  const backward = backwardEdges(graph);
  const forward = graph.edges.filter((edge) => !backward.has(edge));
  assignLayers(graph, forward, items);
  const links: Link[] = [];
  const routes = new Map<GraphEdge, Item[]>();
  for (const edge of forward) routes.set(edge, route(edge, items, links));
  const layers = toLayers([...items.values()]);
  orderLayers(layers, links);
  const heights = placeAcross(layers, links);
  return draw(graph, items, layers, heights, routes, backward);
}

function boxOf(node: GraphNode): Box {
  const box = { id: node.id, node, x: 0, y: 0, inner: [] as Box['inner'] };
  if (node.id === START || node.id === END) return { ...box, width: MARK, height: MARK };
  if (node.inner.length === 0) return { ...box, width: WIDTH, height: HEIGHT };
  let x = PADDING;
  let height = 0;
  for (const { label, graph } of node.inner) {
    const picture = layout(graph);
    box.inner.push({ label, x, y: HEAD, picture });
    x += picture.width + PADDING;
    height = Math.max(height, picture.height);
  }
  return { ...box, width: Math.max(WIDTH, x), height: HEAD + height + PADDING };
}

/** Edges that lead back to where one came from: loops. */
function backwardEdges(graph: Graph): Set<GraphEdge> {
  const [found, state] = [new Set<GraphEdge>(), new Map<string, 'open' | 'closed'>()];
  const visit = (id: string): void => {
    state.set(id, 'open');
    for (const edge of graph.edges) {
      if (edge.from !== id) continue;
      if (state.get(edge.to) === 'open') found.add(edge);
      else if (!state.has(edge.to)) visit(edge.to);
    }
    state.set(id, 'closed');
  };
  for (const node of graph.nodes) if (!state.has(node.id)) visit(node.id);
  return found;
}

/** Below everything that leads here; a labelled edge takes a layer for its label. */
function assignLayers(graph: Graph, forward: GraphEdge[], items: Map<string, Item>): void {
  for (let round = 0; round < graph.nodes.length; round++) {
    let changed = false;
    for (const edge of forward) {
      const [from, to] = [items.get(edge.from), items.get(edge.to)];
      const least = (from?.layer ?? 0) + (edge.label ? 2 : 1);
      if (to && to.layer < least) [to.layer, changed] = [least, true];
    }
    if (!changed) return;
  }
}

function route(edge: GraphEdge, items: Map<string, Item>, links: Link[]): Item[] {
  const [from, to] = [items.get(edge.from), items.get(edge.to)];
  if (!from || !to) return [];
  const bends: Item[] = [];
  let last = from;
  for (let layer = from.layer + 1; layer < to.layer; layer++) {
    const isLabel = layer === from.layer + 1 && edge.label !== '';
    const width = isLabel ? shorten(edge.label).length * LETTER + 14 : 4;
    const id = `${edge.from}\u0000${edge.to}\u0000${edge.by}${edge.index}\u0000${layer}`;
    const bend: Item = { id, layer, width, height: isLabel ? LABEL : 4, x: 0, place: 0 };
    items.set(id, bend);
    links.push({ from: last, to: bend });
    bends.push(bend);
    last = bend;
  }
  links.push({ from: last, to });
  return [from, ...bends, to];
}

function toLayers(items: Item[]): Item[][] {
  const layers: Item[][] = [];
  for (const item of items) (layers[item.layer] ??= []).push(item);
  const filled = Array.from(layers, (layer) => layer ?? []);
  for (const layer of filled) layer.forEach((item, i) => (item.place = i));
  return filled;
}

/** Fewer crossings: each in the middle of what it is connected with, down and up in turn. */
function orderLayers(layers: Item[][], links: Link[]): void {
  for (let round = 0; round < 8; round++) {
    const isDown = round % 2 === 0;
    for (const layer of isDown ? layers : [...layers].reverse()) {
      const middle = new Map(layer.map((item) => [item, meanOf(neighbours(item, links, isDown).map((one) => one.place), item.place)]));
      layer.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0));
      layer.forEach((item, i) => (item.place = i));
    }
  }
}

function neighbours(item: Item, links: Link[], above: boolean): Item[] {
  return links.flatMap((link) => (above ? (link.to === item ? [link.from] : []) : link.from === item ? [link.to] : []));
}

function meanOf(values: number[], otherwise: number): number {
  return values.length === 0 ? otherwise : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Centres: near what one is connected with, without touching one's neighbours. Returns the heights of the layers. */
function placeAcross(layers: Item[][], links: Link[]): number[] {
  for (const layer of layers) spread(layer, (item) => item.place * (WIDTH + ACROSS));
  for (let round = 0; round < 12; round++) {
    const isDown = round % 2 === 0;
    for (const layer of isDown ? layers : [...layers].reverse()) {
      spread(layer, (item) => meanOf(neighbours(item, links, isDown).map((one) => one.x), item.x));
    }
  }
  return layers.map((layer) => Math.max(0, ...layer.map((item) => item.height)));
}

/** As near to their wishes as order and room allow, shifted so that nobody is wronged more than others. */
function spread(layer: Item[], wish: (item: Item) => number): void {
  const wishes = layer.map(wish);
  let edge = Number.NEGATIVE_INFINITY;
  layer.forEach((item, i) => {
    item.x = Math.max(wishes[i] ?? 0, edge + item.width / 2);
    edge = item.x + item.width / 2 + ACROSS;
  });
  const off = meanOf(layer.map((item, i) => item.x - (wishes[i] ?? 0)), 0);
  for (const item of layer) item.x -= off;
}

function draw(graph: Graph, items: Map<string, Item>, layers: Item[][], heights: number[], routes: Map<GraphEdge, Item[]>, backward: Set<GraphEdge>): Picture {
  const all = layers.flat();
  const left = Math.min(0, ...all.map((item) => item.x - item.width / 2));
  const right = Math.max(0, ...all.map((item) => item.x + item.width / 2)) - left;
  const tops: number[] = [];
  let y = PADDING;
  heights.forEach((height, i) => {
    tops[i] = y;
    y += height + DOWN;
  });
  const centre = (item: Item): [number, number] => [item.x - left + PADDING, (tops[item.layer] ?? 0) + (heights[item.layer] ?? 0) / 2];
  const boxes = [...items.values()].flatMap((item) => {
    if (!item.box) return [];
    const [x, middle] = centre(item);
    return [{ ...item.box, x: x - item.width / 2, y: middle - item.height / 2 }];
  });
  let outside = right + 2 * PADDING;
  const lines = graph.edges.flatMap((edge): Line[] => {
    if (backward.has(edge)) {
      const [from, to] = [items.get(edge.from), items.get(edge.to)];
      if (!from || !to) return [];
      outside += 22;
      const [[x, top], [toX, toY]] = [centre(from), centre(to)];
      const path = `M${x + from.width / 2},${top} C${outside},${top} ${outside},${toY} ${toX + to.width / 2},${toY}`;
      return [{ edge, path, label: edge.label ? { x: outside - 30, y: (top + toY) / 2, width: shorten(edge.label).length * LETTER + 14 } : undefined }];
    }
    const passed = routes.get(edge) ?? [];
    return [{ edge, path: curve(passed.map((item) => [...centre(item), item.height] as const)), label: labelOf(edge, passed, centre) }];
  });
  const labels = lines.flatMap((line) => (line.label ? [line.label.x + line.label.width / 2 + PADDING] : []));
  return { boxes, lines, width: Math.max(outside, ...labels), height: y - DOWN + PADDING };
}

function labelOf(edge: GraphEdge, passed: Item[], centre: (item: Item) => [number, number]): Line['label'] {
  const item = passed[1];
  if (!edge.label || !item) return undefined;
  const [x, y] = centre(item);
  return { x, y, width: item.width };
}

/** From the bottom of one to the top of the next, upright at both ends. */
function curve(points: (readonly [number, number, number])[]): string {
  return points
    .slice(1)
    .map(([x, y, height], i) => {
      const [fromX = 0, fromY = 0, fromHeight = 0] = points[i] ?? [];
      const [start, end] = [fromY + fromHeight / 2, y - height / 2];
      const bend = (end - start) / 2;
      return `${i === 0 ? `M${fromX},${start}` : `L${fromX},${start}`} C${fromX},${start + bend} ${x},${end - bend} ${x},${end}`;
    })
    .join(' ');
}
