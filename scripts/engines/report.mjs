// What was found: one line for each fact.

const SEEN_CHARS_MAX = 600;

/** Counts and prints facts. */
export class Report {
  /** How many facts no longer hold. */
  changed = 0;
  skipped = 0;

  /** Says whether a fact holds; returns it. */
  fact(name, holds, seen) {
    if (!holds) this.changed += 1;
    const tail = holds || seen === undefined ? "" : `: ${JSON.stringify(seen)?.slice(0, SEEN_CHARS_MAX)}`;
    console.log(`${holds ? "holds  " : "CHANGED"}  ${name}${tail}`);
    return Boolean(holds);
  }

  skip(name, why) {
    this.skipped += 1;
    console.log(`skipped  ${name}: ${why}`);
  }

  /** Says the result; returns the exit status. */
  end() {
    const skipped = this.skipped ? ` ${this.skipped} parts were skipped.` : "";
    console.log((this.changed === 0 ? "Nothing changed." : `${this.changed} facts changed: docs/engines.md says what rests on them.`) + skipped);
    return this.changed === 0 ? 0 : 1;
  }
}
