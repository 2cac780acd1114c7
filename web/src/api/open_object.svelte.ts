// One object that is read again whenever its version changes.
import { Turns } from '../lib/turns';
import { ApiError } from './client';
import type { Kind } from './kinds';
import { getObject, type KubeObject } from './objects';

export class OpenObject {
  object = $state.raw<KubeObject>();
  trouble = $state('');
  isMissing = $state(false);
  private readonly turns = new Turns();

  constructor(
    private readonly kind: Kind,
    private readonly namespace: string,
    private readonly name: string,
  ) {}

  async load(): Promise<void> {
    const turn = this.turns.next();
    try {
      const found = await getObject(this.kind, this.namespace, this.name);
      if (!this.turns.isNews(turn)) return;
      this.object = found;
      this.trouble = '';
      this.isMissing = false;
    } catch (error) {
      if (!this.turns.isNews(turn)) return;
      this.isMissing = error instanceof ApiError && error.status === 404;
      this.trouble = error instanceof Error ? error.message : String(error);
    }
  }
}
