import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDefinition, statesOf, type Machine } from '../../src/lib/asl/definition';
import { addState, allNames, connect, disconnect, removeState, renameState, setFields, TYPES } from '../../src/lib/asl/edit';
import { END, graphOf, START } from '../../src/lib/asl/graph';
import { layout, type Box, type Picture } from '../../src/lib/asl/layout';
import { lightsAt, lineKey, stepsOf, type History } from '../../src/lib/asl/steps';

const order: Machine = {
  StartAt: 'add',
  States: {
    add: { Type: 'Task', Resource: 'function:add', Next: 'judge', Catch: [{ ErrorEquals: ['States.ALL'], Next: 'sorry' }] },
    judge: { Type: 'Choice', Choices: [{ Variable: '$.sum', NumericGreaterThanEquals: 11, Next: 'both' }], Default: 'done' },
    both: { Type: 'Parallel', Branches: [{ StartAt: 'x<y', States: { 'x<y': { Type: 'Pass', End: true } } }], Next: 'done' },
    again: { Type: 'Wait', Seconds: 3, Next: 'add' },
    sorry: { Type: 'Fail', Error: 'Sorry' },
    done: { Type: 'Succeed' },
  },
};

test('graph has conditions, errors and branches', () => {
  const graph = graphOf(order);
  const edges = graph.edges.map((edge) => `${edge.from} -> ${edge.to} ${edge.label}`.trim());
  assert.deepEqual(edges, [
    `${START} -> add`, 'add -> judge', 'add -> sorry on States.ALL', 'judge -> both $.sum >= 11', 'judge -> done otherwise',
    'both -> done', 'again -> add', `done -> ${END}`,
  ]);
  assert.equal(graph.nodes.find((node) => node.id === 'both')?.inner[0]?.graph.nodes[1]?.id, 'x<y');
});

test('simple form and JSON text are read as what they stand for', () => {
  const simple = { startAt: 'a', nodes: { a: { type: 'Choice', choices: [{ variable: 'n', numericNotEquals: 3, next: 'b' }, { next: 'c' }] }, b: { next: '' }, c: { function: 'f', next: 'b' } } };
  const machine = readDefinition(JSON.stringify(simple));
  assert.deepEqual(machine?.States?.['a'], { Type: 'Choice', Choices: [{ Not: { Variable: '$.n', NumericEquals: 3 }, Next: 'b' }], Default: 'c' });
  assert.deepEqual(machine?.States?.['c'], { Type: 'Task', Resource: 'function:f', Next: 'b' });
  assert.equal(readDefinition('{"StartAt":'), undefined);
  assert.equal(readDefinition([1]), undefined);
});

const boxesOf = (picture: Picture): Box[] => picture.boxes;
const overlap = (a: Box, b: Box): boolean =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

function checkPicture(picture: Picture): void {
  const boxes = boxesOf(picture);
  for (const box of boxes) {
    assert.ok(box.x >= 0 && box.y >= 0 && box.x + box.width <= picture.width && box.y + box.height <= picture.height, box.id);
    for (const other of boxes) assert.ok(box === other || !overlap(box, other), `${box.id} over ${other.id}`);
    for (const inner of box.inner) {
      assert.ok(inner.x + inner.picture.width <= box.width && inner.y + inner.picture.height <= box.height, box.id);
      checkPicture(inner.picture);
    }
  }
  for (const line of picture.lines) assert.ok(!/NaN|undefined/.test(line.path), line.path);
}

test('layout keeps boxes apart, whatever the graph', () => {
  checkPicture(layout(graphOf(order)));
  let seed = 11;
  const random = (n: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let round = 0; round < 200; round++) {
    const count = 1 + random(9);
    const names = Array.from({ length: count }, (_, i) => `s${i}`);
    const pick = (): string => names[random(count)] ?? '';
    const states = Object.fromEntries(
      names.map((name) => [name, random(3) === 0 ? { Type: 'Choice', Choices: [{ Condition: '{% a %}', Next: pick() }, { Condition: '{% bb %}', Next: pick() }], Default: pick() } : { Type: 'Pass', Next: pick() }]),
    );
    checkPicture(layout(graphOf({ StartAt: 's0', States: states })));
  }
});

