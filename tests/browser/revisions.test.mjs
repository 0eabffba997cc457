// Revisions of a suggestion: what is refused, what is said of each, and what a review shows while
// they follow one another.

import assert from "node:assert/strict";
import { test } from "node:test";
import { frozen, PHONE, serve, until, visitor } from "./harness.mjs";

const GUIDE = `# Guide

The first line.

The second line.

${Array.from({ length: 30 }, (_, at) => `Paragraph ${at} stays as it is.`).join("\n\n")}
`;
const APPLY = `wb.engine "suggestions" { type = "builtin" }
wb.kind "apply" {
  about = "Applies", engine = "suggestions", timeout = "30s", lane = "source_path", produces = "proposal",
  inputs = {
    topic_id        = wb.input.topic(),
    source_path     = wb.input.source { from = "topic_id" },
    base_source_sha = wb.input.blob { from = "source_path" },
  },
}
`;

/** A site with a proposal of the built-in engine: `The 1st line.` */
async function begin(t) {
  const site = await serve(t, { files: { "guide.md": GUIDE }, lua: APPLY });
  const made = await site.post("/api/topics", {
    source_path: "guide.md", selection: { quote: "first" }, suggestion: "1st", propose: true,
  });
  const id = (await site.status(made.job_id, "succeeded")).proposal_id;
  return { site, topic: made.id, id };
}

/** The same, about a whole line. */
async function aboutLine(t) {
  const site = await serve(t, { files: { "guide.md": GUIDE }, lua: APPLY });
  const made = await site.post("/api/topics", {
    source_path: "guide.md", selection: { quote: "The first line." }, suggestion: "The 1st line.", propose: true,
  });
  return { site, id: (await site.status(made.job_id, "succeeded")).proposal_id };
}

const changes = (page) => page.evaluate(() => ({
  inChange: Boolean(document.activeElement.closest(".rv-change")), count: document.querySelector(".rv-count").textContent,
}));

test("the keys go through the changes of the proposal alone", async (t) => {
  const { site, id } = await begin(t);
  const page = await (await visitor(t, site)).openLive(`/proposals/${id}`);
  assert.ok(await page.locator("#p-asked [data-change]").count() > 0, "a suggestion is quoted above");
  for (let at = 0; at < 3; at++) {
    await page.keyboard.press("n");
    assert.deepEqual(await changes(page), { inChange: true, count: "Change 1 of 1" });
  }
});

test("what a proposal does is true while the document changes", async (t) => {
  const { site, id } = await begin(t);
  const page = await (await visitor(t, site)).openLive(`/proposals/${id}`);
  const answer = page.locator("#p-answer");
  await answer.getByText("the current version.").waitFor();
  site.write("guide.md", GUIDE.replace("The first line.", "The very first line."));
  site.commit("by hand");
  await answer.getByText("The document has changed since.").waitFor();
  await page.locator(".rv-banner-bad").waitFor();
});

test("a rejected text comes back only when somebody suggests it again", async (t) => {
  const { site, topic, id } = await begin(t);
  const ada = await visitor(t, site, { allow: [/409/] });
  const page = await ada.openLive(`/proposals/${id}`);
  await page.keyboard.press("x");
  await page.getByRole("dialog").getByLabel("Reason").fill("A word, not a number.");
  await page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
  await page.locator(".rv-banner-bad", { hasText: "Rejected" }).waitFor();
  const thread = await ada.openLive(`/topics/${topic}`);
  const said = thread.locator(".message-box", { hasText: "A word, not a number." });
  await said.getByText("Rejected revision 1").waitFor();
  const again = await site.call("POST", "/api/agent/jobs", { kind: "apply", topic_id: topic });
  assert.deepEqual([again.status, again.body.error.code], [409, "same_text"]);
  await thread.getByRole("button", { name: "Start “apply”" }).click();
  await thread.locator(".form-refusal", { hasText: "revision 1 with exactly this text was rejected" }).waitFor();
  await thread.getByText("Suggest a change", { exact: true }).click();
  await thread.getByLabel("New text").fill("very first");
  await thread.getByRole("button", { name: "Suggest this change" }).click();
  const fresh = await until("a revision", async () => (await site.get("/api/proposals?status=open")).items[0]);
  assert.match((await site.get(`/api/proposals/${fresh.id}`)).text, /The very first line\./);
});

