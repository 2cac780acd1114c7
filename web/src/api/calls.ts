// The last calls of a function on all nodes, as their routers remember them: also those by HTTP.
import { getJson } from './client';
import { pathOf, type Kind } from './kinds';

export interface FunctionCall {
  at: string;
  method: string;
  status: number;
  cold: boolean;
  milliseconds: number;
  waitedMilliseconds: number;
  revision: number;
  pod?: string;
  node: string;
}

export interface FunctionCalls {
  items: FunctionCall[];
  /** Nodes that did not answer. */
  unreachable?: string[];
}

export async function lastCalls(kind: Kind, namespace: string, name: string, signal: AbortSignal): Promise<FunctionCalls> {
  return await getJson<FunctionCalls>(pathOf(kind, namespace, name, 'calls'), { signal });
}
