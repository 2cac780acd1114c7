// The kinds and namespaces of the cluster, and who the user is: what every page needs.
import { getJson } from '../api/client';
import { discover, kindId, type Kind } from '../api/kinds';
import type { Table } from '../api/table';
import { AS_TABLE } from '../api/table';

class Catalog {
  kinds = $state.raw<Kind[]>([]);
  namespaces = $state.raw<string[]>([]);
  /** Who may not list namespaces can still name one. */
  canListNamespaces = $state(true);
  user = $state('');
  version = $state('');
  loaded = $state(false);

  async load(): Promise<void> {
    const [kinds, version] = await Promise.all([
      discover(),
      getJson<{ gitVersion?: string }>('/version'),
    ]);
    this.kinds = kinds;
    this.version = version.gitVersion ?? '';
    this.loaded = true;
    await Promise.all([this.loadUser(), this.loadNamespaces()]);
  }

  async loadNamespaces(): Promise<void> {
    try {
      const table = await getJson<Table>('/api/v1/namespaces', { accept: AS_TABLE });
      this.namespaces = (table.rows ?? []).map((row) => row.object.metadata.name).sort();
      this.canListNamespaces = true;
    } catch {
      this.canListNamespaces = false;
    }
  }

  find(id: string): Kind | undefined {
    return this.kinds.find((kind) => kindId(kind) === id);
  }

  /** The kind that an owner reference or an event names. */
  named(name: string, group?: string): Kind | undefined {
    return this.kinds.find((kind) => kind.kind === name && (group === undefined || kind.group === group));
  }

  private async loadUser(): Promise<void> {
    const body = JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' });
    const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
    const review = await getJson<{ status?: { userInfo?: { username?: string } } }>(path, { method: 'POST', body });
    this.user = review.status?.userInfo?.username ?? '';
  }
}

export const catalog = new Catalog();
