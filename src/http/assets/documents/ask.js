// Requests of the forms beside a document, and their errors.

const SIGNED_OUT = {
  message: "you are signed out", hint: "sign in again in another tab, then send again: what you wrote is still here",
};

/** An error of the server, with its message. */
export class Refused extends Error {
  constructor({ code = "", message = "The server didn’t answer.", hint = "" } = {}) {
    // How a program goes on; the page has a link for it.
    if (code === "source_gone") hint = "what you wrote is kept";
    if (code === "person_mismatch") hint = "reload the page to go on as them; what you wrote is kept for you";
    super(hint ? `${sentence(message)} ${sentence(hint)}` : sentence(message));
    this.code = code;
  }
}

/** Returns a message as a sentence of its own. */
export function sentence(text) {
  // A path that begins it stays as it is.
  const isPath = /^\S*[./]\S/.test(text);
  const first = isPath ? text : text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

/** Returns the JSON of a response; throws `Refused` with what the server says. */
export async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, { cache: "no-store", ...options });
  } catch {
    throw new Refused({ message: "can’t reach the server", hint: "what you wrote is still here" });
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401) throw new Refused({ ...SIGNED_OUT, code: body.error?.code });
  if (!answer.ok) throw new Refused(body.error);
  return body;
}
