// Answers may overtake each other: one that was asked for before what is shown already is not shown any more. Pure.

export class Turns {
  private asked = 0;
  private shown = 0;

  /** For whoever asks, when it asks. */
  next(): number {
    return ++this.asked;
  }

  /** Whether the answer to that turn is to be shown; then none of an earlier one is. */
  isNews(turn: number): boolean {
    if (turn < this.shown) return false;
    this.shown = turn;
    return true;
  }
}
