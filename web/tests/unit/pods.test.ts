import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freeName, stateOf } from '../../src/api/debug';
import { chooseContainers, inventoryPath, shortImage, type NodeContainer } from '../../src/api/inventory';
import type { KubeObject } from '../../src/api/objects';
import { scoreColumns } from '../../src/lib/placement';
import { podBehind, portsOf } from '../../src/lib/ports';

const pod = (spec: object, status: object = {}): KubeObject =>
  ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web', namespace: 'shop', uid: 'u' }, spec, status }) as unknown as KubeObject;

test('containers of a node are chosen by words and by whose they are', () => {
  const container = (name: string, owner: NodeContainer['owner'], more: Partial<NodeContainer> = {}): NodeContainer => ({
    id: name, name, state: 'running', image: 'docker.io/library/nginx:1', owner, runtimeNamespace: 'k8s.io', ...more,
  });
  const all = [container('web', 'pod', { podNamespace: 'shop', podName: 'web-1' }), container('sandbox', 'sandbox'), container('db', 'foreign', { runtimeNamespace: 'moby', state: 'stopped' })];
  const names = (text: string, foreign = false, sandboxes = false) => chooseContainers(all, text, foreign, sandboxes).map((one) => one.name).join(' ');
  assert.equal(names(''), 'web db');
  assert.equal(names('', false, true), 'web sandbox db');
  assert.equal(names('', true), 'db');
  assert.equal(names('SHOP nginx'), 'web');
  assert.equal(names('moby stopped'), 'db');
  assert.equal(names('shop stopped'), '');
});

test('images are told by the names that people know', () => {
  assert.equal(shortImage('docker.io/library/busybox:1'), 'busybox:1');
  assert.equal(shortImage('docker.io/grafana/grafana:9'), 'grafana/grafana:9');
  assert.equal(shortImage('minik8s.io/web:1'), 'minik8s.io/web:1');
  assert.equal(shortImage(`quay.io/a@sha256:${'ab'.repeat(32)}`), 'quay.io/a@abababababab');
  assert.equal(shortImage(`sha256:${'cd'.repeat(32)}`), 'cdcdcdcdcdcd');
  assert.equal(inventoryPath('n 1', 'images', { image: 'a/b:1', dryRun: 'All' }), '/apis/node.minik8s.io/v1/nodes/n%201/images?image=a%2Fb%3A1&dryRun=All');
});

test('scores become columns in the order of the scheduler', () => {
  const score = (name: string, weight: number) => ({ name, weight, value: 1 });
  const nodes = [{ name: 'a', obstacles: [] }, { name: 'b', scores: [score('TaintToleration', 3), score('ImageLocality', 1)] }];
  assert.deepEqual(scoreColumns(nodes), [{ name: 'TaintToleration', weight: 3 }, { name: 'ImageLocality', weight: 1 }]);
  assert.deepEqual(scoreColumns([]), []);
});

test('web interfaces come first among the ports of a pod', () => {
  const ports = [{ containerPort: 9000 }, { containerPort: 53, protocol: 'UDP' }, { containerPort: 7001, name: 'http' }];
  assert.deepEqual(portsOf(pod({ containers: [{ name: 'a', ports }, { name: 'b' }] })).map((port) => port.number), [7001, 9000]);
  assert.deepEqual(portsOf(pod({})), []);
});

test('debug containers have names of their own, and tell how they are', () => {
  assert.equal(freeName(pod({ containers: [{ name: 'debugger-1' }], ephemeralContainers: [{ name: 'debugger-2' }] })), 'debugger-3');
  const state = (state: object) => stateOf(pod({}, { ephemeralContainerStatuses: [{ name: 'd', state }] }), 'd');
  assert.deepEqual(state({ running: {} }), { running: true, told: '' });
  assert.deepEqual(state({ waiting: { reason: 'ErrImagePull', message: 'no such image' } }), { running: false, told: 'ErrImagePull: no such image' });
  assert.deepEqual(state({ terminated: { reason: 'Error', exitCode: 127 } }), { running: false, told: 'Error (exit code 127)' });
  assert.deepEqual(stateOf(pod({}), 'd'), { running: false, told: '' });
});

test('a Service is forwarded to a pod that is ready', () => {
  const endpoint = (name: string, ready: boolean) => ({ conditions: { ready }, targetRef: { kind: 'Pod', name } });
  const ports = [{ name: 'dns', port: 53, protocol: 'UDP' }, { name: 'http', port: 8080 }];
  const found = podBehind([{ endpoints: [], ports }, { endpoints: [endpoint('a', false), endpoint('b', true)], ports }]);
  assert.deepEqual(found, { pod: 'b', ports: [{ number: 8080, name: 'http', container: '' }] });
  assert.equal(podBehind([{ endpoints: [endpoint('a', false)], ports }]), undefined);
  assert.equal(podBehind([{ endpoints: [{ targetRef: { kind: 'Node', name: 'n' } }] }]), undefined);
});
