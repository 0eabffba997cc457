// The time zone of a time typed into a form: the browser's, shown next to the field.

import { offsetOf } from "./steps.js";

export function start(zone) {
  const { form } = zone;
  const field = form.elements.not_before;
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!name) return;
  // The offset is that of the day which is meant: the clock may be changed until then.
  const tell = () => {
    const at = field.value ? new Date(field.value) : new Date();
    zone.value = `${offsetOf(at.getTimezoneOffset())}[${name}]`;
    form.querySelector("[data-zone]").textContent = name;
  };
  form.addEventListener("input", tell);
  form.addEventListener("submit", tell);
  // What keeps the form from being sent is not folded away.
  form.addEventListener("invalid", (event) => {
    const fold = event.target.closest("details");
    if (fold) fold.open = true;
  }, true);
  tell();
}
