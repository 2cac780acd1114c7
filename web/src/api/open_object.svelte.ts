// One object that is read again whenever its version changes.
import { ApiError } from './client';
import type { Kind } from './kinds';
import { getObject, type KubeObject } from './objects';

export class OpenObject {
  object = $state.raw<KubeObject>();
  trouble = $state('');
  isMissing = $state(false);

  constructor(
    private readonly kind: Kind,
    private readonly namespace: string,
    private readonly name: string,
  ) {}

  async load(): Promise<void> {
    try {
      this.object = await getObject(this.kind, this.namespace, this.name);
      this.trouble = '';
      this.isMissing = false;
    } catch (error) {
      this.isMissing = error instanceof ApiError && error.status === 404;
      this.trouble = error instanceof Error ? error.message : String(error);
    }
  }
}
