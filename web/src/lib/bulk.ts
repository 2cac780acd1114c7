// The kubectl commands that do the same to several objects, and what they change. Pure.
import { kindId, type Kind } from '../api/kinds';
import type { JsonObject } from '../api/client';
import type { Row } from '../api/table';
import { kubectl } from './kubectl';

export type Action = 'delete' | 'restart' | 'scale' | 'label';

/** What can be done to all objects of a kind at once. */
export function actionsOf(kind: Kind): Action[] {
  const actions: Action[] = [];
  if (kind.subresources.includes('scale')) actions.push('scale');
  if (['Deployment', 'StatefulSet', 'DaemonSet'].includes(kind.kind) && kind.group === 'apps') actions.push('restart');
  if (kind.verbs.includes('patch')) actions.push('label');
  if (kind.verbs.includes('delete')) actions.push('delete');
  return actions;
}

/** One command for each namespace: kubectl takes one at a time. */
export function commandsOf(action: Action, kind: Kind, rows: Row[], more: string): string[] {
  const byNamespace = new Map<string, string[]>();
  for (const { object } of rows) {
    const { namespace = '', name } = object.metadata;
    byNamespace.set(namespace, [...(byNamespace.get(namespace) ?? []), name]);
  }
  return [...byNamespace].map(([namespace, names]) => {
    const place = kind.namespaced ? ['-n', namespace] : [];
    switch (action) {
      case 'delete':
        return kubectl('delete', kindId(kind), ...names, ...place);
      case 'label':
        return kubectl('label', '--overwrite', kindId(kind), ...names, ...place, ...labelWords(more));
      case 'restart':
        return kubectl('rollout', 'restart', ...names.map((name) => `${kindId(kind)}/${name}`), ...place);
      case 'scale':
        return kubectl('scale', kindId(kind), ...names, ...place, `--replicas=${more}`);
    }
  });
}

const labelWords = (text: string): string[] => text.split(/\s+/).filter(Boolean);

/** `a=b c-` as a merge patch; undefined where it is none. Whether keys and values are good, the server says. */
export function labelPatch(text: string): JsonObject | undefined {
  const labels: JsonObject = {};
  for (const word of labelWords(text)) {
    const [, key, value] = /^([^=]+)=(.*)$/.exec(word) ?? [];
    const [, gone] = /^([^=]+)-$/.exec(word) ?? [];
    if (key !== undefined) labels[key] = value ?? '';
    else if (gone !== undefined) labels[gone] = null;
    else return undefined;
  }
  return Object.keys(labels).length > 0 ? { metadata: { labels } } : undefined;
}
