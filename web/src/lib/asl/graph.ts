// A definition as boxes and lines, without places: those are the layout's. A box may hold machines of its own.
import { conditionOf, innerOf, isEnd, listOf, statesOf, textOf, type Machine } from './definition';

export const START = '\u0000start';
export const END = '\u0000end';

export interface GraphNode {
  /** The state's name, or START or END. */
  id: string;
  type: string;
  /** What a Task runs, what a Wait waits for. */
  note: string;
  inner: { label: string; graph: Graph }[];
}

export interface GraphEdge {
  from: string;
  to: string;
  label: string;
  /** Which rule of a Choice, which catcher; empty for what simply follows. */
  by: 'next' | 'choice' | 'default' | 'catch' | 'mark';
  index: number;
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
}

export function graphOf(machine: Machine, words: { otherwise: string; on: string } = { otherwise: 'otherwise', on: 'on' }): Graph {
  const states = statesOf(machine);
  const known = new Set(states.map(([name]) => name));
  const nodes: GraphNode[] = [{ id: START, type: '', note: '', inner: [] }];
  const edges: GraphEdge[] = [];
  const add = (from: string, to: string, label: string, by: GraphEdge['by'], index = 0): void => {
    // What names no state is the server's to complain of.
    if (to === END || known.has(to)) edges.push({ from, to, label, by, index });
  };
  add(START, textOf(machine.StartAt), '', 'mark');
  for (const [name, state] of states) {
    const inner = innerOf(state).map(({ label, machine: inside }) => ({ label, graph: graphOf(inside, words) }));
    nodes.push({ id: name, type: textOf(state.Type), note: noteOf(state), inner });
    add(name, textOf(state['Next']), '', 'next');
    listOf(state['Choices']).forEach((rule, i) => add(name, textOf(rule['Next']), conditionOf(rule), 'choice', i));
    add(name, textOf(state['Default']), words.otherwise, 'default');
    listOf(state['Catch']).forEach((catcher, i) => {
      const errors = Array.isArray(catcher['ErrorEquals']) ? catcher['ErrorEquals'].join(', ') : '';
      add(name, textOf(catcher['Next']), `${words.on} ${errors}`, 'catch', i);
    });
    if (isEnd(state) || state.Type === 'Succeed') add(name, END, '', 'mark');
  }
  if (edges.some((edge) => edge.to === END)) nodes.push({ id: END, type: '', note: '', inner: [] });
  return { nodes, edges };
}

function noteOf(state: Machine): string {
  const resource = textOf(state['Resource']);
  if (resource) return resource.replace(/^arn:aws:states:::/, '').replace(/^arn:aws:lambda:.*:/, 'function:');
  if (typeof state['Seconds'] === 'number') return `${state['Seconds']} s`;
  return textOf(state['Error']) || textOf(state['Timestamp']);
}
