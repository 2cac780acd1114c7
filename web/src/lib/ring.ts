// The last lines of something that may never end: bounded by number and by size, so that a page that is open for a week
// needs no more memory than one that is open for a minute.
export class Ring {
  private lines: string[] = [];
  private start = 0;
  private size = 0;

  constructor(
    private readonly most: number,
    private readonly mostCharacters: number,
  ) {}

  push(lines: string[]): void {
    for (const line of lines) {
      this.lines.push(line);
      this.size += line.length;
    }
    while (this.length > this.most || (this.size > this.mostCharacters && this.length > 1)) {
      this.size -= (this.lines[this.start] ?? '').length;
      this.lines[this.start++] = '';
    }
    // Now and then, so that a line costs the same however many there were.
    if (this.start > this.most) {
      this.lines = this.lines.slice(this.start);
      this.start = 0;
    }
  }

  get length(): number {
    return this.lines.length - this.start;
  }

  slice(from: number, to: number): string[] {
    return this.lines.slice(this.start + from, this.start + to);
  }

  matching(text: string): string[] {
    const wanted = text.toLowerCase();
    return this.slice(0, this.length).filter((line) => line.toLowerCase().includes(wanted));
  }

  clear(): void {
    this.lines = [];
    this.start = 0;
    this.size = 0;
  }
}
