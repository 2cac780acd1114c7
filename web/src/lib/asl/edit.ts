// Changes of a definition as the drawing makes them: definition in, definition out, nothing else. Names of states are
// unique in a definition, so a name says which machine is meant.
import type { Json, JsonObject } from '../../api/client';
import { innerOf, listOf, statesOf, textOf, type Machine, type State } from './definition';
import type { GraphEdge } from './graph';

export const TYPES = ['Task', 'Choice', 'Pass', 'Wait', 'Parallel', 'Map', 'Succeed', 'Fail'] as const;
export type StateType = (typeof TYPES)[number];

function changed(definition: Machine, change: (copy: Machine) => void): Machine {
  const copy = JSON.parse(JSON.stringify(definition)) as Machine;
  change(copy);
  return copy;
}

/** The machine that a state is in: the whole, a branch, or what a Map does. */
export function machineOf(definition: Machine, name: string): Machine | undefined {
  for (const [own, state] of statesOf(definition)) {
    if (own === name) return definition;
    for (const { machine } of innerOf(state)) {
      const found = machineOf(machine, name);
      if (found) return found;
    }
  }
  return undefined;
}

export function stateOf(definition: Machine, name: string): State | undefined {
  return machineOf(definition, name)?.States?.[name];
}

export function allNames(machine: Machine): string[] {
  return statesOf(machine).flatMap(([name, state]) => [name, ...innerOf(state).flatMap((inner) => allNames(inner.machine))]);
}

function freshName(definition: Machine, type: string): string {
  const taken = new Set(allNames(definition));
  for (let i = 1; ; i++) {
    const name = i === 1 ? type : `${type} ${i}`;
    if (!taken.has(name)) return name;
  }
}

function template(definition: Machine, type: StateType): State {
  const usesJsonata = definition['QueryLanguage'] === 'JSONata';
  const inside = (name: string): Machine => ({ StartAt: name, States: { [name]: { Type: 'Pass', End: true } } });
  switch (type) {
    case 'Task':
      return { Type: 'Task', Resource: 'function:' };
    case 'Choice': {
      const rule = usesJsonata ? { Condition: '{% true %}' } : { Variable: '$.value', NumericGreaterThanEquals: 0 };
      return { Type: 'Choice', Choices: [{ ...rule, Next: '' }] };
    }
    case 'Wait':
      return { Type: 'Wait', Seconds: 1 };
    case 'Parallel':
      return { Type: 'Parallel', Branches: [inside(freshName(definition, 'Branch'))] };
    case 'Map':
      return { Type: 'Map', ItemProcessor: inside(freshName(definition, 'Item')) };
    default:
      return { Type: type };
  }
}

/** A new state after another (or first): it takes over where that one led to. Returns its name too. */
export function addState(definition: Machine, type: StateType, after: string): [Machine, string] {
  const name = freshName(definition, type);
  const made = changed(definition, (copy) => {
    const machine = (after && machineOf(copy, after)) || copy;
    machine.States ??= {};
    const before = machine.States[after];
    const state = template(definition, type);
    const takesNext = !['Succeed', 'Fail'].includes(type);
    if (!before) {
      follow(state, textOf(machine.StartAt), takesNext);
      machine.StartAt = name;
    } else if (before.Type === 'Choice') {
      follow(state, '', takesNext);
      if (!before['Default']) before['Default'] = name;
      else before['Choices'] = [...listOf(before['Choices']), ruleTo(definition, name)];
    } else {
      follow(state, textOf(before['Next']), takesNext);
      delete before['End'];
      before['Next'] = name;
    }
    machine.States[name] = state;
  });
  return [made, name];
}

function ruleTo(definition: Machine, next: string): JsonObject {
  const usesJsonata = definition['QueryLanguage'] === 'JSONata';
  return usesJsonata ? { Condition: '{% true %}', Next: next } : { Variable: '$.value', NumericGreaterThanEquals: 0, Next: next };
}

/** Lets a new state go on where the one before it did. */
function follow(state: State, next: string, takesNext: boolean): void {
  if (!takesNext) return;
  if (state.Type === 'Choice') {
    state['Choices'] = listOf(state['Choices']).map((rule) => ({ ...rule, Next: next }));
    if (next) state['Default'] = next;
  } else if (next) state['Next'] = next;
  else state['End'] = true;
}

/** What led to it leads to what it led to. */
export function removeState(definition: Machine, name: string): Machine {
  return changed(definition, (copy) => {
    const machine = machineOf(copy, name);
    if (!machine?.States) return;
    const next = textOf(machine.States[name]?.['Next']);
    delete machine.States[name];
    if (machine.StartAt === name) machine.StartAt = next || Object.keys(machine.States)[0] || '';
    for (const state of Object.values(machine.States)) redirect(state, name, next);
  });
}

function redirect(state: State, from: string, to: string): void {
  if (state['Next'] === from) {
    if (to) state['Next'] = to;
    else {
      delete state['Next'];
      state['End'] = true;
    }
  }
  for (const field of ['Choices', 'Catch']) {
    if (!Array.isArray(state[field])) continue;
    const kept = listOf(state[field]).filter((rule) => rule['Next'] !== from || to);
    state[field] = kept.map((rule) => (rule['Next'] === from ? { ...rule, Next: to } : rule));
  }
  if (state['Default'] === from) {
    if (to) state['Default'] = to;
    else delete state['Default'];
  }
}

export function renameState(definition: Machine, name: string, to: string): Machine {
  if (!to || name === to || allNames(definition).includes(to)) return definition;
  return changed(definition, (copy) => {
    const machine = machineOf(copy, name);
    if (!machine?.States) return;
    // The order of the states stays.
    machine.States = Object.fromEntries(Object.entries(machine.States).map(([own, state]) => [own === name ? to : own, state]));
    if (machine.StartAt === name) machine.StartAt = to;
    for (const state of Object.values(machine.States)) redirect(state, name, to);
  });
}

/** Sets fields of a state; undefined removes one. */
export function setFields(definition: Machine, name: string, fields: Record<string, Json | undefined>): Machine {
  return changed(definition, (copy) => {
    const state = stateOf(copy, name);
    if (!state) return;
    for (const [field, value] of Object.entries(fields)) {
      if (value === undefined) delete state[field];
      else state[field] = value;
    }
  });
}

/** A line from one state to another: what follows, or one more case of a Choice. */
export function connect(definition: Machine, from: string, to: string): Machine {
  const state = stateOf(definition, from);
  const isPossible = state && from !== to && machineOf(definition, from) === machineOf(definition, to);
  if (!isPossible || ['Succeed', 'Fail'].includes(state.Type ?? '')) return definition;
  if (state.Type !== 'Choice') return setFields(definition, from, { Next: to, End: undefined });
  return setFields(definition, from, { Choices: [...listOf(state['Choices']), ruleTo(definition, to)] });
}

/** Takes a line away. */
export function disconnect(definition: Machine, edge: GraphEdge): Machine {
  const state = stateOf(definition, edge.from);
  if (!state) return definition;
  const without = (field: string): JsonObject[] => listOf(state[field]).filter((_, i) => i !== edge.index);
  switch (edge.by) {
    case 'next':
      return setFields(definition, edge.from, { Next: undefined, End: true });
    case 'default':
      return setFields(definition, edge.from, { Default: undefined });
    case 'choice':
      return setFields(definition, edge.from, { Choices: without('Choices') });
    case 'catch':
      return setFields(definition, edge.from, { Catch: without('Catch') });
    default:
      return definition;
  }
}
