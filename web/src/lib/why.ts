// Why something is not as it should be, from what Kubernetes itself says about it. Pure: object in, findings out.
import { conditionsOf, type KubeObject } from '../api/objects';
import type { Message } from '../i18n/en';

export interface Finding {
  /** What it is, in the page's words. */
  title: Message;
  /** What Kubernetes says, in its own. */
  detail: string;
  hint?: Message;
  action?: 'uncordon' | 'previous-log';
  container?: string;
}

interface ContainerStatus {
  name: string;
  ready?: boolean;
  restartCount?: number;
  state?: { waiting?: Reason; running?: object; terminated?: Reason & { exitCode?: number } };
  lastState?: { terminated?: Reason & { exitCode?: number } };
}

interface Reason {
  reason?: string;
  message?: string;
}

export function whyOf(object: KubeObject): Finding[] {
  if (object.metadata.deletionTimestamp) return [ending(object)];
  switch (object.kind) {
    case 'Pod':
      return whyPod(object);
    case 'Node':
      return whyNode(object);
    default:
      return whyWorkload(object);
  }
}

function ending(object: KubeObject): Finding {
  const finalizers = object.metadata['finalizers'];
  const detail = Array.isArray(finalizers) ? finalizers.join(', ') : '';
  return { title: 'whyEnding', detail, hint: 'whyEndingHint' };
}

function whyPod(pod: KubeObject): Finding[] {
  const phase = String(pod.status?.['phase'] ?? '');
  if (phase === 'Succeeded') return [];
  const unscheduled = conditionsOf(pod).find((c) => c.type === 'PodScheduled' && c.status === 'False');
  if (unscheduled) {
    const detail = unscheduled.message || unscheduled.reason || '';
    return [{ title: 'whyPending', detail, hint: 'whyPendingHint' }];
  }
  const found = containersOf(pod).flatMap((container) => whyContainer(container) ?? []);
  if (found.length === 0 && phase === 'Failed') {
    const detail = [pod.status?.['reason'], pod.status?.['message']].filter(Boolean).join(': ');
    return [{ title: 'whyFailed', detail }];
  }
  return found;
}

export function containersOf(pod: KubeObject): ContainerStatus[] {
  return ['initContainerStatuses', 'containerStatuses'].flatMap((field) => {
    const list = pod.status?.[field];
    return Array.isArray(list) ? (list as unknown as ContainerStatus[]) : [];
  });
}

function whyContainer(status: ContainerStatus): Finding | undefined {
  const { waiting, running, terminated } = status.state ?? {};
  const last = terminated ?? status.lastState?.terminated;
  const container = status.name;
  const reason = waiting?.reason ?? terminated?.reason ?? '';
  const words = [container, reason, waiting?.message ?? terminated?.message].filter(Boolean).join(': ');
  if (/image/i.test(reason)) return { title: 'whyImage', detail: words, hint: 'whyImageHint', container };
  if (last?.reason === 'OOMKilled' && !status.ready) {
    return { title: 'whyMemory', detail: words, hint: 'whyMemoryHint', action: 'previous-log', container };
  }
  if (reason === 'CrashLoopBackOff' || (terminated && terminated.exitCode !== 0)) {
    const detail = `${words} (exit code ${last?.exitCode ?? '?'}, ${status.restartCount ?? 0} restarts)`;
    return { title: 'whyCrash', detail, hint: 'whyCrashHint', action: 'previous-log', container };
  }
  if (running && status.ready === false) {
    return { title: 'whyUnready', detail: container, hint: 'whyUnreadyHint', container };
  }
  if (waiting && reason !== 'ContainerCreating' && reason !== 'PodInitializing') {
    return { title: 'whyFailed', detail: words, container };
  }
  return undefined;
}

function whyNode(node: KubeObject): Finding[] {
  const found: Finding[] = [];
  const ready = conditionsOf(node).find((c) => c.type === 'Ready');
  if (ready && ready.status !== 'True') {
    found.push({ title: 'whyNode', detail: ready.message || ready.reason || '', hint: 'whyNodeHint' });
  }
  for (const condition of conditionsOf(node)) {
    const isTrouble = condition.type !== 'Ready' && condition.status === 'True';
    if (isTrouble) found.push({ title: 'whyFailed', detail: `${condition.type}: ${condition.message ?? ''}` });
  }
  if (node.spec?.['unschedulable'] === true) {
    found.push({ title: 'whyCordoned', detail: '', action: 'uncordon' });
  }
  return found;
}

/** Workloads tell it in a condition of theirs. */
function whyWorkload(object: KubeObject): Finding[] {
  const bad = conditionsOf(object).find(
    (c) =>
      (c.status === 'False' && /^(Available|Progressing|Ready|Complete)$/.test(c.type)) ||
      (c.status === 'True' && /Fail/.test(c.type)),
  );
  if (!bad) return [];
  return [{ title: 'whyReplicas', detail: [bad.reason, bad.message].filter(Boolean).join(': ') }];
}
