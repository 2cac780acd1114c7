// What the scheduler says of a pod's nodes. Pure.
export interface Obstacle {
  filter: string;
  reasons: string[];
  remedy: string;
}

export interface PlacementNode {
  name: string;
  obstacles?: Obstacle[];
  scores?: { name: string; weight: number; value: number }[];
  total?: number;
}

/** The scores that nodes have, in the scheduler's order. */
export function scoreColumns(nodes: PlacementNode[]): { name: string; weight: number }[] {
  const found = new Map<string, number>();
  for (const node of nodes) for (const { name, weight } of node.scores ?? []) found.set(name, weight);
  return [...found].map(([name, weight]) => ({ name, weight }));
}
