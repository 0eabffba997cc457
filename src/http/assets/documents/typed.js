// What was typed over passages of a document and not sent yet: each passage keeps its own words.

/** Passages whose words are kept besides those of the field. */
const OTHERS_MAX = 8;

export class Typed {
  /** The passage that the field is about, or was about last. */
  at = "";
  /** The words of the passage as they stand in the document. */
  asWritten = "";
  /** What was typed over other passages, by their places: `[words, asWritten]`. */
  others = new Map();
  /** Whether what was typed belongs to the passage that is selected next. */
  isCarried = false;

  constructor(field) {
    this.field = field;
  }

  get isChanged() { return this.field.value !== this.asWritten; }

  /** Whether something was typed over any passage. */
  get isThere() { return this.isChanged || this.others.size > 0; }

  /** Turns to a passage, or to none; opened again on the same one, its words are still there. */
  over(at, isAgain) {
    if (!isAgain && !this.isCarried && at !== this.at) this.turnTo(at);
    if (at) this.isCarried = false;
    this.at = at;
  }

  /** Puts aside what was typed over one passage, and takes what was typed over another. */
  turnTo(at) {
    if (this.at && this.isChanged) {
      this.others.delete(this.at);
      this.others.set(this.at, [this.field.value, this.asWritten]);
      if (this.others.size > OTHERS_MAX) this.others.delete(this.others.keys().next().value);
    }
    [this.field.value, this.asWritten] = this.others.get(at) ?? ["", ""];
    this.others.delete(at);
  }

  /** Learns the words of the passage; returns whether others were typed over. */
  stands(words) {
    if (!this.isChanged) this.field.value = words;
    const isOther = this.field.value !== words && this.asWritten !== "" && this.asWritten !== words;
    this.asWritten = words;
    return isOther;
  }

  empty() {
    this.field.value = this.asWritten = "";
  }

  /** Returns what a draft keeps. */
  kept() {
    const { at, asWritten, isCarried } = this;
    return { words: this.field.value, asWritten, at, isCarried, others: [...this.others] };
  }

  /** Takes back what a draft kept. */
  restore({ words = "", asWritten = "", at = "", isCarried = false, others = [] }) {
    this.field.value = words;
    Object.assign(this, { asWritten, at, isCarried, others: new Map(others) });
  }
}
