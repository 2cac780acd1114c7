// Milliseconds in as few digits as say something.

/** `0.4 ms`, `12 ms`, `1.25 s`. */
export function milliseconds(value: number): string {
  if (value < 9.95) return `${value.toFixed(1)} ms`;
  if (value < 999.5) return `${Math.round(value)} ms`;
  return `${(value / 1000).toFixed(value < 9995 ? 2 : 1)} s`;
}
