// Light, dark, or as the system has it.
export type Theme = 'system' | 'light' | 'dark';

const ORDER: Theme[] = ['system', 'light', 'dark'];

const systemIsDark = matchMedia('(prefers-color-scheme: dark)');

class Appearance {
  theme = $state<Theme>(ORDER.find((theme) => theme === localStorage.getItem('theme')) ?? 'system');

  constructor() {
    systemIsDark.addEventListener('change', () => this.show());
    this.show();
  }

  next(): void {
    this.theme = ORDER[(ORDER.indexOf(this.theme) + 1) % ORDER.length] ?? 'system';
    localStorage.setItem('theme', this.theme);
    this.show();
  }

  private show(): void {
    const asSystem = systemIsDark.matches ? 'dark' : 'light';
    document.documentElement.dataset['theme'] = this.theme === 'system' ? asSystem : this.theme;
  }
}

export const appearance = new Appearance();
