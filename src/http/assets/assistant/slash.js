// Actions behind a `/`: typed at the beginning of a message, it lists them. The buttons of the form
// are the actions; the list presses one of them.

import { say } from "./say.js";

const SHOWN_MAX = 8;

/** Offers a form's actions in its field; `takes` says whether a key was for the list. */
export function slash(form, field) {
  // Actions come and go with files of the vault, and with answers.
  const list = () => form.querySelector("#chat-slash");
  let found = [];
  let chosen = 0;

  const isOpen = () => list() !== null && !list().hidden;
  const close = () => {
    if (!isOpen()) return;
    list().hidden = true;
    list().replaceChildren();
    field.removeAttribute("aria-activedescendant");
  };
  const choose = (at) => {
    const options = [...list().children];
    chosen = (at + options.length) % options.length;
    options.forEach((it, index) => it.setAttribute("aria-selected", String(index === chosen)));
    field.setAttribute("aria-activedescendant", options[chosen].id);
    options[chosen].scrollIntoView({ block: "nearest" });
  };
  const run = (action) => {
    if (form.ariaBusy === "true") return say("The last question is still being sent");
    field.value = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    close();
    if (action.localName === "button") return form.requestSubmit(action);
    // It is looked at before it runs.
    action.open = true;
    action.querySelector("button").focus();
  };
  const offer = () => {
    if (!list()) return;
    const typed = /^\/([^\n]*)$/.exec(field.value)?.[1].trim().toLowerCase();
    const all = [...form.querySelectorAll(".chat-actions:not([hidden]) [data-action]")];
    const fits = (it) => it.dataset.action.toLowerCase().includes(typed);
    found = typed === undefined ? [] : all.filter(fits).slice(0, SHOWN_MAX);
    if (found.length === 0) return close();
    list().replaceChildren(...found.map((action, index) => {
      const option = document.createElement("li");
      option.id = `chat-slash-${index}`;
      option.role = "option";
      option.textContent = action.dataset.action;
      option.addEventListener("pointerdown", (event) => event.preventDefault());
      option.addEventListener("click", () => run(action));
      return option;
    }));
    if (list().hidden) say(`${found.length} action${found.length === 1 ? "" : "s"}`);
    list().hidden = false;
    field.setAttribute("aria-controls", list().id);
    choose(0);
  };

  field.addEventListener("input", offer);
  field.addEventListener("focusout", close);
  form.addEventListener("reset", close);
  return {
    takes(event) {
      if (!isOpen() || event.isComposing) return false;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) choose(chosen + step);
      else if (event.key === "Escape") close();
      else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) run(found[chosen]);
      else return false;
      event.preventDefault();
      event.stopPropagation();
      return true;
    },
  };
}
