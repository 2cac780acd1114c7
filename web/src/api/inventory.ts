// What is on a node: containers, also those that are nobody's here, and images. Asked of the node, by way of the API server.
import { getJson } from './client';

export interface NodeContainer {
  id: string;
  name: string;
  state: string;
  pid?: number;
  image: string;
  created?: string;
  owner: 'pod' | 'sandbox' | 'agent' | 'foreign';
  podNamespace?: string;
  podName?: string;
  /** containerd's. */
  runtimeNamespace: string;
  /** The socket of another containerd than the node's own. */
  runtime?: string;
}

export interface NodeImage {
  id: string;
  names: string[];
  size: number;
  usedBy: string[];
  /** It came from a registry and can come again. */
  pulled: boolean;
}

export interface Removal {
  removed: NodeImage[];
  failed: { image: string; message: string }[];
  freedBytes: number;
}

export function inventoryPath(node: string, what: 'containers' | 'images', query: Record<string, string> = {}): string {
  const path = `/apis/node.minik8s.io/v1/nodes/${encodeURIComponent(node)}/${what}`;
  const words = new URLSearchParams(query).toString();
  return words ? `${path}?${words}` : path;
}

export async function getContainers(node: string, signal: AbortSignal): Promise<{ containers: NodeContainer[]; problems: string[] }> {
  return await getJson(inventoryPath(node, 'containers'), { signal });
}

export async function getImages(node: string): Promise<{ images: NodeImage[]; disk: { capacity: number; available: number } }> {
  return await getJson(inventoryPath(node, 'images'));
}

export async function removeImages(node: string, query: Record<string, string>): Promise<Removal> {
  return await getJson(inventoryPath(node, 'images', query), { method: 'DELETE' });
}

/** What people know an image by: without the names that containerd adds. */
export function shortImage(name: string): string {
  return name.replace(/^docker\.io\/(library\/)?/, '').replace(/@sha256:([0-9a-f]{12})[0-9a-f]*$/, '@$1').replace(/^sha256:([0-9a-f]{12})[0-9a-f]*$/, '$1');
}

/** Containers in which all words of a text occur; sandboxes only where they are asked for. */
export function chooseContainers(all: NodeContainer[], text: string, foreignOnly: boolean, sandboxes: boolean): NodeContainer[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return all.filter((one) => {
    if (foreignOnly && one.owner !== 'foreign') return false;
    if (!sandboxes && one.owner === 'sandbox') return false;
    const said = [one.name, one.podNamespace, one.podName, one.image, one.state, one.runtimeNamespace, one.id].join(' ').toLowerCase();
    return words.every((word) => said.includes(word));
  });
}