test("changes are requested with words, and the next revision appears in place", async (t) => {
  const { site, id } = await begin(t);
  const ada = await visitor(t, site, { allow: [/409/] });
  const page = await ada.openLive(`/proposals/${id}`);
  const same = await site.call("POST", `/api/proposals/${id}/rework`, { reason: "make it different please" });
  assert.deepEqual([same.status, same.body.error.code], [409, "same_text"]);
  await page.keyboard.press("r");
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByLabel("New text").inputValue(), "1st");
  await dialog.getByLabel("New text").fill("very first");
  await dialog.getByRole("button", { name: "Request changes" }).click();
  await page.locator("#review[data-revision='2']").waitFor();
  assert.match(new URL(page.url()).pathname, /^\/proposals\//);
  // Whoever has asked for it need not be told that it came.
  assert.equal(await page.locator(".rv-news").count(), 0);
  const approve = page.locator("[data-open=approve]");
  assert.equal(await approve.getAttribute("aria-disabled"), null);
  const current = page.locator(".rv-views a[aria-current]");
  assert.equal(await current.count(), 1);
  await page.keyboard.press("a");
  await page.getByRole("button", { name: "Approve and commit" }).click();
  await page.locator(".rv-banner-good").waitFor();
  assert.equal(await current.count(), 1, "the present view is marked after the swap");
});

test("a refused decision says why, keeps what was typed, and can be sent again", async (t) => {
  const { site, id } = await begin(t);
  const ada = await visitor(t, site, { allow: [/409/, /ERR_INTERNET_DISCONNECTED/] });
  const page = await ada.openLive(`/proposals/${id}`);
  const dialog = page.getByRole("dialog");
  const send = dialog.getByRole("button", { name: "Approve and commit" });
  const refusal = dialog.locator(".form-refusal");
  await page.keyboard.press("a");
  await dialog.getByLabel("Commit subject").fill("Count the lines");
  await dialog.getByText("Add a description").click();
  await dialog.getByLabel("Commit description").fill("As it was said.");
  // The document has uncommitted changes: that is said at once, and again when it is sent.
  site.write("guide.md", `${GUIDE}More.\n`);
  await refusal.getByText("guide.md has uncommitted changes").waitFor();
  const answered = page.waitForResponse((it) => it.request().method() === "POST");
  await send.click();
  assert.equal((await answered).status(), 409);
  await refusal.getByText("guide.md has uncommitted changes").waitFor();
  assert.ok(!(await dialog.textContent()).includes("in the meantime"));
  await refusal.waitFor();
  assert.ok(await send.isEnabled());
  site.write("guide.md", GUIDE);
  await refusal.waitFor({ state: "detached" });
  await page.context().setOffline(true);
  await send.click();
  await refusal.getByText("Can’t reach this site right now.").waitFor();
  await page.context().setOffline(false);
  // The live connection tells it, which Chromium keeps while it calls itself offline.
  await page.evaluate(() => document.dispatchEvent(new CustomEvent("wb:connection", { detail: "live" })));
  await refusal.waitFor({ state: "detached" });
  assert.ok(await send.isEnabled());
  await page.keyboard.press("Escape");
  await page.keyboard.press("a");
  await send.click();
  await page.locator(".rv-banner-good").waitFor();
  assert.equal(site.git("log", "-1", "--format=%s"), "Count the lines");
  assert.match(site.git("log", "-1", "--format=%b"), /As it was said\./);
});

test("what was typed for a decision that is no longer possible stays on the page", async (t) => {
  const { site, id } = await begin(t);
  const page = await (await visitor(t, site)).openLive(`/proposals/${id}`);
  await page.keyboard.press("a");
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Add a description").click();
  await dialog.getByLabel("Commit description").fill("As it was said.");
  await dialog.getByLabel("Commit subject").fill("In my words");
  site.write("guide.md", `${GUIDE}More.\n`);
  await dialog.locator(".form-refusal").waitFor();
  await dialog.getByRole("button", { name: "Not now" }).click();
  const kept = page.locator(".rv-kept");
  await kept.getByText("What you typed (approve). It wasn’t sent.").waitFor();
  site.write("guide.md", GUIDE);
  await page.locator("[data-open=approve]").waitFor();
  await kept.waitFor({ state: "detached" });
  await page.keyboard.press("a");
  // What will be sent is in sight.
  await dialog.getByLabel("Commit description").waitFor();
  assert.equal(await dialog.getByLabel("Commit description").inputValue(), "As it was said.");
  assert.equal(await dialog.getByLabel("Commit subject").inputValue(), "In my words");
});

