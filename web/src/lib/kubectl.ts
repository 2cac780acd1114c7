// The kubectl command that does what a click does: to learn it, to script it, to tell somebody.
import { kindId, type Kind } from '../api/kinds';

/** Words that a shell would change are quoted. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}

export function kubectl(...words: (string | false | undefined)[]): string {
  const given = words.filter((word): word is string => typeof word === 'string' && word !== '');
  return ['kubectl', ...given.map(quote)].join(' ');
}

export function inNamespace(kind: Pick<Kind, 'namespaced'>, namespace: string): string[] {
  if (!kind.namespaced) return [];
  return namespace ? ['-n', namespace] : ['-A'];
}

export function getCommand(kind: Kind, namespace: string): string {
  return kubectl('get', kindId(kind), ...inNamespace(kind, namespace));
}

/** `kubectl VERB KIND/NAME -n NAMESPACE …` */
export function objectCommand(verb: string[], kind: Kind, namespace: string, name: string, ...more: string[]): string {
  return kubectl(...verb, `${kindId(kind)}/${name}`, ...(kind.namespaced ? ['-n', namespace] : []), ...more);
}
