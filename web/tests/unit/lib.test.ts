import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endOf } from '../../src/api/exec';
import { selectorOf } from '../../src/api/log_sources';
import { kindsOf, pathOf } from '../../src/api/kinds';
import { previousTemplate, type KubeObject } from '../../src/api/objects';
import { applyEvent, compareCells, type Column, type Row, type WatchEvent } from '../../src/api/table';
import { diffLines, withContext } from '../../src/lib/diff';
import { filterRows } from '../../src/lib/filter';
import { quote } from '../../src/lib/kubectl';
import { milliseconds } from '../../src/lib/milliseconds';
import { countPods, podsByNode, troubled } from '../../src/lib/overview';
import { bytes, quantity } from '../../src/lib/quantity';
import { Ring } from '../../src/lib/ring';
import { toneOf } from '../../src/lib/tone';
import { Turns } from '../../src/lib/turns';
import { whyOf } from '../../src/lib/why';

const column = (name: string): Column => ({ name, type: 'string', priority: 0 });
const row = (uid: string, cells: Row['cells'], more: Partial<Row['object']['metadata']> = {}): Row => ({
  cells,
  object: { metadata: { uid, name: String(cells[0]), ...more } },
});

test('quantities are numbers', () => {
  const check = (text: string, expected: number): void => assert.ok(Math.abs(quantity(text) - expected) < 1e-9, text);
  check('250m', 0.25);
  check('64Mi', 64 * 2 ** 20);
  check('1.5', 1.5);
  check('2e3', 2000);
  check('1k', 1000);
  check('nonsense', 0);
  assert.equal(bytes(1.5 * 2 ** 30), '1.5 GiB');
});

test('answers that were overtaken are not shown', () => {
  const turns = new Turns();
  const [first, second, third] = [turns.next(), turns.next(), turns.next()];
  assert.ok(turns.isNews(first));
  assert.ok(turns.isNews(third));
  assert.ok(!turns.isNews(second));
  assert.ok(turns.isNews(turns.next()));
});

test('words have tones', () => {
  const expected = { Running: 'good', Completed: 'done', Pending: 'busy', CrashLoopBackOff: 'bad', NotReady: 'bad', 'Ready,SchedulingDisabled': 'busy', ImagePullBackOff: 'bad', 'Init:0/1': 'busy', Error: 'bad', ClusterIP: 'none' };
  for (const [word, tone] of Object.entries(expected)) assert.equal(toneOf(word), tone, word);
});

test('words for a shell are quoted', () => {
  assert.equal(quote('web-1'), 'web-1');
  assert.equal(quote('a b'), "'a b'");
  assert.equal(quote("x'; rm -f /"), "'x'\\''; rm -f /'");
});

test('diff applied to the first text gives the second', () => {
  let seed = 7;
  const random = (n: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let round = 0; round < 500; round++) {
    const make = (): string => Array.from({ length: random(12) }, () => 'abc'[random(3)]).join('\n');
    const [before, after] = [make(), make()];
    const changes = diffLines(before, after);
    const keep = (sign: string): string => changes.filter((c) => c.sign === ' ' || c.sign === sign).map((c) => c.text).join('\n');
    assert.equal(keep('-'), before);
    assert.equal(keep('+'), after);
  }
  assert.deepEqual(withContext(diffLines('a\nb', 'a\nb')), []);
});

test('ring keeps the last lines within its bounds', () => {
  const ring = new Ring(3, 100);
  ring.push(['a', 'b', 'c', 'd', 'e']);
  assert.deepEqual(ring.slice(0, 9), ['c', 'd', 'e']);
  for (let i = 0; i < 100; i++) ring.push([String(i)]);
  assert.deepEqual(ring.slice(0, 9), ['97', '98', '99']);
  ring.push(['x'.repeat(99), 'yy']);
  assert.deepEqual(ring.slice(0, 9), ['yy']);
  assert.deepEqual(ring.matching('Y'), ['yy']);
});

test('filter finds words, labels and cells', () => {
  const columns = [column('Name'), column('Status')];
  const rows = [row('1', ['web-1', 'Running'], { labels: { app: 'web' } }), row('2', ['db', 'Pending'], { namespace: 'shop' })];
  const check = (filter: string, ...expected: string[]): void =>
    assert.deepEqual(filterRows(rows, columns, filter).map((one) => one.object.metadata.uid), expected, filter);
  check('', '1', '2');
  check('web', '1');
  check('shop', '2');
  check('app=web', '1');
  check('status:pending', '2');
  check('status:!pending', '1');
  check('!web', '2');
  check('web pending');
});

test('cells compare as people do', () => {
  const sorted = (...cells: (string | number)[]): (string | number)[] => cells.sort(compareCells);
  assert.deepEqual(sorted(10, 9, 100), [9, 10, 100]);
  assert.deepEqual(sorted('3/3', '0/1'), ['0/1', '3/3']);
  assert.deepEqual(sorted('web-10', 'web-9'), ['web-9', 'web-10']);
});

test('events change rows in any order', () => {
  const rows = new Map<string, Row>();
  const event = (type: WatchEvent['type'], one: Row): WatchEvent => ({ type, object: { kind: 'Table', metadata: {}, rows: [one] } });
  assert.ok(applyEvent(rows, event('ADDED', row('1', ['a']))));
  assert.ok(applyEvent(rows, event('MODIFIED', row('1', ['b']))));
  assert.equal(rows.get('1')?.cells[0], 'b');
  assert.ok(applyEvent(rows, event('DELETED', row('1', ['b']))));
  assert.ok(applyEvent(rows, event('DELETED', row('1', ['b']))));
  assert.equal(rows.size, 0);
  assert.ok(!applyEvent(rows, { type: 'BOOKMARK', object: { kind: 'Table', metadata: { resourceVersion: '9' } } }));
});