test("in a conflict the same words again replace those of the document", async (t) => {
  const { site, id } = await aboutLine(t);
  const page = await (await visitor(t, site)).openLive(`/proposals/${id}`);
  await page.keyboard.press("a");
  await page.getByText("Add a description").click();
  await page.getByLabel("Commit description").fill("For the old text.");
  await page.keyboard.press("Escape");
  site.write("guide.md", GUIDE.replace("The first line.", "The very first line."));
  site.commit("by hand");
  await page.locator(".rv-banner-bad", { hasText: "The same lines have changed since" }).waitFor();
  await page.locator("#p-asked blockquote", { hasText: "The very first line." }).waitFor();
  await page.keyboard.press("r");
  const dialog = page.getByRole("dialog");
  // What would be undone is seen before it is sent.
  await dialog.locator("blockquote", { hasText: "The very first line." }).waitFor();
  await dialog.locator(".sg-diff del", { hasText: "very first" }).waitFor();
  assert.equal(await dialog.getByLabel("New text").inputValue(), "The 1st line.");
  await dialog.getByRole("button", { name: "Request changes" }).click();
  await page.locator("#review[data-revision='2']").waitFor();
  // What was typed for another text is not committed with this one.
  await page.locator(".rv-kept", { hasText: "It wasn’t sent." }).waitFor();
  await page.keyboard.press("a");
  await page.getByRole("button", { name: "Approve and commit" }).click();
  await page.locator(".rv-banner-good").waitFor();
  assert.equal(site.read("guide.md"), GUIDE.replace("The first line.", "The 1st line."));
  assert.ok(!site.git("log", "-1", "--format=%B").includes("For the old text."));
});

test("changes are not requested over a passage that the page has not heard of yet", async (t) => {
  const { site, id } = await aboutLine(t);
  const ada = await visitor(t, site, { worker: false, allow: [/status of 409/, /ERR_FAILED/] });
  const page = await ada.openLive(`/proposals/${id}`);
  let posts = 0;
  page.on("request", (it) => { posts += Number(it.method() === "POST" && it.url().endsWith("/rework")); });
  await page.keyboard.press("r");
  const dialog = page.getByRole("dialog");
  const field = dialog.getByLabel("New text");
  await field.fill("The 1st line. Mine.");
  // No part of the page is fetched, as by a device that slept.
  const parts = (route) => {
    return route.request().headers()["wb-fragment"] ? route.abort() : route.continue();
  };
  await page.route("**/proposals/*", parts);
  site.write("guide.md", GUIDE.replace("The first line.", "The very first line."));
  site.commit("theirs");
  await until("the server knows", async () => {
    const html = await (await ada.context.request.get(`/proposals/${id}`)).text();
    return html.includes('data-before="The very first line."');
  });
  const goOn = await frozen(page);
  await field.press("Control+Enter");
  await dialog.locator(".form-refusal", { hasText: "has changed since you began to type" }).waitFor();
  assert.equal(await field.inputValue(), "The 1st line. Mine.");
  await page.unroute("**/proposals/*", parts);
  await dialog.getByText("The passage has changed.").waitFor();
  await dialog.locator("blockquote", { hasText: "The very first line." }).waitFor();
  await dialog.locator(".sg-diff del", { hasText: "very first" }).waitFor();
  // Nobody has read that within the time of a double click.
  await dialog.getByRole("button", { name: "Request changes" }).dblclick();
  assert.equal(posts, 1);
  await goOn();
  await until("there was time to read it", async () => {
    await page.keyboard.press("Control+Enter");
    await field.focus({ timeout: 1_000 }).catch(() => {});
    return posts > 1;
  });
  await page.locator("#review[data-revision='2']").waitFor();
  assert.equal(posts, 2);
});

test("a review quotes the words of the branch that is checked out", async (t) => {
  const { site, id } = await aboutLine(t);
  const page = await (await visitor(t, site)).openLive(`/proposals/${id}`);
  const quote = (words) => page.locator("#p-asked > blockquote", { hasText: words }).waitFor();
  await quote("The first line.");
  site.git("checkout", "-q", "-b", "other");
  site.write("guide.md", GUIDE.replace("The first line.", "The foremost line."));
  site.commit("on a branch");
  await quote("The foremost line.");
  site.git("checkout", "-q", "main");
  await quote("The first line.");
});

test("a suggestion on a document with uncommitted changes says why it is not proposed", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE }, lua: APPLY });
  site.write("guide.md", GUIDE.replace("Paragraph 9 stays", "Paragraph 9 goes"));
  const made = await site.post("/api/topics", {
    source_path: "guide.md", selection: { quote: "first" }, suggestion: "1st", propose: true,
  });
  assert.equal(made.not_started.code, "source_dirty");
  const ada = await visitor(t, site);
  const document = await ada.openLive("/d/guide.md");
  await document.locator(`#topic-${made.id} .note-title`).click();
  await document.locator(".bs .th-pending", { hasText: "guide.md has uncommitted changes" }).waitFor();
  const page = await ada.openLive(`/topics/${made.id}`);
  const pending = page.locator(".th-pending");
  await pending.getByText("guide.md has uncommitted changes").waitFor();
  assert.ok((await pending.textContent()).includes("Then propose your change here."));
  site.git("checkout", "-q", "guide.md");
  await pending.getByText("uncommitted changes").waitFor({ state: "detached" });
  await pending.getByRole("button", { name: "Propose this change" }).click();
  await until("a proposal", async () => (await site.get("/api/proposals?status=open")).items[0]);
});

