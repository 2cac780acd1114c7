import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mostOf, nearest, pathOf, ticksOf, type Frame } from '../../src/lib/chart';
import { usersOf } from '../../src/lib/claims';
import type { KubeObject } from '../../src/api/objects';

test('ticks are few, even, and reach what is shown', () => {
  for (let i = -6; i < 40; i++) {
    for (const base of [10, 2] as const) {
      const most = 1.7 ** i;
      const ticks = ticksOf(most, base);
      assert.ok((ticks.at(-1) ?? 0) >= most * (1 - 1e-6), `${most}: ${ticks}`);
      assert.ok(ticks.length >= 2 && ticks.length <= 6, `${most}: ${ticks}`);
      assert.equal(ticks[0], 0);
    }
  }
  assert.deepEqual(ticksOf(0, 10), [0, 1]);
});

test('line breaks where nothing was measured', () => {
  const frame: Frame = { from: 0, to: 100, top: 10, width: 100, height: 100 };
  assert.equal(pathOf([[0, 0], [10, 5], [20, null], [30, 10], [90, 0]], frame, 20), 'M0,100L10,50M30,0M90,100');
  assert.equal(pathOf([[-5, 3], [0, 0]], frame, 20), 'M0,100', 'what is older is left out');
  assert.deepEqual(nearest([[0, 1], [10, 2]], 6), [10, 2]);
  assert.equal(mostOf([{ name: '', points: [[0, 9], [50, 3], [60, null]] }], 10, 0), 3);
  assert.equal(mostOf([], 0, 4), 4);
});

test('claims know the pods that use them', () => {
  const pod = (name: string, phase: string, volumes: object[]): KubeObject =>
    ({ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'a', uid: name }, spec: { volumes }, status: { phase } }) as unknown as KubeObject;
  const claim = { name: 'v', persistentVolumeClaim: { claimName: 'data' } };
  const users = usersOf([
    pod('one', 'Running', [claim]), pod('two', 'Pending', [claim, { name: 's', ephemeral: {} }]), pod('gone', 'Succeeded', [claim]), pod('none', 'Running', [{ name: 'x', emptyDir: {} }]),
  ]);
  assert.deepEqual([...users], [['a/data', ['one', 'two']], ['a/two-s', ['two']]]);
});
