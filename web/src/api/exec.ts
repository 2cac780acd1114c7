// A command in a container over a WebSocket: Kubernetes' channel protocol, of which the first byte is the channel.
import { openSocket } from './client';

const PROTOCOL = 'v5.channel.k8s.io';
const [STDIN, STDOUT, STDERR, ERROR, RESIZE] = [0, 1, 2, 3, 4];

export interface Exec {
  write(text: string): void;
  resize(columns: number, rows: number): void;
  close(): void;
}

export interface Listener {
  onoutput: (bytes: Uint8Array) => void;
  /** Once, with what the server says about the end. */
  onend: (reason: string) => void;
  onopen?: () => void;
}

/** Without a command: what the container itself runs. */
export function exec(namespace: string, pod: string, container: string, command: string[], listener: Listener): Exec {
  const query = new URLSearchParams({ stdin: 'true', stdout: 'true', tty: 'true', container });
  for (const word of command) query.append('command', word);
  const door = command.length > 0 ? 'exec' : 'attach';
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/${door}?${query}`;
  const socket = openSocket(path, PROTOCOL);
  socket.binaryType = 'arraybuffer';
  let reason = '';
  const send = (channel: number | undefined, bytes: Uint8Array): void => {
    if (socket.readyState !== WebSocket.OPEN) return;
    const message = new Uint8Array(bytes.length + 1);
    message[0] = channel ?? 0;
    message.set(bytes, 1);
    socket.send(message);
  };
  socket.onmessage = (event: MessageEvent<ArrayBuffer>) => {
    const [channel, bytes] = [new Uint8Array(event.data)[0], new Uint8Array(event.data, 1)];
    if (channel === STDOUT || channel === STDERR) listener.onoutput(bytes);
    else if (channel === ERROR) reason = endOf(new TextDecoder().decode(bytes));
  };
  socket.onopen = () => listener.onopen?.();
  socket.onclose = (event) => listener.onend(reason || event.reason || `connection closed (${event.code})`);
  const encoder = new TextEncoder();
  return {
    write: (text) => send(STDIN, encoder.encode(text)),
    resize: (columns, rows) => send(RESIZE, encoder.encode(JSON.stringify({ Width: columns, Height: rows }))),
    close: () => socket.close(),
  };
}

/** The Status that ends a stream, in few words. */
export function endOf(text: string): string {
  try {
    const status = JSON.parse(text) as {
      status?: string;
      message?: string;
      details?: { causes?: { reason?: string; message?: string }[] };
    };
    const code = status.details?.causes?.find((cause) => cause.reason === 'ExitCode')?.message;
    if (code) return `exit code ${code}`;
    return status.status === 'Success' ? 'exit code 0' : (status.message ?? text);
  } catch {
    return text;
  }
}
