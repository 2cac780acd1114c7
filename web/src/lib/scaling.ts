// The few numbers of an autoscaler that people turn, and the patch that they are. Pure.
import type { Json, JsonObject } from '../api/client';

export interface Settings {
  /** In percent of what pods request; undefined where no metric is a utilization. */
  target: number | undefined;
  min: number;
  max: number;
  /** Seconds. */
  up: number;
  down: number;
}

const SOURCES = ['resource', 'containerResource'] as const;

function targetOf(metric: JsonObject): JsonObject | undefined {
  for (const source of SOURCES) {
    const target = (metric[source] as JsonObject | undefined)?.['target'] as JsonObject | undefined;
    if (target?.['type'] === 'Utilization') return target;
  }
  return undefined;
}

export function settingsOf(spec: JsonObject): Settings {
  const metrics = (spec['metrics'] ?? []) as JsonObject[];
  const target = metrics.map(targetOf).find((one) => one !== undefined);
  const window = (direction: string, fallback: number): number => {
    const rules = (spec['behavior'] as JsonObject | undefined)?.[direction] as JsonObject | undefined;
    return Number(rules?.['stabilizationWindowSeconds'] ?? fallback);
  };
  return {
    target: metrics.length === 0 ? 80 : target && Number(target['averageUtilization']),
    min: Number(spec['minReplicas'] ?? 1),
    max: Number(spec['maxReplicas'] ?? 1),
    up: window('scaleUp', 0),
    down: window('scaleDown', 300),
  };
}

/** A merge patch of the spec; empty where nothing is changed. */
export function patchOf(wanted: Settings, own: Settings, spec: JsonObject): JsonObject {
  const patch: JsonObject = {};
  if (wanted.min !== own.min) patch['minReplicas'] = wanted.min;
  if (wanted.max !== own.max) patch['maxReplicas'] = wanted.max;
  const behavior: JsonObject = {};
  if (wanted.up !== own.up) behavior['scaleUp'] = { stabilizationWindowSeconds: wanted.up };
  if (wanted.down !== own.down) behavior['scaleDown'] = { stabilizationWindowSeconds: wanted.down };
  if (Object.keys(behavior).length > 0) patch['behavior'] = behavior;
  if (wanted.target !== own.target && wanted.target !== undefined) {
    const given = JSON.parse(JSON.stringify(spec['metrics'] ?? [])) as JsonObject[];
    const metrics = given.length > 0 ? given : [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization' } } } as JsonObject];
    const target = metrics.map(targetOf).find((one) => one !== undefined);
    if (target) target['averageUtilization'] = wanted.target;
    patch['metrics'] = metrics as Json;
  }
  return patch;
}
