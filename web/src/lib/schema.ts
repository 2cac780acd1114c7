// Help while writing YAML: what may stand here, from the server's own OpenAPI documents. Pure but for fetching those, once
// for each group and version.
import { getJson } from '../api/client';

export interface Schema {
  type?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  allOf?: Schema[];
  enum?: (string | number)[];
  $ref?: string;
  'x-kubernetes-group-version-kind'?: { group: string; version: string; kind: string }[];
}

export interface OpenApi {
  components?: { schemas?: Record<string, Schema> };
}

export interface Suggestion {
  label: string;
  /** What replaces what was typed. */
  insert: string;
  detail: string;
}

/** Where the caret is in a YAML text. */
export interface Spot {
  apiVersion: string;
  kind: string;
  path: string[];
  /** The key whose value is being written; empty where a key is. */
  key: string;
  typed: string;
  indent: number;
  siblings: string[];
}

const KEY = /^(\s*(?:- +)*)([\w.$/-]+):(?:\s|$)/;

export function spotOf(text: string, caret: number): Spot | undefined {
  const before = text.slice(0, caret).split('\n');
  const line = before.pop() ?? '';
  const whole = text.split('\n');
  const start = before.lastIndexOf('---') + 1;
  const end = whole.indexOf('---', before.length);
  const document = whole.slice(start, end < 0 ? undefined : end);
  const root = (name: string): string => document.map((one) => new RegExp(`^${name}:\\s*(\\S+)`).exec(one)?.[1]).find(Boolean) ?? '';
  const value = /^(\s*(?:- +)*)([\w.$/-]+):\s+(\S*)$/.exec(line);
  const key = /^(\s*(?:- +)*)([\w.$/-]*)$/.exec(line);
  const found = value ?? key;
  if (!found) return undefined;
  const indent = (found[1] ?? '').length;
  const above = before.slice(start).reverse();
  const spot = { apiVersion: root('apiVersion'), kind: root('kind'), key: value?.[2] ?? '', typed: (value ? value[3] : key?.[2]) ?? '', indent };
  return { ...spot, path: pathAbove(above, indent), siblings: siblingsOf(line, above, whole.slice(before.length + 1), indent) };
}

function pathAbove(above: string[], indent: number): string[] {
  const path: string[] = [];
  let limit = indent;
  for (const line of above) {
    const found = KEY.exec(line);
    const at = (found?.[1] ?? '').length;
    if (!found || at >= limit) continue;
    path.unshift(found[2] ?? '');
    limit = at;
  }
  return path;
}

/** Keys of the same object, above and below: nobody writes them twice. */
function siblingsOf(line: string, above: string[], below: string[], indent: number): string[] {
  const found: string[] = [];
  const isFirst = (one: string): boolean => one.slice(0, indent).includes('-');
  const collect = (lines: string[], isBelow: boolean): void => {
    for (const one of lines) {
      const parts = KEY.exec(one);
      if (!parts) continue;
      const at = (parts[1] ?? '').length;
      if (at < indent || (isBelow && at === indent && isFirst(one))) return;
      if (at === indent) found.push(parts[2] ?? '');
      if (at === indent && !isBelow && isFirst(one)) return;
    }
  };
  if (!isFirst(line)) collect(above, false);
  collect(below, true);
  return found;
}

export class SchemaBook {
  constructor(private readonly document: OpenApi) {}

  root(group: string, version: string, kind: string): Schema | undefined {
    return Object.values(this.document.components?.schemas ?? {}).find((schema) =>
      schema['x-kubernetes-group-version-kind']?.some((one) => one.group === group && one.version === version && one.kind === kind),
    );
  }

  /** What a reference stands for. */
  resolve(schema: Schema | undefined): Schema {
    let found = schema ?? {};
    for (let depth = 0; depth < 8; depth++) {
      const reference = found.$ref ?? (found.allOf?.length === 1 ? found.allOf[0]?.$ref : undefined);
      if (!reference) break;
      found = { ...this.document.components?.schemas?.[reference.split('/').at(-1) ?? ''], description: found.description ?? '' };
    }
    return found;
  }

  /** Lists are looked through: a path has keys only. */
  at(root: Schema, path: string[]): Schema {
    const into = (schema: Schema): Schema => (schema.items ? into(this.resolve(schema.items)) : schema);
    let current = into(this.resolve(root));
    for (const key of path) {
      const other = current.additionalProperties;
      current = into(this.resolve(current.properties?.[key] ?? (typeof other === 'object' ? other : undefined)));
    }
    return current;
  }

  suggest(root: Schema, spot: Spot): Suggestion[] {
    const typed = spot.typed.toLowerCase();
    const schema = this.at(root, spot.path);
    if (spot.key) {
      const value = this.resolve(schema.properties?.[spot.key]);
      const values = value.type === 'boolean' ? ['true', 'false'] : (value.enum ?? []).map(String);
      return values.filter((one) => one.toLowerCase().startsWith(typed) && one !== spot.typed).map((label) => ({ label, insert: label, detail: '' }));
    }
    const required = new Set(schema.required);
    return Object.entries(schema.properties ?? {})
      .filter(([name]) => name.toLowerCase().startsWith(typed) && !spot.siblings.includes(name))
      .sort(([a], [b]) => Number(required.has(b)) - Number(required.has(a)) || a.localeCompare(b))
      .map(([name, property]) => this.key(name, this.resolve(property), spot.indent, property));
  }

  private key(name: string, schema: Schema, indent: number, written: Schema): Suggestion {
    const inside = `\n${' '.repeat(indent + 2)}`;
    const after = schema.type === 'array' ? `${inside}- ` : schema.properties || schema.type === 'object' ? inside : ' ';
    const words = (written.description || schema.description || '').split(/\.\s|\n/)[0] ?? '';
    return { label: name, insert: `${name}:${after}`, detail: [schema.type, words].filter(Boolean).join(' · ') };
  }
}

const books = new Map<string, Promise<SchemaBook>>();

/** undefined: the server does not know such a kind, or tells nothing of it. */
export async function suggestionsAt(text: string, caret: number): Promise<Suggestion[]> {
  const spot = spotOf(text, caret);
  if (!spot?.apiVersion || !spot.kind) return [];
  const [version = '', group = ''] = spot.apiVersion.split('/').reverse();
  const path = group ? `/openapi/v3/apis/${group}/${version}` : `/openapi/v3/api/${version}`;
  let book = books.get(path);
  if (!book) {
    book = getJson<OpenApi>(path).then((document) => new SchemaBook(document));
    books.set(path, book);
    book.catch(() => books.delete(path));
  }
  const found = await book;
  const root = found.root(group, version, spot.kind);
  return root ? found.suggest(root, spot).slice(0, 50) : [];
}
