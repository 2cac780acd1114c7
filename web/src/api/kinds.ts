// Which kinds the cluster has: asked of the cluster, so that custom ones are like any other.
import { getJson } from './client';

export interface Kind {
  group: string;
  version: string;
  /** As URLs name it: `pods`. */
  plural: string;
  /** As manifests name it: `Pod`. */
  kind: string;
  shortNames: string[];
  namespaced: boolean;
  verbs: string[];
  subresources: string[];
}

interface Discovery {
  items: {
    metadata: { name?: string };
    versions: {
      version: string;
      resources?: {
        resource: string;
        responseKind?: { kind: string };
        scope: 'Namespaced' | 'Cluster';
        shortNames?: string[];
        verbs: string[];
        subresources?: { subresource: string }[];
      }[];
    }[];
  }[];
}

const AGGREGATED = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';

/** Every kind that can be listed, in its preferred version. */
export async function discover(): Promise<Kind[]> {
  const [core, groups] = await Promise.all(
    ['/api', '/apis'].map((path) => getJson<Discovery>(path, { accept: AGGREGATED })),
  );
  return [...kindsOf(core), ...kindsOf(groups)];
}

export function kindsOf(discovery: Discovery | undefined): Kind[] {
  const found = new Map<string, Kind>();
  for (const group of discovery?.items ?? []) {
    for (const { version, resources } of group.versions) {
      for (const resource of resources ?? []) {
        const name = group.metadata.name ?? '';
        const id = `${resource.resource}.${name}`;
        // The first version is the preferred one.
        if (found.has(id) || !resource.verbs.includes('list')) continue;
        found.set(id, {
          group: name,
          version,
          plural: resource.resource,
          kind: resource.responseKind?.kind ?? resource.resource,
          shortNames: resource.shortNames ?? [],
          namespaced: resource.scope === 'Namespaced',
          verbs: resource.verbs,
          subresources: (resource.subresources ?? []).map((sub) => sub.subresource),
        });
      }
    }
  }
  return [...found.values()];
}

/** `pods`, `deployments.apps`: what kubectl takes too. */
export function kindId(kind: Pick<Kind, 'plural' | 'group'>): string {
  return kind.group ? `${kind.plural}.${kind.group}` : kind.plural;
}

export function apiVersion(kind: Pick<Kind, 'group' | 'version'>): string {
  return kind.group ? `${kind.group}/${kind.version}` : kind.version;
}

/** Where objects of a kind are: the collection without a name. */
export function pathOf(kind: Kind, namespace = '', name = '', subresource = ''): string {
  const parts = [kind.group ? `/apis/${kind.group}/${kind.version}` : `/api/${kind.version}`];
  if (kind.namespaced && namespace) parts.push('namespaces', encodeURIComponent(namespace));
  parts.push(kind.plural);
  if (name) parts.push(encodeURIComponent(name));
  if (subresource) parts.push(subresource);
  return parts.join('/');
}
