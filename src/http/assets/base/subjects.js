// What an event is about, whether that concerns a part of a page, and the order of events; no DOM.

/** Returns the subjects of an event, each also as its type: `job:7` and `jobs`. */
export function subjectsOf({ kind = "", subject = "", data = {} }) {
  const all = new Set(["all"]);
  const add = (sort, name) => {
    if (name !== undefined && name !== null) all.add(`${sort}:${name}`);
  };
  if (subject) all.add(subject);
  if (subject.startsWith("job:")) add("job", data.id);
  add("job", data.job_id);
  add("topic", data.topic_id);
  add("proposal", data.proposal_id);
  add("message", data.message_id);
  add("channel", data.channel);
  // What waits for somebody in channels is listed with other decisions.
  const waits = ["turn_held", "channel_changed"].includes(kind) || data.type === "escalation";
  if (waits) all.add("held");
  add("source", data.source_path);
  add("source", data.path);
  if (subject.startsWith("source:")) add("source", data.from);
  for (const it of [...all]) {
    if (it.includes(":")) all.add(`${it.slice(0, it.indexOf(":"))}s`);
  }
  return all;
}

/** Returns whether an event is about one of some subjects; paths in them may be percent-encoded. */
export function isAbout(words, event) {
  if (event.kind === "reset") return true;
  const all = subjectsOf(event);
  return words.some((word) => {
    if (all.has(word)) return true;
    if (!word.startsWith("source:")) return false;
    // Many documents changed at once: nobody says which.
    if (event.kind === "sources_changed") return true;
    return word.includes("%") && all.has(`source:${decode(word.slice(7))}`);
  });
}

/** Returns whether one place among the events, `EPOCH-NUMBER`, precedes another, or may. */
export function isEarlier(one, other) {
  const [at, otherAt] = [one.lastIndexOf("-"), other.lastIndexOf("-")];
  if (one.slice(0, at) !== other.slice(0, otherAt)) return true;
  return Number(one.slice(at + 1)) < Number(other.slice(otherAt + 1));
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
