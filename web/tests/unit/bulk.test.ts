import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Kind } from '../../src/api/kinds';
import type { Row } from '../../src/api/table';
import { actionsOf, commandsOf, labelPatch } from '../../src/lib/bulk';

test('several objects are changed by one command for each namespace', () => {
  const kind = (name: string, more: Partial<Kind> = {}): Kind => ({
    group: '', version: 'v1', plural: 'pods', kind: name, shortNames: [], namespaced: true, verbs: ['get', 'list', 'patch', 'delete'], subresources: [], ...more,
  });
  const row = (namespace: string, name: string): Row => ({ cells: [], object: { metadata: { namespace, name, uid: name } } });
  const rows = [row('shop', 'a'), row('lab', 'b'), row('shop', 'c')];
  assert.deepEqual(commandsOf('delete', kind('Pod'), rows, ''), ['kubectl delete pods a c -n shop', 'kubectl delete pods b -n lab']);
  const deployment = kind('Deployment', { group: 'apps', plural: 'deployments', subresources: ['scale', 'status'] });
  assert.deepEqual(commandsOf('scale', deployment, rows.slice(0, 1), '3'), ['kubectl scale deployments.apps a -n shop --replicas=3']);
  assert.deepEqual(commandsOf('restart', deployment, rows.slice(0, 1), ''), ['kubectl rollout restart deployments.apps/a -n shop']);
  const node = kind('Node', { namespaced: false, plural: 'nodes' });
  assert.deepEqual(commandsOf('label', node, [row('', 'n1')], 'disk=ssd old-'), ['kubectl label --overwrite nodes n1 disk=ssd old-']);
  assert.deepEqual(actionsOf(deployment), ['scale', 'restart', 'label', 'delete']);
  assert.deepEqual(actionsOf(kind('Event', { verbs: ['get', 'list'] })), []);
});

test('labels are set and removed by what kubectl takes', () => {
  const check = (text: string, labels: object | undefined) => assert.deepEqual(labelPatch(text), labels && { metadata: { labels } });
  check('a=b', { a: 'b' });
  check(' a=b  c- d= ', { a: 'b', c: null, d: '' });
  check('example.com/a=b-', { 'example.com/a': 'b-' });
  check('a', undefined);
  check('', undefined);
  check('=b', undefined);
});
