import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../src/api/objects';
import type { Row } from '../../src/api/table';
import { mayOf, whoMay, type Binding, type Role } from '../../src/lib/access';
import { fateOf } from '../../src/lib/drain';
import { doubled, lifecycleOf } from '../../src/lib/lifecycle';
import { mapOf, percents, shifted, type Traffic } from '../../src/lib/mesh';
import { agoText, compare, momentAt } from '../../src/lib/past';
import { patchOf, settingsOf } from '../../src/lib/scaling';

const traffic = (source: string, service: string, rate = 1, errors = 0): Traffic => ({
  source, service, requests: rate * 10, windowSeconds: 10, requestsPerSecond: rate, errorsPerSecond: errors, p99Milliseconds: 25,
});

test('callers are left of what they call, also in circles', () => {
  const map = mapOf([traffic('a/web', 'a/cart', 100), traffic('a/cart', 'a/db', 10, 1), traffic('a/db', 'a/cart', 1), traffic('b/job', 'a/db', 0)]);
  const at = (id: string): number => map.nodes.find((node) => node.id === id)?.x ?? -1;
  assert.ok(at('a/web') < at('a/cart') && at('a/cart') < at('a/db') && at('b/job') < at('a/db'));
  assert.deepEqual(map.lines.map((line) => line.tone), ['bad', 'good', 'good', 'none']);
  const places = map.nodes.map((node) => `${node.x},${node.y}`);
  assert.equal(new Set(places).size, places.length, 'no two in one place');
  assert.deepEqual(mapOf([traffic('a/x', 'a/x')]).nodes.length, 1);
  assert.deepEqual(mapOf([]).lines, []);
});

test('picture with too many lines keeps the busiest', () => {
  const many = Array.from({ length: 500 }, (_, i) => traffic(`a/w${i}`, 'a/s', i));
  const map = mapOf(many);
  assert.equal(map.lines.length, 150);
  assert.equal(map.folded, 350);
  assert.ok(map.lines.every((line) => line.traffic.requestsPerSecond >= 350));
});

test('parts add up to a hundred, whatever is moved', () => {
  assert.deepEqual(percents([1, 1, 1]), [34, 33, 33]);
  assert.deepEqual(percents([0, 0]), [0, 0]);
  assert.deepEqual(shifted([90, 10], 1, 25), [75, 25]);
  assert.deepEqual(shifted([100, 0], 0, 0), [0, 100]);
  assert.deepEqual(shifted([0, 0], 1, 30), [70, 30]);
  assert.deepEqual(shifted([50, 30, 20], 0, 0), [0, 60, 40]);
  for (let value = 0; value <= 100; value++) {
    assert.equal(shifted([33, 33, 34], 1, value).reduce((a, b) => a + b, 0), 100, String(value));
  }
});

test('rights are told, and who has them', () => {
  const rules = [{ verbs: ['get', 'list'], apiGroups: [''], resources: ['pods'] }, { verbs: ['delete'], apiGroups: ['*'], resources: ['*'], resourceNames: ['x'] }];
  const pods = { group: '', plural: 'pods' };
  assert.deepEqual(['get', 'delete', 'patch'].map((verb) => mayOf(rules, pods, verb)), ['yes', 'some', 'no']);
  assert.equal(mayOf(rules, { group: 'apps', plural: 'deployments' }, 'get'), 'no');
  const roles: Role[] = [
    { metadata: { name: 'admin' }, rules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }] },
    { metadata: { name: 'admin', namespace: 'a' }, rules: null },
    { metadata: { name: 'own', namespace: 'a' }, rules },
  ];
  const bind = (name: string, role: string, kind: string, namespace?: string): Binding => ({
    metadata: namespace ? { name, namespace } : { name }, roleRef: { kind, name: role }, subjects: [{ kind: 'User', name }],
  });
  const bindings = [bind('boss', 'admin', 'ClusterRole'), bind('ann', 'own', 'Role', 'a'), bind('bob', 'own', 'Role', 'b'), bind('eve', 'admin', 'Role', 'a')];
  assert.deepEqual(whoMay(roles, bindings, pods, 'get', 'a').map((grant) => grant.subject.name), ['ann', 'boss']);
  assert.deepEqual(whoMay(roles, bindings, pods, 'patch', 'a').map((grant) => grant.subject.name), ['boss']);
});

