// A browser that is attacked by what a page shows: everything that an attack could do is watched,
// and every page is looked at for what only a text that was obeyed could have put there.

import assert from "node:assert/strict";
import { visitor } from "./harness.mjs";

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

/** Opens a browser whose requests to anywhere else are stopped, and reported with all the rest. */
export async function besieged(t, site, options = {}) {
  const ada = await visitor(t, site, { worker: false, ...options });
  const own = await ownPictures(ada.context);
  ada.opened = new Set();
  await ada.context.addInitScript(`window.wbTestInspect = ${inspect}`);
  await ada.context.route((url) => url.origin !== site.origin, (route) => route.abort());
  const watch = async (page) => {
    if (!ada.opened.has(page)) {
      // Nothing of a test opens a page in this way.
      const opener = await page.opener();
      if (opener) ada.complaints.push(`a window was opened: ${page.url()}`);
    }
  };
  ada.context.on("page", watch);
  ada.stand = async () => {
    const page = await ada.context.newPage();
    ada.opened.add(page);
    page.on("framenavigated", (frame) => {
      if (frame.parentFrame()) ada.complaints.push(`a frame: ${frame.url()}`);
      else if (!/^about:blank$/.test(frame.url()) && !frame.url().startsWith(`${site.origin}/`)) {
        ada.complaints.push(`the page went to ${frame.url()}`);
      }
    });
    page.on("download", (it) => ada.complaints.push(`a download: ${it.url()}`));
    // Playwright does not tell of requests for data, which need no network.
    const wire = await ada.context.newCDPSession(page);
    await wire.send("Network.enable");
    wire.on("Network.requestWillBeSent", ({ request }) => {
      if (!request.url.startsWith(`${site.origin}/`) && !own.has(request.url)) ada.complaints.push(`a request to ${request.url.slice(0, 200)}`);
    });
    return page;
  };
  return ada;
}

/** Returns the pictures that the browser has in its own sheet, as data: those of a field of time. */
async function ownPictures(context) {
  const page = await context.newPage();
  const own = new Set();
  const wire = await context.newCDPSession(page);
  await wire.send("Network.enable");
  wire.on("Network.requestWillBeSent", ({ request }) => request.url.startsWith("data:") && own.add(request.url));
  const fields = ["light", "dark"].map((it) => `<p style="color-scheme: ${it}"><input type="datetime-local"></p>`);
  await page.setContent(fields.join(""));
  // What is to be painted is fetched.
  await page.screenshot();
  await page.close();
  return own;
}

/** Returns what was said since the last time. */
export function said(ada) {
  return ada.complaints.splice(0);
}

/** Fails if a page has anything that only a text that was obeyed could have put there. */
export async function assertSafe(page, where) {
  // Labels of what is not seen come from the sheet.
  await page.waitForLoadState();
  assert.deepEqual(await page.evaluate("window.wbTestInspect()"), [], where);
}

/** Fails if the text of a page, or of parts of it, does not have all these marks. */
export async function assertThere(page, marks, where, selector = "body") {
  const shown = await page.evaluate((selector) => [...document.querySelectorAll(selector)]
    .map((it) => (it.matches("input, textarea") ? it.value : it.textContent)).join("\n"), selector);
  const missing = [...marks].filter((it) => !shown.includes(it));
  assert.deepEqual(missing, [], `${where}: not in ${selector}: ${shown.slice(0, 300)}`);
  assert.ok(!CONTROL.test(shown), `${where}: a control character`);
}

/**
 * Puts all parts of a page that follow events in their place anew, as it is done when something has
 * happened; returns how many there are.
 */
export function again(page) {
  return page.evaluate(async () => {
    const folder = document.querySelector("link[rel=stylesheet]").href.replace(/[^/]*$/, "");
    const swap = await import(`${folder}swap.js`);
    const parts = [...document.querySelectorAll("[data-live][id]")];
    const ids = parts.map((it) => it.id);
    if (ids.length === 0) return 0;
    const headers = { "wb-fragment": ids.join(",") };
    const answer = await fetch(location.pathname + location.search, { headers });
    if (!answer.ok) throw new Error(`the parts answer ${answer.status}`);
    for (const part of parts) part.replaceChildren();
    swap.fragment(await answer.text(), ids);
    return ids.length;
  });
}

/**
 * Puts the page at an address in the place of this one, as a form does that is sent without leaving
 * it; returns the status, what parts of it show, and what should not be there.
 */
