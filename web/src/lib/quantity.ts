// Kubernetes' quantities: `250m`, `64Mi`, `1.5`, `2e3`.
const SUFFIX: Record<string, number> = {
  n: 1e-9, u: 1e-6, m: 1e-3, '': 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};

/** The number; 0 for what is no quantity. */
export function quantity(text: string | undefined): number {
  const found = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(text ?? '');
  if (!found) return 0;
  return Number(found[1]) * (SUFFIX[found[2] ?? ''] ?? 0);
}

/** Bytes as people read them: `1.5 GiB`. */
export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let [unit, rest] = [0, value];
  while (rest >= 1024 && unit < units.length - 1) [unit, rest] = [unit + 1, rest / 1024];
  return `${rest >= 100 || unit === 0 ? Math.round(rest) : rest.toFixed(1)} ${units[unit]}`;
}

export function cores(value: number): string {
  return value >= 10 ? value.toFixed(0) : value.toFixed(2).replace(/\.?0+$/, '');
}
