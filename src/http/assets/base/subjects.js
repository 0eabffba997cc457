// The subjects of an event, and whether they concern a part of a page; without a DOM.

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
  if (kind === "turn_held") all.add("held");
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

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
