// What the nodes use together, where the cluster measures it.
import { getJson } from './client';
import { quantity } from '../lib/quantity';

export interface Usage {
  cpu: number;
  cpuTotal: number;
  memory: number;
  memoryTotal: number;
}

interface Measured {
  items: { usage: { cpu: string; memory: string } }[];
}

interface Nodes {
  items: { status?: { allocatable?: { cpu?: string; memory?: string } } }[];
}

/** undefined: nobody measures, or this user may not know. */
export async function clusterUsage(): Promise<Usage | undefined> {
  try {
    const [measured, nodes] = await Promise.all([
      getJson<Measured>('/apis/metrics.k8s.io/v1beta1/nodes'),
      getJson<Nodes>('/api/v1/nodes?limit=500'),
    ]);
    if (measured.items.length === 0) return undefined;
    const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0);
    return {
      cpu: sum(measured.items.map((item) => quantity(item.usage.cpu))),
      memory: sum(measured.items.map((item) => quantity(item.usage.memory))),
      cpuTotal: sum(nodes.items.map((node) => quantity(node.status?.allocatable?.cpu))),
      memoryTotal: sum(nodes.items.map((node) => quantity(node.status?.allocatable?.memory))),
    };
  } catch {
    return undefined;
  }
}