test('kinds come in their preferred version and have paths', () => {
  const resource = { resource: 'deployments', responseKind: { kind: 'Deployment' }, scope: 'Namespaced' as const, verbs: ['list'], subresources: [{ subresource: 'scale' }] };
  const versions = ['v1', 'v1beta1'].map((version) => ({ version, resources: [resource, { ...resource, resource: 'reviews', verbs: ['create'] }] }));
  const kinds = kindsOf({ items: [{ metadata: { name: 'apps' }, versions }] });
  assert.equal(kinds.length, 1);
  assert.equal(kinds[0] && pathOf(kinds[0], 'shop', 'a/b', 'scale'), '/apis/apps/v1/namespaces/shop/deployments/a%2Fb/scale');
});

test('overview counts pods and finds those in trouble', () => {
  const columns = ['Name', 'Ready', 'Status', 'Node'].map(column);
  const old = { creationTimestamp: '2026-01-01T00:00:00Z' };
  const now = Date.parse('2026-01-01T00:00:10Z');
  const rows = [
    row('1', ['a', '1/1', 'Running', 'n1'], old),
    row('2', ['b', '0/1', 'Running', 'n1'], old),
    row('3', ['c', '0/1', 'CrashLoopBackOff', 'n2'], old),
    row('4', ['d', '0/1', 'Pending', '<none>'], old),
    row('5', ['e', '0/1', 'Completed', 'n1'], old),
  ];
  assert.deepEqual(countPods(columns, rows), { all: 5, running: 1, waiting: 2, failing: 1, done: 1 });
  assert.deepEqual(podsByNode(columns, rows).map(([node, cells]) => [node, cells.length]), [['n1', 3], ['n2', 1], ['', 1]]);
  const names = (at: number): string[] => troubled(columns, rows, at, 9).map((one) => one.object.metadata.name);
  assert.deepEqual(names(now), ['c']);
  assert.deepEqual(names(now + 60_000), ['c', 'b', 'd']);
});

test('why tells what stands in the way', () => {
  const pod = (status: object, more: object = {}): Parameters<typeof whyOf>[0] =>
    ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', uid: 'u', ...more }, spec: {}, status }) as never;
  const check = (object: Parameters<typeof whyOf>[0], ...expected: string[]): void =>
    assert.deepEqual(whyOf(object).map((finding) => finding.title), expected);
  const container = (more: object): object => ({ containerStatuses: [{ name: 'c', ...more }] });
  check(pod({ phase: 'Running', ...container({ ready: true, state: { running: {} } }) }));
  check(pod({ conditions: [{ type: 'PodScheduled', status: 'False', message: '0/3 nodes' }] }), 'whyPending');
  check(pod(container({ state: { waiting: { reason: 'ImagePullBackOff' } } })), 'whyImage');
  check(pod(container({ state: { waiting: { reason: 'CrashLoopBackOff' } }, restartCount: 6 })), 'whyCrash');
  check(pod(container({ state: { waiting: { reason: 'CrashLoopBackOff' } }, lastState: { terminated: { reason: 'OOMKilled' } } })), 'whyMemory');
  check(pod(container({ ready: false, state: { running: {} } })), 'whyUnready');
  check(pod({ phase: 'Running' }, { deletionTimestamp: '2026-01-01T00:00:00Z' }), 'whyEnding');
});

test('end of a shell is told by its code', () => {
  assert.equal(endOf('{"status":"Success"}'), 'exit code 0');
  assert.equal(endOf('{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"137"}]}}'), 'exit code 137');
  assert.equal(endOf('{"status":"Failure","message":"no such container"}'), 'no such container');
  assert.equal(endOf('text'), 'text');
});

test('selector of a workload is a query', () => {
  const check = (kind: string, selector: object, expected: string): void =>
    assert.equal(selectorOf({ apiVersion: 'apps/v1', kind, metadata: { name: 'w', uid: 'u' }, spec: { selector } } as never), expected);
  check('Deployment', { matchLabels: { app: 'web', tier: 'a' } }, 'app=web,tier=a');
  check('Job', { matchExpressions: [{ key: 'a', operator: 'In', values: ['b', 'c'] }, { key: 'd', operator: 'DoesNotExist' }] }, 'a in (b,c),!d');
  check('ReplicationController', { app: 'old' }, 'app=old');
});

test('undo takes the newest template before the current one', () => {
  const set = (revision: number, owner: string): KubeObject =>
    ({
      apiVersion: 'apps/v1', kind: 'ReplicaSet',
      metadata: { name: `s${revision}`, uid: `s${revision}`, annotations: { 'deployment.kubernetes.io/revision': String(revision) }, ownerReferences: [{ apiVersion: 'apps/v1', kind: 'Deployment', name: 'd', uid: owner }] },
      spec: { template: { metadata: { labels: { app: 'd', 'pod-template-hash': 'x' } }, spec: { revision } } },
    }) as unknown as KubeObject;
  const found = previousTemplate([set(1, 'd'), set(3, 'd'), set(4, 'd'), set(2, 'other'), set(2, 'd')], 'd', 4);
  assert.deepEqual(found, { revision: 3, template: { metadata: { labels: { app: 'd' } }, spec: { revision: 3 } } });
  assert.equal(previousTemplate([set(1, 'd')], 'd', 1), undefined);
});

test('milliseconds have as many digits as say something', () => {
  for (const [value, expected] of [[0.04, '0.0 ms'], [2.31, '2.3 ms'], [9.96, '10 ms'], [341.2, '341 ms'], [999.6, '1.00 s'], [12_340, '12.3 s']] as const) {
    assert.equal(milliseconds(value), expected);
  }
});
