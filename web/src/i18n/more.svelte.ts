// The texts of pages that are loaded later: what the first page weighs, everybody pays.
import { speech } from './index.svelte';
import { en, type MoreMessage } from './more.en';
import { zh } from './more.zh';

export function m(message: MoreMessage, gaps: Record<string, string | number> = {}): string {
  const text: string = (speech.language === 'zh' ? zh : en)[message];
  return text.replace(/\{(\w+)\}/g, (_, name: string) => String(gaps[name] ?? ''));
}
