// How well something is, from the words that Kubernetes uses. Shown by a shape and a colour, always beside the word.
export type Tone = 'good' | 'busy' | 'bad' | 'done' | 'none';

const GOOD = /^(running|ready|active|bound|available|true|established|healthy)$/i;
const DONE = /^(completed|complete|succeeded|released|normal)$/i;
const BUSY = /^(pending|containercreating|podinitializing|init:\d|terminating|notready|unknown|suspended|progressing|schedulinggated|running,|ready,|warning)/i;
const BAD = /(error|backoff|failed|oomkilled|evicted|invalid|lost|deadline|errimage|unhealthy|notready)/i;

export function toneOf(word: string): Tone {
  if (GOOD.test(word)) return 'good';
  if (DONE.test(word)) return 'done';
  if (BAD.test(word)) return 'bad';
  if (BUSY.test(word)) return 'busy';
  return 'none';
}

/** `2/3` is less than it should be. */
export function toneOfRatio(text: string): Tone {
  const found = /^(\d+)\/(\d+)$/.exec(text);
  if (!found) return 'none';
  return found[1] === found[2] ? 'good' : 'busy';
}