test("words that nobody has typed are not said to be unsent", async (t) => {
  const { site, id } = await begin(t);
  const ada = await visitor(t, site, { allow: [/409/] });
  const [mine, other] = [await ada.openLive(`/proposals/${id}`), await ada.openLive(`/proposals/${id}`)];
  await other.locator("#rework textarea[name=reason]").fill("So it is clearer.");
  await mine.bringToFront();
  await mine.keyboard.press("a");
  await mine.getByRole("button", { name: "Approve and commit" }).click();
  await mine.locator(".rv-banner-good").waitFor();
  assert.equal(await mine.locator(".rv-kept").count(), 0);
  await other.bringToFront();
  const kept = other.locator(".rv-kept");
  await kept.getByText("What you typed (request changes). It wasn’t sent.").waitFor();
  assert.equal(await kept.locator("textarea").inputValue(), "So it is clearer.");
  // Taken back by hand, the page does not say of one commit that it changed nothing.
  site.write("guide.md", GUIDE);
  site.commit("back");
  await mine.bringToFront();
  await mine.getByText("The document is back to that version.").waitFor();
});

test("a title without a space is no wider than a phone", async (t) => {
  const { site, topic, id } = await begin(t);
  const body = `https://play.example.org/?code=${"x".repeat(300)}`;
  for (const quote of ["second", "Paragraph 3"]) {
    await site.post("/api/topics", { source_path: "guide.md", selection: { quote }, body });
  }
  for (const width of [PHONE.width, 320]) {
    const ada = await visitor(t, site, { viewport: { width, height: PHONE.height }, touch: true });
    for (const address of [`/proposals/${id}`, `/topics/${topic}`, "/d/guide.md", "/topics", "/"]) {
      const page = await ada.openLive(address);
      await page.evaluate(() => { for (const it of document.querySelectorAll("details")) it.open = true; });
      const widths = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
      assert.deepEqual(widths, [width, width], address);
      if (process.env.WB_SHOTS) await page.screenshot({ path: `${process.env.WB_SHOTS}/${width}${address.replaceAll("/", "_")}.png`, fullPage: true });
      await page.close();
    }
  }
});

test("an edited revision says who edited which, beginning at the change", async (t) => {
  const { site, id } = await begin(t);
  const page = await (await visitor(t, site)).openLive(`/proposals/${id}/edit`);
  const area = page.getByLabel("Full text");
  const selected = () => area.evaluate((it) => [it === document.activeElement, it.value.slice(it.selectionStart, it.selectionEnd)]);
  assert.deepEqual(await selected(), [true, "The 1st line."]);
  await page.keyboard.type("The foremost line.");
  await page.locator("#e-preview ins", { hasText: "foremost" }).waitFor();
  // The commit's subject is offered with the text: what it says may no longer be true.
  assert.notEqual(await page.getByLabel("What it changes").inputValue(), "");
  await page.getByLabel("What it changes").fill("Name the foremost line");
  await page.getByRole("button", { name: "Save edit" }).click();
  await page.locator("#p-answer").getByText("Name the foremost line").waitFor();
  // A subject that was made of the words is made again of the new ones.
  const other = await begin(t);
  const again = await (await visitor(t, other.site)).openLive(`/proposals/${other.id}/edit`);
  assert.equal(await again.getByLabel("What it changes").inputValue(), "Change “first” to “1st”");
  await again.keyboard.type("The foremost line.");
  await again.getByRole("button", { name: "Save edit" }).click();
  await again.locator("h1", { hasText: "Change “first” to “foremost”" }).waitFor();
  assert.equal(await page.getByLabel("Commit subject").inputValue(), "Name the foremost line");
  assert.equal(await page.locator("#p-answer").getByText("Suggested by").count(), 0);
});

test("a suggestion of the past is shown as it was said", async (t) => {
  const { site, topic, id } = await begin(t);
  const ada = await visitor(t, site);
  const page = await ada.openLive(`/proposals/${id}`);
  await page.keyboard.press("a");
  await page.getByRole("button", { name: "Approve and commit" }).click();
  await page.locator(".rv-banner-good").waitFor();
  await site.post(`/api/topics/${topic}/reopen`, {});
  const thread = await ada.openLive(`/topics/${topic}`);
  const suggestion = thread.locator("#message-1 .th-suggestion");
  await suggestion.locator("del, .rl-old", { hasText: "first" }).first().waitFor();
  await suggestion.locator("ins, .rl-new", { hasText: "1st" }).first().waitFor();
});
