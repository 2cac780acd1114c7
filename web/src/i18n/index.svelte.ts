// Which language the page speaks: the one chosen last, else the browser's.
import { en, type Message } from './en';
import { zh } from './zh';

export type Language = 'en' | 'zh';

function remembered(): Language {
  const chosen = localStorage.getItem('language') ?? navigator.language;
  return chosen.startsWith('zh') ? 'zh' : 'en';
}

class Speech {
  language = $state<Language>(remembered());

  choose(language: Language): void {
    this.language = language;
    localStorage.setItem('language', language);
    document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
  }
}

export const speech = new Speech();
speech.choose(speech.language);

/** The text of a message, its `{gaps}` filled. */
export function t(message: Message, gaps: Record<string, string | number> = {}): string {
  const text: string = (speech.language === 'zh' ? zh : en)[message];
  return text.replace(/\{(\w+)\}/g, (_, name: string) => String(gaps[name] ?? ''));
}
