// A debug container in a pod that runs, as `kubectl debug` makes it.
import { getJson, send } from './client';
import type { KubeObject } from './objects';

export interface Wanted {
  image: string;
  /** Whose processes it sees; empty for none. */
  target: string;
  command: string[];
}

export interface DebugState {
  running: boolean;
  /** Why it does not run, or how it ended. */
  told: string;
}

function pathOf(pod: KubeObject, sub = ''): string {
  const { namespace = '', name } = pod.metadata;
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}${sub}`;
}

/** A name that the pod has not used: debug containers stay in it for ever. */
export function freeName(pod: KubeObject): string {
  const used = new Set(
    ['containers', 'initContainers', 'ephemeralContainers'].flatMap((field) => {
      const list = pod.spec?.[field];
      return Array.isArray(list) ? list.map((one) => String((one as { name?: string }).name)) : [];
    }),
  );
  let number = 1;
  while (used.has(`debugger-${number}`)) number++;
  return `debugger-${number}`;
}

/** Answers its name. */
export async function addDebugger(pod: KubeObject, wanted: Wanted): Promise<string> {
  const name = freeName(pod);
  const container: Record<string, unknown> = { name, image: wanted.image, stdin: true, tty: true, imagePullPolicy: 'IfNotPresent' };
  if (wanted.target) container['targetContainerName'] = wanted.target;
  if (wanted.command.length > 0) container['command'] = wanted.command;
  const body = JSON.stringify({ spec: { ephemeralContainers: [container] } });
  await send(pathOf(pod, '/ephemeralcontainers'), { method: 'PATCH', type: 'application/strategic-merge-patch+json', body });
  return name;
}

interface Status {
  name: string;
  state?: { running?: object; waiting?: { reason?: string; message?: string }; terminated?: { reason?: string; exitCode?: number; message?: string } };
}

export async function debuggerState(pod: KubeObject, name: string, signal: AbortSignal): Promise<DebugState> {
  const now = await getJson<KubeObject>(pathOf(pod), { signal });
  return stateOf(now, name);
}

export function stateOf(pod: KubeObject, name: string): DebugState {
  const list = pod.status?.['ephemeralContainerStatuses'];
  const status = (Array.isArray(list) ? (list as unknown as Status[]) : []).find((one) => one.name === name);
  const { running, waiting, terminated } = status?.state ?? {};
  if (running) return { running: true, told: '' };
  const why = waiting ?? terminated;
  const code = terminated?.exitCode === undefined ? '' : ` (exit code ${terminated.exitCode})`;
  return { running: false, told: [why?.reason, why?.message].filter(Boolean).join(': ') + code };
}
