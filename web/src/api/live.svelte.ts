// A list that stays true: listed as a table in pages, then watched. It changes at most once per frame, however many
// events arrive, and asks for nothing while the page is hidden.
import { ApiError, getJson, send } from './client';
import { readLines } from './lines';
import { AS_TABLE, applyEvent, versionOf, type Column, type Row, type Table, type WatchEvent } from './table';

const PAGE = 1000;
/** A tab that is looked away from for a moment keeps its watch. */
const HIDDEN = 10_000;
const LONGEST_PAUSE = 30_000;

export class LiveTable {
  columns = $state.raw<Column[]>([]);
  rows = $state.raw<Row[]>([]);
  /** Why there is nothing, or nothing new. */
  error = $state('');
  status = $state(0);
  loading = $state(true);
  private readonly byUid = new Map<string, Row>();
  private readonly stopped = new AbortController();
  private attempt: AbortController | undefined;
  private frame = 0;
  private hiding = 0;
  private wake: () => void = () => {};

  constructor(
    private readonly path: string,
    private readonly query: Record<string, string> = {},
  ) {
    document.addEventListener('visibilitychange', this.onVisibility);
    void this.run();
  }

  stop(): void {
    document.removeEventListener('visibilitychange', this.onVisibility);
    clearTimeout(this.hiding);
    cancelAnimationFrame(this.frame);
    this.stopped.abort();
    this.attempt?.abort();
    this.wake();
  }

  private readonly onVisibility = (): void => {
    clearTimeout(this.hiding);
    if (document.hidden) this.hiding = window.setTimeout(() => this.attempt?.abort(), HIDDEN);
    else this.wake();
  };

  private async run(): Promise<void> {
    let pause = 1000;
    while (!this.stopped.signal.aborted) {
      this.attempt = new AbortController();
      try {
        const version = await this.list(this.attempt.signal);
        this.error = '';
        this.status = 200;
        this.loading = false;
        pause = 1000;
        await this.watch(version, this.attempt.signal);
      } catch (error) {
        if (this.stopped.signal.aborted) return;
        if (!this.attempt.signal.aborted) {
          this.status = error instanceof ApiError ? error.status : 0;
          // The version is too old to go on from: a new list is all it takes.
          if (this.status === 410) continue;
          this.error = error instanceof Error ? error.message : String(error);
          this.loading = false;
          // No use asking again: the answer would be the same.
          if (this.status === 401 || this.status === 403 || this.status === 404) return;
        }
      }
      await this.rest(pause);
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
  }

  private rest(pause: number): Promise<void> {
    return new Promise((resolve) => {
      this.wake = resolve;
      if (!document.hidden) setTimeout(resolve, pause);
    });
  }

  private url(more: Record<string, string>): string {
    return `${this.path}?${new URLSearchParams({ ...this.query, ...more })}`;
  }

  private async list(signal: AbortSignal): Promise<string> {
    const fresh = new Map<string, Row>();
    let next = '';
    let version = '';
    do {
      const page: Record<string, string> = { limit: String(PAGE) };
      if (next) page['continue'] = next;
      const table = await getJson<Table>(this.url(page), { accept: AS_TABLE, signal });
      if (table.columnDefinitions?.length) this.columns = table.columnDefinitions;
      for (const row of table.rows ?? []) fresh.set(row.object.metadata.uid, row);
      version = table.metadata.resourceVersion ?? '';
      next = table.metadata.continue ?? '';
    } while (next);
    this.byUid.clear();
    for (const [uid, row] of fresh) this.byUid.set(uid, row);
    this.show();
    return version;
  }

  /** Until the server ends it; throws where a new list is needed. */
  private async watch(from: string, signal: AbortSignal): Promise<void> {
    let version = from;
    for (;;) {
      const query = { watch: '1', allowWatchBookmarks: 'true', resourceVersion: version };
      const response = await send(this.url(query), { accept: AS_TABLE, signal });
      if (!response.body) return;
      await readLines(response.body, (lines) => {
        for (const line of lines) {
          const event = JSON.parse(line) as WatchEvent;
          if (event.type === 'ERROR') throw new ApiError(event.object.code ?? 0, event.object.message ?? 'watch failed');
          version = versionOf(event) ?? version;
          if (applyEvent(this.byUid, event)) this.schedule();
        }
      });
    }
  }

  private schedule(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => this.show());
  }

  private show(): void {
    this.frame = 0;
    this.rows = [...this.byUid.values()];
  }
}
