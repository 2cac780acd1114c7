// What a run did, step by step, from its history in AWS' shape; and what of a graph that lights up. Pure.
import type { JsonObject } from '../../api/client';
import { isObject, textOf } from './definition';
import { END, START } from './graph';

export interface History {
  definition: JsonObject | string;
  input: JsonObject;
  events: JsonObject[];
  threads: number[];
}

/** One visit of one state. */
export interface Step {
  thread: number;
  state: string;
  type: string;
  entered: number;
  /** Milliseconds; undefined while it lasts. */
  took: number | undefined;
  input: string;
  output: string;
  attempts: number;
  error: string;
}

export function stepsOf(history: History): Step[] {
  const steps: Step[] = [];
  const open = (thread: number): Step | undefined =>
    [...steps].reverse().find((step) => step.thread === thread && step.took === undefined);
  history.events.forEach((event, i) => {
    const thread = history.threads[i] ?? 0;
    const type = textOf(event['type']);
    const time = Date.parse(textOf(event['timestamp']));
    const details = Object.entries(event).find(([key]) => key.endsWith('EventDetails'))?.[1];
    const of = isObject(details) ? details : {};
    const step = open(thread);
    if (type.endsWith('StateEntered')) {
      // A thread that is in another state has left this one: it failed, and was redriven.
      if (step) step.took = time - step.entered;
      const made = { took: undefined, output: '', attempts: 0, error: '' };
      steps.push({ thread, state: textOf(of['name']), type: type.slice(0, -12), entered: time, input: textOf(of['input']), ...made });
    } else if (!step) return;
    else if (type.endsWith('StateExited')) [step.took, step.output] = [time - step.entered, textOf(of['output'])];
    else if (type === 'TaskScheduled' || type === 'LambdaFunctionScheduled') step.attempts++;
    else if (/^(Task|LambdaFunction)(Failed|TimedOut)$/.test(type)) step.error = textOf(of['error']);
  });
  return steps;
}

export type Light = 'entered' | 'left' | 'failed';

export interface Lights {
  states: Map<string, Light>;
  /** `from\nto` of every line that was taken. */
  lines: Set<string>;
}

export const lineKey = (from: string, to: string): string => `${from}\n${to}`;

/** What is lit after the first `count` steps; a run that is over and did not succeed failed where it stands. */
export function lightsAt(steps: Step[], count: number, phase: string): Lights {
  const [states, lines] = [new Map<string, Light>(), new Set<string>()];
  const last = new Map<number, string>();
  const isOver = !['', 'Running'].includes(phase);
  steps.slice(0, count).forEach((step, i) => {
    const isNewest = i === count - 1;
    const before = last.get(step.thread);
    lines.add(lineKey(before ?? START, step.state));
    last.set(step.thread, step.state);
    if (step.took === undefined) states.set(step.state, isOver && phase !== 'Succeeded' ? 'failed' : 'entered');
    else states.set(step.state, isNewest && count < steps.length ? 'entered' : 'left');
  });
  // A branch ends before its run does; the run itself ends once.
  const main = steps[0]?.thread;
  const isWhole = count >= steps.length && phase === 'Succeeded';
  for (const [thread, state] of last) {
    const isLeft = thread !== main && states.get(state) === 'left';
    if (isWhole || isLeft) lines.add(lineKey(state, END));
  }
  return { states, lines };
}

export function milliseconds(time: number): string {
  if (time < 1000) return `${Math.round(time)} ms`;
  return time < 60_000 ? `${(time / 1000).toFixed(1)} s` : `${Math.round(time / 60_000)} min`;
}

/** JSON as people read it; what is none stays as it is. */
export function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
