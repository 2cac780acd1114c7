// What the page tells in passing: something was done, or was refused.
class Notice {
  text = $state('');
  isError = $state(false);
  private timer = 0;

  tell(text: string): void {
    this.show(text, false, 4000);
  }

  refuse(error: unknown): void {
    this.show(error instanceof Error ? error.message : String(error), true, 10_000);
  }

  clear(): void {
    this.text = '';
  }

  private show(text: string, isError: boolean, time: number): void {
    clearTimeout(this.timer);
    this.text = text;
    this.isError = isError;
    this.timer = window.setTimeout(() => this.clear(), time);
  }
}

export const notice = new Notice();