export function shown(page, address, selector = "") {
  return page.evaluate(async ([address, selector]) => {
    const folder = document.querySelector("link[rel=stylesheet]").href.replace(/[^/]*$/, "");
    const swap = await import(`${folder}swap.js`);
    const answer = await fetch(address);
    const made = swap.parse(await answer.text());
    // As the form does: what follows events asks for its parts at the address of the page.
    history.replaceState(null, "", address);
    document.title = made.title;
    swap.elements(made, ["main"]);
    const parts = selector ? [...document.querySelectorAll(selector)] : [];
    const text = parts.map((it) => (it.matches("input, textarea") ? it.value : it.textContent)).join("\n");
    return { status: answer.status, text, wrong: window.wbTestInspect() };
  }, [address, selector]);
}

/** Looks at a page from within it; returns what should not be there. */
function inspect() {
  const [wrong, ids, labels] = [new Set(), new Set(), new Set()];
  const brief = (element) => element.outerHTML.slice(0, 160);
  const HTML = new Set(`html head meta title link script noscript body a abbr article aside b bdi blockquote br button
    caption cite code datalist dd del details dfn dialog div dl dt em fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr
    i img input ins kbd label legend li main mark meter nav ol optgroup option p pre progress q s samp section select small span
    strong sub summary sup table tbody td textarea tfoot th thead time tr u ul var wbr`.split(/\s+/));
  const DRAWN = new Set(["svg", "path", "circle", "rect", "line", "polyline", "g"]);
  const ADDRESSES = ["href", "src", "srcset", "action", "formaction", "poster", "data", "background", "ping", "xlink:href", "cite", "icon", "longdesc"];
  const FROM_OTHERS = ".md, .tail, .rl, .rd, .th-tail, pre.log, .diagnostics";
  // What these modules place by themselves.
  const PLACED = ".note, .notes, .composer, .reader-pop, .odd";
  for (const element of document.querySelectorAll("*")) {
    const isDrawn = element.namespaceURI === "http://www.w3.org/2000/svg";
    if (!(isDrawn ? DRAWN : HTML).has(element.localName)) wrong.add(`an element: ${brief(element)}`);
    for (const { name, value } of element.attributes) {
      if (/^on/i.test(name) || name === "srcdoc") wrong.add(`an attribute ${name}: ${brief(element)}`);
      if (name === "style" && !element.matches(PLACED)) wrong.add(`a style: ${brief(element)}`);
      if (["name", "data-live", "data-module", "data-keep", "contenteditable"].includes(name) && element.closest(FROM_OTHERS)) {
        wrong.add(`an attribute ${name} in a text: ${brief(element)}`);
      }
      if (!ADDRESSES.includes(name)) continue;
      const url = new URL(value, location.href);
      const isHere = url.origin === location.origin;
      const mayLeave = name === "href" && element.localName === "a" && element.closest(".md")
        && /^(https?|mailto):$/.test(url.protocol) && /\bnoopener\b/.test(element.rel) && /\bnoreferrer\b/.test(element.rel);
      if (!isHere && !mayLeave) wrong.add(`an address: ${brief(element)}`);
      if (name !== "href" && !isHere) wrong.add(`something of elsewhere: ${brief(element)}`);
    }
    // An element's name is its own, and those in texts of others are told from ours.
    if (element.id) {
      if (ids.has(element.id)) wrong.add(`a name twice: ${element.id}`);
      ids.add(element.id);
      const isText = Boolean(element.closest(".md")) && !element.matches(".md");
      if (isText !== element.id.startsWith("md-")) wrong.add(`a name like another's: ${brief(element)}`);
    }
  }
  // Our own modules that are told beforehand are any number.
  const isTold = (it) => it.matches('link[rel=modulepreload][href^="/assets/"]');
  const heads = [...document.head.children].filter((it) => !isTold(it)).map((it) => it.localName).sort().join(" ");
  if (!/^link link link link meta meta meta( noscript)? script title$/.test(heads)) wrong.add(`the head has ${heads}`);
  if (document.scripts.length !== 1 || document.querySelector("base, object, embed, iframe")) wrong.add("more than one script");

  // What scripts ask a document, a window or a form for is what they get.
  for (const name of ["getElementById", "querySelector", "querySelectorAll", "createElement", "addEventListener", "hasFocus"]) {
    if (!String(document[name]).includes("[native code]")) wrong.add(`document.${name} is another's`);
  }
  for (const [name, wanted] of [["body", HTMLBodyElement], ["documentElement", HTMLHtmlElement], ["head", HTMLHeadElement], ["activeElement", Element]]) {
    if (!(document[name] instanceof wanted)) wrong.add(`document.${name} is another's`);
  }
  for (const name of ["fetch", "getSelection", "matchMedia", "Highlight", "BroadcastChannel", "MutationObserver", "DOMParser"]) {
    // Ours says for whom the page was made (base/person.js).
    const isOurs = name === "fetch" && String(window.fetch).includes('"x-notes-person": person');
    if (!isOurs && !String(window[name]).includes("[native code]")) wrong.add(`window.${name} is another's`);
  }
  if (Object.hasOwn(Object.prototype, "polluted") || typeof CSS.escape !== "function") wrong.add("a prototype is another's");
  if (window.trustedTypes && !(window.trustedTypes instanceof TrustedTypePolicyFactory)) wrong.add("trustedTypes is another's");
  // Fields whose names are properties of their form: no module asks a form for these.
  const UNUSED = ["title", "prefix", "name", "role"];
  for (const form of document.forms) {
    for (const { name } of form.elements) {
      if (name && name in HTMLFormElement.prototype && !UNUSED.includes(name)) wrong.add(`a field hides form.${name}`);
    }
  }

  // What turns text round or hides in it is shown, and ends where its element does.
  const TURNING = /[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/;
  const HIDDEN = /[\u200b\u2060\ufeff\u2028\u2029\u3164\u2800\u{e0000}-\u{e007f}]/u;
  if (TURNING.test(document.title) || HIDDEN.test(document.title)) wrong.add(`the title turns: ${JSON.stringify(document.title)}`);
  const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (parent.matches("title, textarea, option")) continue;
    if (parent.matches("bdi.odd") && /^U\+[0-9A-F]{4,6}$/.test(parent.dataset.code)) {
      const { code } = parent.dataset;
      // What the browser has not laid out yet has no style to ask for.
      if (!parent.checkVisibility({ contentVisibilityAuto: true })) continue;
      const isSeen = labels.has(code) || getComputedStyle(parent, "::before").content === `"${code}"`;
      if (!isSeen) wrong.add(`an unseen label: ${code}`);
      labels.add(code);
      continue;
    }
    if (TURNING.test(node.data) || HIDDEN.test(node.data)) wrong.add(`it turns: ${JSON.stringify(node.data.slice(0, 60))} in ${brief(parent)}`);
  }
  for (const option of document.querySelectorAll("option")) {
    if (TURNING.test(option.label)) wrong.add(`a choice turns: ${JSON.stringify(option.label)}`);
  }
  for (const element of document.querySelectorAll("[aria-label], [title], [placeholder], [alt]")) {
    for (const name of ["aria-label", "title", "placeholder", "alt"]) {
      const value = element.getAttribute(name) ?? "";
      if (TURNING.test(value)) wrong.add(`${name} turns: ${JSON.stringify(value)}`);
    }
  }
  // A name in letters that run from right to left takes nothing of what is beside it along. All
  // texts of others begin with a mark here, so nothing of ours stands before or behind them.
  for (const element of document.querySelectorAll("main *, header *, dialog *")) {
    if (element.matches("textarea, option, script, mark") || element.closest(FROM_OTHERS)) continue;
    for (const node of element.childNodes) {
      if (node.nodeType !== Node.TEXT_NODE || !/[\u0590-\u05ff]/.test(node.data)) continue;
      const isInside = node.previousSibling?.nodeName === "MARK" || node.previousSibling?.nodeName === "BDI";
      if (!isInside && !/^\s*[“(]?(… )?(zq|\/|hostile\/|old\/)/.test(node.data)) wrong.add(`words before a name: ${JSON.stringify(node.data.slice(0, 60))}`);
      if (/\(3\)(?!$|\s*$|\s*z|\/|\.md|\s*…|”)/.test(node.data)) wrong.add(`words behind a name: ${JSON.stringify(node.data.slice(-60))}`);
      const { display, unicodeBidi } = getComputedStyle(element);
      if (display.startsWith("inline") && !/isolate|plaintext/.test(unicodeBidi)) wrong.add(`not apart: ${brief(element)}`);
    }
  }
  return [...wrong].slice(0, 40);
}
