// Empties a node: cordons it, asks for the eviction of each pod until its budget allows it, and waits until they are gone.
import { ApiError, getJson, send } from './client';
import type { KubeObject } from './objects';
import { fateOf } from '../lib/drain';

export type Stage = 'waiting' | 'refused' | 'leaving' | 'gone' | 'stays';

export interface Step {
  name: string;
  namespace: string;
  uid: string;
  stage: Stage;
  why: string;
}

const PAUSE = 2000;

export async function podsOf(node: string, signal: AbortSignal): Promise<KubeObject[]> {
  const query = new URLSearchParams({ fieldSelector: `spec.nodeName=${node}` });
  return (await getJson<{ items: KubeObject[] }>(`/api/v1/pods?${query}`, { signal })).items;
}

/** Tells all steps whenever one changes. Ends when nothing is left to leave, or by the signal. */
export async function drain(node: string, withAlone: boolean, tell: (steps: Step[]) => void, signal: AbortSignal): Promise<void> {
  const steps = (await podsOf(node, signal)).map((pod): Step => {
    const fate = fateOf(pod);
    const leaves = fate === 'evict' || (fate === 'alone' && withAlone);
    const { name, namespace = '', uid } = pod.metadata;
    return { name, namespace, uid, stage: leaves ? 'waiting' : 'stays', why: leaves ? '' : fate };
  });
  const told = (): void => tell(steps.map((step) => ({ ...step })));
  told();
  while (steps.some((step) => step.stage !== 'gone' && step.stage !== 'stays') && !signal.aborted) {
    for (const step of steps.filter((one) => one.stage === 'waiting' || one.stage === 'refused')) {
      await evict(step, signal);
      told();
    }
    const left = new Set((await podsOf(node, signal)).map((pod) => pod.metadata.uid));
    for (const step of steps) if (step.stage !== 'stays' && !left.has(step.uid)) step.stage = 'gone';
    told();
    if (steps.some((step) => step.stage !== 'gone' && step.stage !== 'stays')) await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

async function evict(step: Step, signal: AbortSignal): Promise<void> {
  const body = JSON.stringify({ apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: step.name, namespace: step.namespace } });
  const path = `/api/v1/namespaces/${encodeURIComponent(step.namespace)}/pods/${encodeURIComponent(step.name)}/eviction`;
  try {
    await send(path, { method: 'POST', body, signal });
    [step.stage, step.why] = ['leaving', ''];
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) step.stage = 'gone';
    else if (error instanceof ApiError && error.status === 429) [step.stage, step.why] = ['refused', error.message];
    else throw error;
  }
}