test('states are added, connected, renamed and removed', () => {
  let machine: Machine = { QueryLanguage: 'JSONata', StartAt: '', States: {} };
  let name: string;
  [machine, name] = addState(machine, 'Task', '');
  assert.deepEqual(machine.States?.[name], { Type: 'Task', Resource: 'function:', End: true });
  [machine] = addState(machine, 'Choice', 'Task');
  [machine] = addState(machine, 'Succeed', 'Choice');
  [machine] = addState(machine, 'Fail', 'Choice');
  const choice = machine.States?.['Choice'];
  assert.equal(choice?.['Default'], 'Succeed');
  assert.deepEqual((choice?.['Choices'] as { Next: string }[]).map((rule) => rule.Next), ['', 'Fail']);
  machine = connect(machine, 'Choice', 'Task');
  assert.equal((machine.States?.['Choice']?.['Choices'] as unknown[]).length, 3);
  machine = disconnect(machine, { from: 'Choice', to: '', label: '', by: 'choice', index: 0 });
  machine = renameState(machine, 'Fail', 'Sorry');
  assert.deepEqual((machine.States?.['Choice']?.['Choices'] as { Next: string }[]).map((rule) => rule.Next), ['Sorry', 'Task']);
  assert.equal(renameState(machine, 'Sorry', 'Task'), machine, 'names stay unique');
  assert.equal(connect(machine, 'Succeed', 'Task'), machine, 'nothing follows an end');
  machine = setFields(machine, 'Task', { Resource: 'function:add', TimeoutSeconds: 3 });
  machine = removeState(machine, 'Choice');
  assert.deepEqual(machine.States?.['Task'], { Type: 'Task', Resource: 'function:add', TimeoutSeconds: 3, End: true });
});

test('every type of state can be added, also inside of branches', () => {
  let machine: Machine = order;
  for (const type of TYPES) {
    [machine] = addState(machine, type, 'x<y');
    [machine] = addState(machine, type, 'add');
  }
  const names = allNames(machine);
  assert.equal(new Set(names).size, names.length);
  const inner = (machine.States?.['both']?.['Branches'] as Machine[])[0];
  assert.ok(inner && statesOf(inner).length > TYPES.length);
  checkPicture(layout(graphOf(machine)));
  assert.equal(connect(machine, 'x<y', 'add'), machine, 'no line leaves a branch');
});

test('steps light the path that was taken', () => {
  const at = (second: number): string => new Date(second * 1000).toISOString();
  const entered = (name: string, second: number) => ({ type: 'PassStateEntered', timestamp: at(second), stateEnteredEventDetails: { name, input: '{"a":1}' } });
  const exited = (name: string, second: number) => ({ type: 'PassStateExited', timestamp: at(second), stateExitedEventDetails: { name, output: '{"b":2}' } });
  const events = [
    { type: 'ExecutionStarted', timestamp: at(0) }, entered('add', 1), exited('add', 3), entered('judge', 3), exited('judge', 3),
    entered('done', 3), exited('done', 4), { type: 'ExecutionSucceeded', timestamp: at(4) },
  ];
  const history: History = { definition: {}, input: {}, events, threads: events.map(() => 0) };
  const steps = stepsOf(history);
  assert.deepEqual(steps.map((step) => [step.state, step.took, step.output]), [['add', 2000, '{"b":2}'], ['judge', 0, '{"b":2}'], ['done', 1000, '{"b":2}']]);
  const half = lightsAt(steps, 2, 'Succeeded');
  assert.deepEqual([...half.states], [['add', 'left'], ['judge', 'entered']]);
  assert.ok(half.lines.has(lineKey('add', 'judge')) && !half.lines.has(lineKey('judge', 'done')));
  const whole = lightsAt(steps, 3, 'Succeeded');
  assert.deepEqual([...whole.states.values()], ['left', 'left', 'left']);
  assert.ok(whole.lines.has(lineKey('done', END)) && whole.lines.has(lineKey(START, 'add')));
  const stuck = stepsOf({ ...history, events: events.slice(0, 4) });
  assert.equal(lightsAt(stuck, 2, 'Failed').states.get('judge'), 'failed');
  assert.equal(lightsAt(stuck, 2, 'Running').states.get('judge'), 'entered');
});
