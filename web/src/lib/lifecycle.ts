// What has become of a pod so far, with the seconds between: made from what its status tells. Pure.
import { conditionsOf, type KubeObject } from '../api/objects';

export type Stage = 'made' | 'placed' | 'prepared' | 'started' | 'readied' | 'failed';

export interface Event {
  stage: Stage;
  at: number;
  /** Seconds since the one before. */
  after: number;
  note: string;
}

interface Status {
  name: string;
  state?: { running?: { startedAt?: string }; terminated?: Ended };
  lastState?: { terminated?: Ended };
}

interface Ended {
  startedAt?: string;
  finishedAt?: string;
  exitCode?: number;
  reason?: string;
}

export function lifecycleOf(pod: KubeObject): Event[] {
  const found: Omit<Event, 'after'>[] = [];
  const add = (stage: Stage, time: string | undefined, note = ''): void => {
    const at = Date.parse(time ?? '');
    if (!Number.isNaN(at)) found.push({ stage, at, note });
  };
  add('made', pod.metadata.creationTimestamp);
  const since = (type: string): string | undefined => conditionsOf(pod).find((one) => one.type === type && one.status === 'True')?.lastTransitionTime;
  add('placed', since('PodScheduled'), String(pod.spec?.['nodeName'] ?? ''));
  add('prepared', since('Initialized'));
  for (const status of (pod.status?.['containerStatuses'] ?? []) as unknown as Status[]) {
    for (const ended of [status.lastState?.terminated, status.state?.terminated]) {
      if (!ended) continue;
      add('started', ended.startedAt, status.name);
      add(ended.exitCode === 0 ? 'prepared' : 'failed', ended.finishedAt, `${status.name} ${ended.reason ?? ''} ${ended.exitCode ?? ''}`.trim());
    }
    add('started', status.state?.running?.startedAt, status.name);
  }
  add('readied', since('Ready'));
  found.sort((a, b) => a.at - b.at);
  return found.map((event, i) => ({ ...event, after: i === 0 ? 0 : (event.at - (found[i - 1]?.at ?? event.at)) / 1000 }));
}

/** Twice as much, as quantities are written. */
export function doubled(quantity: string): string {
  const [, number = '', unit = ''] = /^(\d+(?:\.\d+)?)([a-zA-Z]*)$/.exec(quantity) ?? [];
  return number ? `${Number(number) * 2}${unit}` : '';
}
