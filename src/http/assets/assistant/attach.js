// Files that go with a message: by button, paste or drop. Each is uploaded at once to the address in
// `data-to`; the form lists those that arrived.

import { say } from "./say.js";

const FILES_MAX = 10;
/** Models see no more of an image than this: those of forms with `data-shrink` are made smaller. */
const SIDE_PX_MAX = 2_000;
const IMAGE_BYTES_MAX = 3_600_000;

/** Lets files be attached to a form with a list and a hidden field for their paths. */
export function attaching(form) {
  const button = form.querySelector("[data-attach]");
  const place = form.querySelector(".chat-attached");
  if (!button || !place) return;
  const [field, list] = [place.querySelector("input"), place.querySelector("ul")];
  const picker = document.createElement("input");
  picker.type = "file";
  picker.multiple = true;
  button.hidden = false;
  button.addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => {
    add([...picker.files]);
    picker.value = "";
  });
  form.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (files.length === 0) return;
    event.preventDefault();
    add(files);
  });
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  form.addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    form.classList.add("is-over");
  });
  form.addEventListener("dragleave", () => form.classList.remove("is-over"));
  form.addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    form.classList.remove("is-over");
    add([...event.dataTransfer.files]);
  });
  // Sent: the next message begins without files. Refused: they are here again.
  let sent = [];
  form.addEventListener("wb:sending", () => {
    sent.push([...list.children]);
    list.replaceChildren();
    note();
  });
  form.addEventListener("reset", () => sent.shift());
  form.addEventListener("wb:refused", () => {
    list.prepend(...sent.flat());
    sent = [];
    note();
  });
  // What is on its way is waited for.
  form.addEventListener(
    "submit",
    (event) => {
      if (!list.querySelector("[aria-busy]")) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      say("A file is still being sent");
    },
    true,
  );

  function note() {
    const sent = [...list.children].map((it) => it.dataset.sent).filter(Boolean);
    field.value = sent.join("\n");
  }

  function add(files) {
    for (const file of files) {
      if (list.children.length >= FILES_MAX) return say(`At most ${FILES_MAX} files`);
      send(file, list.appendChild(row(file.name)));
    }
  }

  function row(name) {
    const item = document.createElement("li");
    item.setAttribute("aria-busy", "true");
    const words = document.createElement("span");
    words.textContent = `${name} …`;
    const remove = document.createElement("button");
    remove.type = "button";
    remove.textContent = "×";
    remove.ariaLabel = `Remove ${name}`;
    remove.addEventListener("click", () => {
      item.remove();
      note();
      form.querySelector("textarea").focus();
    });
    item.append(words, remove);
    return item;
  }

  async function send(file, item) {
    const words = item.querySelector("span");
    let problem = "it could not be sent";
    try {
      const address = `${place.dataset.to}?name=${encodeURIComponent(file.name)}`;
      const headers = { "Content-Type": "application/octet-stream" };
      // A model sees no more of a large image; people in a channel do.
      const body = place.hasAttribute("data-shrink") ? await smaller(file) : file;
      const answer = await fetch(address, { method: "POST", headers, body });
      const told = await answer.json();
      if (answer.ok) {
        item.dataset.sent = told.path ?? told.number;
        words.textContent = told.name;
        problem = "";
        say(`${told.name} is attached`);
      } else {
        problem = told.error?.message ?? problem;
      }
    } catch {
      // Said below.
    }
    item.removeAttribute("aria-busy");
    if (problem) {
      item.classList.add("is-bad");
      words.textContent = `${file.name}: ${problem}`;
      say(words.textContent);
    }
    note();
  }
}

/** Returns an image that is too large with fewer pixels; anything else as it is. */
async function smaller(file) {
  if (!/^image\/(png|jpeg|webp)$/.test(file.type)) return file;
  let image;
  try {
    image = await createImageBitmap(file);
  } catch {
    // A damaged image: the server says what is wrong with it.
    return file;
  }
  const side = Math.max(image.width, image.height);
  if (side <= SIDE_PX_MAX && file.size <= IMAGE_BYTES_MAX) return file;
  const scale = Math.min(1, SIDE_PX_MAX / side);
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(image.width * scale));
  canvas.height = Math.max(1, Math.round(image.height * scale));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  image.close();
  // Photographs stay photographs; what may have transparent parts keeps them.
  const type = file.type === "image/jpeg" ? "image/jpeg" : "image/webp";
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, type, 0.9));
  return blob ?? file;
}
