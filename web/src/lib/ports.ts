// Which ports a pod says that it listens on, and which pod answers for a Service. Pure.
import type { KubeObject } from '../api/objects';

export interface Port {
  number: number;
  name: string;
  container: string;
}

/** TCP alone, and web interfaces before others. */
export function portsOf(pod: KubeObject): Port[] {
  const containers = pod.spec?.['containers'];
  const found: Port[] = [];
  for (const container of Array.isArray(containers) ? containers : []) {
    const { name = '', ports = [] } = container as { name?: string; ports?: { containerPort?: number; name?: string; protocol?: string }[] };
    for (const port of ports) {
      if (port.containerPort && (port.protocol ?? 'TCP') === 'TCP') found.push({ number: port.containerPort, name: port.name ?? '', container: name });
    }
  }
  const isWeb = (port: Port): boolean => /http|web|ui/.test(port.name) || [80, 3000, 8000, 8080].includes(port.number);
  return found.sort((a, b) => Number(isWeb(b)) - Number(isWeb(a)));
}

interface Slice {
  endpoints?: { conditions?: { ready?: boolean }; targetRef?: { kind?: string; name?: string } }[];
  ports?: { name?: string; port?: number; protocol?: string }[];
}

/** A ready pod behind a Service, with the ports that the Service leads to. */
export function podBehind(slices: Slice[]): { pod: string; ports: Port[] } | undefined {
  for (const { endpoints = [], ports = [] } of slices) {
    const ready = endpoints.find((one) => one.conditions?.ready !== false && one.targetRef?.kind === 'Pod');
    if (!ready?.targetRef?.name) continue;
    const tcp = ports.filter((one) => one.port !== undefined && (one.protocol ?? 'TCP') === 'TCP');
    return { pod: ready.targetRef.name, ports: tcp.map((one) => ({ number: one.port ?? 0, name: one.name ?? '', container: '' })) };
  }
  return undefined;
}
