// Who may do what, from the rules that the server tells. Pure.
import type { Kind } from '../api/kinds';

export interface Rule {
  verbs: string[];
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
}

export const VERBS = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'] as const;

/** `some`: of objects with certain names only. */
export type May = 'yes' | 'some' | 'no';

export function mayOf(rules: Rule[], kind: Pick<Kind, 'group' | 'plural'>, verb: string): May {
  const has = (list: string[] | undefined, wanted: string): boolean => (list ?? []).some((one) => one === '*' || one === wanted);
  let may: May = 'no';
  for (const rule of rules) {
    if (!has(rule.verbs, verb) || !has(rule.apiGroups, kind.group) || !has(rule.resources, kind.plural)) continue;
    if ((rule.resourceNames ?? []).length === 0) return 'yes';
    may = 'some';
  }
  return may;
}

export interface Subject {
  kind: string;
  name: string;
  namespace?: string;
}

export interface Binding {
  metadata: { name: string; namespace?: string };
  roleRef: { kind: string; name: string };
  subjects?: Subject[];
}

export interface Role {
  metadata: { name: string; namespace?: string };
  rules?: Rule[] | null;
}

export interface Grant {
  subject: Subject;
  /** `ClusterRoleBinding/admins`, and the role that it gives. */
  binding: string;
  role: string;
  may: May;
}

/** Everybody whom a binding lets do it in a namespace; an empty one is the whole cluster. */
export function whoMay(roles: Role[], bindings: Binding[], kind: Pick<Kind, 'group' | 'plural'>, verb: string, namespace: string): Grant[] {
  const found: Grant[] = [];
  for (const binding of bindings) {
    const place = binding.metadata.namespace ?? '';
    if (place !== '' && place !== namespace) continue;
    const of = binding.roleRef.kind === 'Role' ? place : '';
    const role = roles.find((one) => one.metadata.name === binding.roleRef.name && (one.metadata.namespace ?? '') === of);
    const may = mayOf(role?.rules ?? [], kind, verb);
    if (may === 'no') continue;
    for (const subject of binding.subjects ?? []) {
      found.push({
        subject,
        binding: `${place ? 'RoleBinding' : 'ClusterRoleBinding'}/${binding.metadata.name}`,
        role: `${binding.roleRef.kind}/${binding.roleRef.name}`,
        may,
      });
    }
  }
  return found.sort((a, b) => a.subject.kind.localeCompare(b.subject.kind) || a.subject.name.localeCompare(b.subject.name));
}
