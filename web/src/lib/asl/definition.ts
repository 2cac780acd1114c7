// A workflow's definition in the Amazon States Language, as the page reads it. The simple form (`startAt`, `nodes`) is
// read as what it stands for. Pure, and judges nothing: that is the server's part.
import type { Json, JsonObject } from '../../api/client';

export type State = JsonObject & { Type?: string };
export type Machine = JsonObject & { StartAt?: string; States?: Record<string, State> };

/** undefined: neither an object nor the text of one. */
export function readDefinition(value: Json | undefined): Machine | undefined {
  let found = value;
  if (typeof value === 'string') {
    try {
      found = JSON.parse(value) as Json;
    } catch {
      return undefined;
    }
  }
  if (!isObject(found)) return undefined;
  return isObject(found['nodes']) ? fromSimple(found) : (found as Machine);
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function listOf(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

export function statesOf(machine: Machine): [string, State][] {
  return isObject(machine.States as Json | undefined) ? (Object.entries(machine.States ?? {}) as [string, State][]) : [];
}

/** Machines inside of a state: the branches of a Parallel, what a Map does with each item. */
export function innerOf(state: State): { label: string; path: string[]; machine: Machine }[] {
  const branches = listOf(state['Branches']).map((machine, i) => ({
    label: String(i + 1),
    path: ['Branches', String(i)],
    machine: machine as Machine,
  }));
  const items = ['ItemProcessor', 'Iterator'].flatMap((field) => {
    const machine = state[field];
    return isObject(machine) ? [{ label: '×', path: [field], machine: machine as Machine }] : [];
  });
  return [...branches, ...items];
}

export function isEnd(state: State): boolean {
  return state['End'] === true;
}

/** `$.sum >= 11`, `not ($.a = "x")`, or the expression itself. */
export function conditionOf(rule: JsonObject): string {
  const expression = rule['Condition'];
  if (typeof expression === 'string') return expression.replace(/^\s*\{%/, '').replace(/%\}\s*$/, '').trim();
  if (isObject(rule['Not'])) return `not (${conditionOf(rule['Not'])})`;
  for (const [field, word] of [['And', ' and '], ['Or', ' or ']] as const) {
    if (Array.isArray(rule[field])) return listOf(rule[field]).map(conditionOf).join(word);
  }
  const { variable, operator, operand } = comparisonOf(rule);
  return operator ? `${variable} ${signOf(operator)} ${JSON.stringify(operand)}` : variable;
}

export interface Comparison {
  variable: string;
  operator: string;
  operand: Json;
}

const NOT_OPERATORS = ['Variable', 'Next', 'Assign', 'Comment', 'Output'];

export function comparisonOf(rule: JsonObject): Comparison {
  const operator = Object.keys(rule).find((key) => !NOT_OPERATORS.includes(key)) ?? '';
  return { variable: textOf(rule['Variable']) || '$', operator, operand: rule[operator] ?? null };
}

function signOf(operator: string): string {
  const name = operator.replace(/Path$/, '');
  const signs: [string, string][] = [
    ['GreaterThanEquals', '>='], ['LessThanEquals', '<='], ['GreaterThan', '>'], ['LessThan', '<'], ['Equals', '='],
  ];
  return signs.find(([end]) => name.endsWith(end))?.[1] ?? name;
}

function fromSimple(simple: JsonObject): Machine {
  const states: Record<string, State> = {};
  for (const [name, node] of Object.entries(simple['nodes'] as JsonObject)) {
    if (isObject(node)) states[name] = simpleState(name, node);
  }
  return { StartAt: textOf(simple['startAt']), States: states };
}

function simpleState(name: string, node: JsonObject): State {
  if (!Array.isArray(node['choices'])) {
    const state: State = { Type: 'Task', Resource: `function:${textOf(node['function']) || name}` };
    const next = textOf(node['next']);
    return next ? { ...state, Next: next } : { ...state, End: true };
  }
  const rules: JsonObject[] = [];
  let otherwise = textOf(node['default']);
  for (const choice of listOf(node['choices'])) {
    const operator = Object.keys(choice).find((key) => !['variable', 'next', 'type', 'comment'].includes(key));
    const next = textOf(choice['next']);
    if (!operator) otherwise = next;
    else {
      const variable = textOf(choice['variable']);
      const name = operator.charAt(0).toUpperCase() + operator.slice(1).replace(/Equal$/, 'Equals');
      const path = variable.startsWith('$') ? variable : `$.${variable}`;
      const stem = /^(.*)NotEquals$/.exec(name)?.[1];
      const rule: JsonObject = { Variable: path, [stem ? `${stem}Equals` : name]: choice[operator] ?? null };
      rules.push(stem ? { Not: rule, Next: next } : { ...rule, Next: next });
    }
  }
  const state: State = { Type: 'Choice', Choices: rules };
  return otherwise ? { ...state, Default: otherwise } : state;
}
