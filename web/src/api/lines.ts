// A stream of bytes as lines: watches send one JSON document each, logs one entry each.

/** Calls `each` with the lines of every chunk at once, until the stream ends. */
export async function readLines(stream: ReadableStream<Uint8Array>, each: (lines: string[]) => void): Promise<void> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
    const lines = rest.split('\n');
    rest = done ? '' : (lines.pop() ?? '');
    const whole = done ? lines.filter((line) => line !== '') : lines;
    if (whole.length > 0) each(whole);
    if (done) return;
  }
}
