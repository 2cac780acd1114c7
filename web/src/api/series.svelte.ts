// What a pod's containers or a node used, by the second: an hour when it is first asked for, then what is new as it comes.
import { ApiError, getJson } from './client';
import { followLines } from './lines';
import type { Line } from '../lib/chart';

/** Until it is asked for again after a stream has ended. */
const PAUSE = 1000;
/** A tab that is looked away from for a moment keeps its stream. */
const HIDDEN = 10_000;
const KEPT = 3_600_000;

interface Answer {
  items: { name: string; points: [number, number | null, number][] }[];
}

export class Series {
  cpu = $state.raw<Line[]>([]);
  memory = $state.raw<Line[]>([]);
  /** The server's time: that of the newest point. */
  now = $state(0);
  error = $state('');
  private readonly known = new Map<string, [number, number | null, number][]>();
  private readonly stopped = new AbortController();
  private stream: AbortController | undefined;
  private hiding = 0;
  private wake: () => void = () => {};

  constructor(private readonly path: string) {
    document.addEventListener('visibilitychange', this.onVisibility);
    void this.run();
  }

  stop(): void {
    document.removeEventListener('visibilitychange', this.onVisibility);
    clearTimeout(this.hiding);
    this.stopped.abort();
    this.stream?.abort();
    this.wake();
  }

  private readonly onVisibility = (): void => {
    clearTimeout(this.hiding);
    if (document.hidden) this.hiding = window.setTimeout(() => this.stream?.abort(), HIDDEN);
    else this.wake();
  };

  private async run(): Promise<void> {
    while (!this.stopped.signal.aborted) {
      if (!document.hidden && !(await this.ask())) return;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        if (!document.hidden) setTimeout(resolve, PAUSE);
      });
    }
  }

  /** All that is new, then what comes, until that ends. Whether it is of use to ask again. */
  private async ask(): Promise<boolean> {
    this.stream = new AbortController();
    const { signal } = this.stream;
    try {
      this.take(await getJson<Answer>(`${this.path}?since=${this.now}`, { signal }));
      this.error = '';
      await followLines(`${this.path}?watch=true&since=${this.now}`, signal, (lines) => {
        for (const line of lines) if (line) this.take(JSON.parse(line) as Answer);
      });
    } catch (error) {
      if (this.stopped.signal.aborted) return false;
      if (signal.aborted) return true;
      this.error = error instanceof Error ? error.message : String(error);
      // Another Kubernetes, or not allowed: the answer would be the same.
      if (error instanceof ApiError && [401, 403, 404].includes(error.status)) return false;
    }
    return true;
  }

  take(answer: Answer): void {
    if (answer.items.every(({ points }) => points.length === 0)) return;
    for (const { name, points } of answer.items) {
      this.known.set(name, [...(this.known.get(name) ?? []), ...points]);
      this.now = Math.max(this.now, points.at(-1)?.[0] ?? 0);
    }
    for (const [name, points] of this.known) this.known.set(name, points.filter(([at]) => at > this.now - KEPT));
    const lines = (value: (point: [number, number | null, number]) => number | null): Line[] =>
      [...this.known].map(([name, points]) => ({ name, points: points.map((point) => [point[0], value(point)] as const) }));
    this.cpu = lines(([, nanos]) => (nanos === null ? null : nanos / 1e9));
    this.memory = lines(([, , bytes]) => bytes);
  }
}
