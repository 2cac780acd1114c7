import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SchemaBook, spotOf, type OpenApi } from '../../src/lib/schema';

const document: OpenApi = {
  components: {
    schemas: {
      Pod: {
        'x-kubernetes-group-version-kind': [{ group: '', version: 'v1', kind: 'Pod' }],
        properties: { apiVersion: { type: 'string' }, kind: { type: 'string' }, metadata: { type: 'object' }, spec: { allOf: [{ $ref: '#/components/schemas/PodSpec' }], description: 'What is wanted. More.' } },
      },
      PodSpec: {
        required: ['containers'],
        properties: {
          hostNetwork: { type: 'boolean' }, containers: { type: 'array', items: { $ref: '#/components/schemas/Container' } },
          restartPolicy: { type: 'string', enum: ['Always', 'Never', 'OnFailure'] }, nodeSelector: { type: 'object', additionalProperties: { type: 'string' } },
        },
      },
      Container: { properties: { name: { type: 'string' }, image: { type: 'string' }, imagePullPolicy: { type: 'string', enum: ['Always', 'Never'] } } },
    },
  },
};

/** `|` is the caret. */
function labels(text: string): string[] {
  const spot = spotOf(text.replace('|', ''), text.indexOf('|'));
  const book = new SchemaBook(document);
  const root = book.root('', 'v1', 'Pod');
  assert.ok(root);
  return spot ? book.suggest(root, spot).map((one) => one.label) : [];
}

const HEAD = 'apiVersion: v1\nkind: Pod\n';

test('keys and values that may stand at the caret are suggested', () => {
  assert.deepEqual(labels(`${HEAD}|`), ['metadata', 'spec']);
  assert.deepEqual(labels(`${HEAD}spec:\n  |`), ['containers', 'hostNetwork', 'nodeSelector', 'restartPolicy'], 'what is required comes first');
  assert.deepEqual(labels(`${HEAD}spec:\n  h|`), ['hostNetwork']);
  assert.deepEqual(labels(`${HEAD}spec:\n  hostNetwork: |`), ['true', 'false']);
  assert.deepEqual(labels(`${HEAD}spec:\n  restartPolicy: N|`), ['Never']);
  assert.deepEqual(labels(`${HEAD}spec:\n  containers:\n  - name: a\n    im|`), ['image', 'imagePullPolicy']);
  assert.deepEqual(labels(`${HEAD}spec:\n  containers:\n    - image: x\n      |\n    - name: b\n`), ['imagePullPolicy', 'name'], 'items do not share keys');
  assert.deepEqual(labels(`${HEAD}spec:\n  containers:\n    - |`), ['image', 'imagePullPolicy', 'name']);
  assert.deepEqual(labels(`${HEAD}spec:\n  containers: []\n  |\n  hostNetwork: true\n`), ['nodeSelector', 'restartPolicy']);
  assert.deepEqual(labels(`${HEAD}spec:\n  nodeSelector:\n    |`), []);
  assert.deepEqual(labels(`${HEAD}spec: [a, |`), []);
});

test('document of the caret decides the kind', () => {
  const text = 'apiVersion: apps/v1\nkind: Deployment\n---\napiVersion: v1\nkind: Pod\nspec:\n  \n---\nkind: Other\n';
  const spot = spotOf(text, text.indexOf('spec:\n  ') + 8);
  assert.deepEqual([spot?.apiVersion, spot?.kind, spot?.path], ['v1', 'Pod', ['spec']]);
});

test('what is inserted goes on where one would', () => {
  const book = new SchemaBook(document);
  const root = book.root('', 'v1', 'Pod');
  const spot = spotOf(`${HEAD}spec:\n  `, `${HEAD}spec:\n  `.length);
  assert.ok(root && spot);
  const found = Object.fromEntries(book.suggest(root, spot).map((one) => [one.label, one.insert]));
  assert.equal(found['containers'], 'containers:\n    - ');
  assert.equal(found['nodeSelector'], 'nodeSelector:\n    ');
  assert.equal(found['restartPolicy'], 'restartPolicy: ');
});
