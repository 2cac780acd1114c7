// What a pod's containers or a node used, by the second: an hour when it is first asked for, then what is new.
import { ApiError, getJson } from './client';
import type { Line } from '../lib/chart';

const PACE = 1000;
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

  constructor(private readonly path: string) {
    void this.run();
  }

  stop(): void {
    this.stopped.abort();
  }

  private async run(): Promise<void> {
    while (!this.stopped.signal.aborted) {
      if (!document.hidden && !(await this.ask())) return;
      await new Promise((resolve) => setTimeout(resolve, PACE));
    }
  }

  /** Whether it is of use to ask again. */
  private async ask(): Promise<boolean> {
    try {
      const answer = await getJson<Answer>(`${this.path}?since=${this.now}`, { signal: this.stopped.signal });
      this.take(answer);
      this.error = '';
    } catch (error) {
      if (this.stopped.signal.aborted) return false;
      this.error = error instanceof Error ? error.message : String(error);
      // Another Kubernetes, or not allowed: the answer would be the same.
      if (error instanceof ApiError && [401, 403, 404].includes(error.status)) return false;
    }
    return true;
  }

  take(answer: Answer): void {
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
