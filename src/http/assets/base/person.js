// Every request of a page names the person for whom the page was made: in the same browser somebody
// else may have signed in since, and nothing is done in their name that another has typed.

const { person } = document.documentElement.dataset;
const send = globalThis.fetch.bind(globalThis);

// In the place of the browser's own, so that no module can forget it.
if (person) {
  globalThis.fetch = (address, options = {}) =>
    send(address, { ...options, headers: { ...options.headers, "x-notes-person": person } });
}
