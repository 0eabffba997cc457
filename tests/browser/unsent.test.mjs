// What was sent and is not answered is not said to be unsent, also where its form is gone by then.

import assert from "node:assert/strict";
import { test } from "node:test";
import { serve, until, visitor } from "./harness.mjs";

const GUIDE = "# Guide\n\nThe first line is plain.\n\nThe second line is long.\n";
const REWRITE = `sed -e 's/plain/fine/' "$root/$path" | propose --summary "Finer"`;

async function begin(t) {
  const site = await serve(t, { files: { "guide.md": GUIDE } }, (it) => it.topicKind("rewrite", REWRITE));
  const ada = await visitor(t, site, { worker: false, allow: [/ERR_FAILED/, /status of 409/] });
  const topic = await site.topic("guide.md", "first line", "Too plain?");
  return { site, ada, topic };
}

/** Lets what is posted to an address arrive, and its answer wait for `answer`, or be lost. */
async function late(page, address) {
  const held = [];
  await page.route(address, async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    const response = await route.fetch({ maxRedirects: 0 });
    const isAnswered = await new Promise((resolve) => held.push(resolve));
    await (isAnswered ? route.fulfill({ response }) : route.abort());
  });
  const next = (isAnswered) => async () => {
    await until("it has arrived", () => held.length > 0);
    held.shift()(isAnswered);
  };
  return { answer: next(true), lose: next(false) };
}

const kept = (page) => page.locator(".rv-kept");

test("a reason whose Topic is closed by it is not said to be unsent before its answer is there", async (t) => {
  const { site, ada, topic } = await begin(t);
  const page = await ada.openLive(`/topics/${topic}`);
  const fold = page.locator("#t-close");
  const way = await late(page, /\/(discard|reopen)$/);
  for (const [name, next, more] of [["Close Topic", "Reopen Topic", ""], ["Reopen Topic", "Close Topic", " and more"]]) {
    await fold.locator("details").evaluate((it) => { it.open = true; });
    const reason = fold.getByLabel("Why (optional");
    await reason.fill(`Because of ${name}`);
    await reason.press("Control+Enter");
    // At once: the form may be gone before a slow machine has typed it letter by letter.
    if (more) await page.keyboard.insertText(more);
    // The page hears of it before it has the answer.
    await fold.getByRole("button", { name: next, includeHidden: true }).waitFor({ state: "attached" });
    await page.locator(".message-box", { hasText: `Because of ${name}` }).waitFor();
    assert.equal(await kept(page).count(), 0, name);
    await page.evaluate(() => { document.querySelector("#say").textContent = ""; });
    await way.answer();
    await page.locator("#say", { hasText: "Done" }).waitFor({ state: "attached" });
    assert.deepEqual(await kept(page).locator("textarea").evaluateAll((all) => all.map((it) => it.value)), more ? ["and more"] : []);
  }
  await kept(page).getByText("What you typed after that. It wasn’t sent.").waitFor();
  assert.equal((await site.get(`/api/topics/${topic}`)).topic.status, "open");
});

test("a rejection is not said to be unsent before its answer is there", async (t) => {
  const { site, ada, topic } = await begin(t);
  const page = await ada.openLive(`/proposals/${await site.proposal("rewrite", topic)}`);
  const way = await late(page, "**/reject");
  await page.keyboard.press("x");
  await page.locator(".rv-dialog textarea").fill("Not good enough");
  await page.locator(".rv-dialog textarea").press("Control+Enter");
  await page.locator(".rv-banner-bad", { hasText: "Rejected" }).waitFor();
  // Also for who does not wait for it.
  await page.keyboard.press("Escape");
  await page.locator(".rv-dialog").waitFor({ state: "detached" });
  assert.equal(await kept(page).count(), 0);
  await way.answer();
  await page.locator("#say", { hasText: "Done" }).waitFor({ state: "attached" });
  assert.equal(await kept(page).count(), 0);
});

test("what was sent without an answer may have arrived, if its form is gone since", async (t) => {
  const { site, ada, topic } = await begin(t);
  const proposal = await site.proposal("rewrite", topic);
  let page = await ada.openLive(`/proposals/${proposal}`);
  let way = await late(page, "**/reject");
  await page.keyboard.press("x");
  await page.locator(".rv-dialog textarea").fill("Not good enough");
  await page.locator(".rv-dialog textarea").press("Control+Enter");
  await page.locator(".rv-banner-bad", { hasText: "Rejected" }).waitFor();
  await way.lose();
  await page.locator(".rv-dialog .form-refusal", { hasText: "Rejected, perhaps by what you sent." }).waitFor();
  await page.keyboard.press("Escape");
  await kept(page).getByText("What you typed (reject). It may have arrived: check this page.").waitFor();

  // A reply, and somebody else who closes its Topic then.
  page = await ada.openLive(`/topics/${topic}`);
  way = await late(page, /\/(messages|discard)$/);
  await page.getByLabel("Your message").fill("One more thing");
  await page.getByLabel("Your message").press("Control+Enter");
  await way.lose();
  await page.locator(".form-refusal", { hasText: "Can’t reach this site" }).waitFor();
  await site.post(`/api/topics/${topic}/discard`, {});
  await kept(page).getByText("What you typed. It may have arrived: check this page.").waitFor();
  assert.equal(await kept(page).locator("textarea").inputValue(), "One more thing");
  await site.post(`/api/topics/${topic}/reopen`, {});
  await kept(page).waitFor({ state: "detached" });

  // A reason that closes its Topic itself.
  const reason = page.locator("#t-close").getByLabel("Why (optional");
  await page.getByLabel("Your message").fill("");
  await page.locator("#t-close summary").click();
  await reason.fill("A duplicate");
  await reason.press("Control+Enter");
  await page.getByText("The Topic is closed.").waitFor();
  assert.equal(await kept(page).count(), 0);
  await way.lose();
  await kept(page).getByText("What you typed. It may have arrived: check this page.").waitFor();
  await page.locator(".message-box", { hasText: "A duplicate" }).waitFor();
});