test('then and now are compared', () => {
  const row = (uid: string, resourceVersion: string): Row => ({ cells: [uid], object: { metadata: { uid, name: uid, resourceVersion } } });
  const found = compare([row('a', '1'), row('b', '1'), row('c', '1')], [row('a', '1'), row('b', '2'), row('d', '3')]);
  assert.deepEqual(found.map(({ row: { cells }, since }) => `${cells[0]} ${since}`), ['a same', 'b changed', 'c gone', 'd new']);
  const moments = [[1000, '1'], [2000, '5'], [3000, '9']] as const;
  assert.deepEqual([0, 1500, 2000, 9999].map((at) => momentAt([...moments], at)), [0, 0, 1, 2]);
  assert.deepEqual([0, 119_000, 150_000, 7_260_000].map(agoText), ['0 s', '119 s', '2 min 30 s', '2 h 1 min']);
});

test('settings of an autoscaler are a patch', () => {
  const spec = { maxReplicas: 5, metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 50 } } }] };
  const own = settingsOf(spec);
  assert.deepEqual(own, { target: 50, min: 1, max: 5, up: 0, down: 300 });
  assert.deepEqual(patchOf(own, own, spec), {});
  const patch = patchOf({ ...own, target: 35, max: 9, down: 60 }, own, spec);
  assert.deepEqual(patch['behavior'], { scaleDown: { stabilizationWindowSeconds: 60 } });
  assert.equal(patch['maxReplicas'], 9);
  assert.match(JSON.stringify(patch['metrics']), /"averageUtilization":35/);
  assert.equal(spec.metrics[0]?.resource.target.averageUtilization, 50, 'the object itself stays');
  assert.equal(settingsOf({ maxReplicas: 1, metrics: [{ type: 'Pods' }] }).target, undefined);
});

test('pods leave a drained node, or have a reason to stay', () => {
  const pod = (more: object, phase = 'Running'): KubeObject =>
    ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', uid: 'u', ...more }, status: { phase } }) as unknown as KubeObject;
  const owned = (kind: string) => ({ ownerReferences: [{ apiVersion: 'v1', kind, name: 'o', uid: 'o', controller: true }] });
  assert.deepEqual(
    [pod(owned('ReplicaSet')), pod(owned('DaemonSet')), pod({}), pod({}, 'Succeeded'), pod({ annotations: { 'kubernetes.io/config.mirror': 'x' } })].map(fateOf),
    ['evict', 'daemon', 'alone', 'done', 'static'],
  );
});

test('life of a pod has its seconds', () => {
  const at = (second: number): string => new Date(second * 1000).toISOString();
  const pod = {
    apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', uid: 'u', creationTimestamp: at(0) }, spec: { nodeName: 'n1' },
    status: {
      conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime: at(1) }, { type: 'Ready', status: 'False', lastTransitionTime: at(9) }],
      containerStatuses: [{ name: 'c', state: { running: { startedAt: at(8) } }, lastState: { terminated: { startedAt: at(3), finishedAt: at(5), exitCode: 137, reason: 'OOMKilled' } } }],
    },
  } as unknown as KubeObject;
  assert.deepEqual(lifecycleOf(pod).map((event) => `${event.stage} +${event.after} ${event.note}`.trim()), ['made +0', 'placed +1 n1', 'started +2 c', 'failed +2 c OOMKilled 137', 'started +3 c']);
  assert.deepEqual(['64Mi', '1.5Gi', '', 'much'].map(doubled), ['128Mi', '3Gi', '', '']);
});
