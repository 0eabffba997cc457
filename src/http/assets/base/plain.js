// Text of other people for titles and labels: without invisible characters, and without those that
// change the direction of the text around them; like `Plain` in `src/http/pages/parts/visible.rs`.

const UNSEEN = /(?![\t\n\u00ad\u200c\u200d])[\p{Cc}\p{Cf}\p{Co}\u2028\u2029\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;

/** Returns a text without them; joiners, which ordinary writing needs, stay. */
export function plain(text) {
  return text.replace(UNSEEN, "");
}
