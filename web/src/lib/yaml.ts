// YAML, loaded when it is needed: tables need none of it.
import type { Json } from '../api/client';
import type { KubeObject } from '../api/objects';

/** Where a text is wrong. */
export class YamlError extends Error {
  constructor(
    message: string,
    readonly line: number,
  ) {
    super(message);
  }
}

export async function toYaml(value: unknown): Promise<string> {
  const { stringify } = await import('yaml');
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}

/** All documents of a text; empty ones are left out. */
export async function parseYaml(text: string): Promise<Json[]> {
  const { LineCounter, parseAllDocuments } = await import('yaml');
  const lineCounter = new LineCounter();
  const documents = parseAllDocuments(text, { lineCounter, prettyErrors: false, maxAliasCount: 100 } as never);
  const found: Json[] = [];
  for (const document of Array.isArray(documents) ? documents : []) {
    const error = document.errors[0];
    if (error) throw new YamlError(error.message, lineCounter.linePos(error.pos[0]).line);
    const value = document.toJS({ maxAliasCount: 100 }) as Json;
    if (value !== null && value !== undefined) found.push(value);
  }
  return found;
}

/** What people edit: without the server's bookkeeping, and in the order in which people write it. */
export function editable(object: KubeObject): KubeObject {
  const { managedFields: _, name, namespace, labels, annotations, ...rest } = object.metadata;
  const written = { name, namespace, labels, annotations, ...rest };
  const metadata = Object.fromEntries(Object.entries(written).filter(([, value]) => value !== undefined));
  const { apiVersion, kind, ...others } = object;
  const first = { apiVersion, kind, metadata: metadata as KubeObject['metadata'] };
  return { ...first, ...others, metadata: first.metadata };
}
