// A stream of bytes as lines: watches send one JSON document each, logs one entry each.
import { openSocket, send } from './client';

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

/** A stream of the API, line by line, until it ends or `signal` does; throws what the server says if it is no success. */
export async function followLines(path: string, signal: AbortSignal, each: (lines: string[]) => void): Promise<void> {
  // Browsers open six connections to a server of HTTP/1.1, and any number of WebSockets.
  if (location.protocol === 'http:') return await followSocket(path, signal, each);
  const response = await send(path, { signal });
  if (response.body) await readLines(response.body, each);
}

/** Why a WebSocket was refused, browsers do not tell. */
function followSocket(path: string, signal: AbortSignal, each: (lines: string[]) => void): Promise<void> {
  return new Promise((resolve) => {
    const socket = openSocket(path, 'lines.minik8s.io');
    const stop = (): void => socket.close();
    signal.addEventListener('abort', stop);
    socket.onmessage = (message) => each([String(message.data)]);
    socket.onclose = () => {
      signal.removeEventListener('abort', stop);
      resolve();
    };
  });
}
