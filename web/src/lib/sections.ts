// What the menu shows, in the order in which people look for it. Kinds that the cluster does not have are left out.
import type { Message } from '../i18n/en';
import type { IconName } from '../parts/Icon.svelte';
import type { Page } from './route.svelte';

export interface Section {
  title: Message;
  icon: IconName;
  /** Pages of their own for kinds that a table does not do justice to. */
  pages?: { page: Page; kind: string; title: Message }[];
  kinds: string[];
}

export const SECTIONS: Section[] = [
  {
    title: 'workloads',
    icon: 'workloads',
    kinds: ['pods', 'deployments.apps', 'statefulsets.apps', 'daemonsets.apps', 'jobs.batch', 'cronjobs.batch', 'horizontalpodautoscalers.autoscaling'],
  },
  {
    title: 'serverless',
    icon: 'serverless',
    pages: [
      { page: 'functions', kind: 'functions.minik8s.io', title: 'functions' },
      { page: 'workflows', kind: 'workflows.minik8s.io', title: 'workflows' },
      { page: 'gpu', kind: 'gpujobs.minik8s.io', title: 'gpuJobs' },
    ],
    kinds: ['invocations.minik8s.io', 'triggers.minik8s.io', 'workflowruns.minik8s.io'],
  },
  {
    title: 'network',
    icon: 'network',
    pages: [{ page: 'mesh', kind: 'services', title: 'mesh' }],
    kinds: ['services', 'ingresses.networking.k8s.io', 'httproutes.gateway.networking.k8s.io', 'dns.minik8s.io', 'networkpolicies.networking.k8s.io'],
  },
  { title: 'config', icon: 'config', kinds: ['configmaps', 'secrets'] },
  {
    title: 'storage',
    icon: 'storage',
    pages: [{ page: 'storage', kind: 'persistentvolumeclaims', title: 'storageUse' }],
    kinds: ['persistentvolumeclaims', 'persistentvolumes', 'storageclasses.storage.k8s.io'],
  },
  { title: 'cluster', icon: 'cluster', pages: [{ page: 'past', kind: 'nodes', title: 'past' }], kinds: ['nodes', 'namespaces', 'events'] },
  {
    title: 'access',
    icon: 'access',
    pages: [{ page: 'access', kind: 'serviceaccounts', title: 'rights' }],
    kinds: ['serviceaccounts', 'roles.rbac.authorization.k8s.io', 'rolebindings.rbac.authorization.k8s.io'],
  },
];
