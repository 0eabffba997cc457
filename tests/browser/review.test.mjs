// The review: two people at once, a base that moves under it, by keyboard alone, without scripts.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { PHONE, findings, isLive, serve, until, visitor } from "./harness.mjs";

const PLAN = `# Plan

We build the bridge in May, if it does not rain.

- rain stops the work
- steel comes late

${Array.from({ length: 30 }, (_, i) => `Paragraph ${i} stays as it is.`).join("\n\n")}

The ferry goes until then.
`;
const REWRITE = `sed -e 's/in May/in June/' -e 's/until then/until the bridge stands/' "$root/$path" \
| propose --summary "Moves it to June"`;

async function begin(t, shell = REWRITE, more = () => {}) {
  const site = await serve(t, { files: { "plan.md": PLAN } }, (it) => {
    it.topicKind("rewrite", shell);
    more(it);
  });
  const topic = await site.topic("plan.md", "in May", "Could it be June?");
  return { site, topic };
}

test("a change is asked for, made, reviewed and approved, and who else looks sees it", async (t) => {
  const { site, topic } = await begin(t);
  const ada = await visitor(t, site);
  const page = await ada.openLive(`/topics/${topic}`);
  await page.getByLabel("Your message").fill("Please.");
  await page.getByLabel("Your message").press("Control+Enter");
  await page.locator("#message-2").getByText("Please.").waitFor();
  await page.getByRole("button", { name: "Start “rewrite”" }).click();
  await page.locator(".th-job").getByRole("link", { name: "Review the proposal" }).click();
  await page.locator(".rl-changed ins").first().waitFor();
  const address = new URL(page.url()).pathname;
  const other = await (await visitor(t, site)).openLive(address);
  await isLive(page);
  // Both have the question open; one answers.
  await other.locator("[data-open=approve]").click();
  await other.getByLabel("Commit subject").fill("Mine, typed for long");
  await page.locator("[data-open=approve]").click();
  await page.getByLabel("Commit subject").fill("June it is");
  await page.getByRole("button", { name: "Approve and commit" }).click();
  await page.locator(".rv-banner-good").waitFor();
  assert.equal(site.git("log", "-1", "--format=%s"), "June it is");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("link", { name: "Read the document" }).click({ trial: true });
  assert.ok(await page.locator("h1").evaluate((it) => it === document.activeElement), "the focus is where it is said");
  await other.locator("#p-head .rv-banner-good").waitFor();
  await other.locator("dialog .form-refusal").getByText("in the meantime").waitFor();
  assert.ok(await other.getByRole("button", { name: "Approve and commit" }).isDisabled());
  assert.equal(await other.getByLabel("Commit subject").inputValue(), "Mine, typed for long");
  await other.getByRole("button", { name: "Not now" }).click();
  assert.equal(await other.locator("[data-open=approve]").count(), 0);
  assert.equal(site.git("rev-list", "--count", "HEAD"), "2");
});

test("a base that moves is seen while the page is open", async (t) => {
  const { site, topic } = await begin(t);
  const id = await site.proposal("rewrite", topic);
  const page = await (await visitor(t, site)).openLive(`/proposals/${id}`);
  await page.locator("[data-open=approve]").waitFor();
  site.write("plan.md", PLAN.replace("in May", "in April"));
  site.commit("by hand");
  await page.locator(".rv-banner-bad").getByText("The same lines have changed since").waitFor();
  await page.locator("[data-open=approve]").waitFor({ state: "detached" });
  // Elsewhere in the text: it is merged, and that is another revision.
  const two = await begin(t);
  const first = await two.site.proposal("rewrite", two.topic);
  const tab = await (await visitor(t, two.site)).openLive(`/proposals/${first}`);
  two.site.write("plan.md", PLAN.replace("Paragraph 12 stays", "Paragraph 12 is new"));
  two.site.commit("by hand");
  await tab.locator(".rv-news").getByText("Revision 2 just replaced revision 1").waitFor();
  await tab.getByText("Merged with later changes to the document").waitFor();
});

test("a review by keyboard alone", async (t) => {
  const { site, topic } = await begin(t);
  const id = await site.proposal("rewrite", topic);
  const page = await (await visitor(t, site)).openLive(`/proposals/${id}`);
  await page.keyboard.press("n");
  await page.locator(".rv-count", { hasText: "Change 1 of 2" }).waitFor();
  await page.keyboard.press("n");
  const focused = () => page.evaluate(() => document.activeElement.dataset.change);
  assert.equal(await focused(), "2");
  await page.keyboard.press("p");
  assert.equal(await focused(), "1");
  await page.keyboard.press("x");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  await page.keyboard.type("nxa are letters here");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.keyboard.press("r");
  assert.equal(await dialog.getByLabel("What should change?").inputValue(), "");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.keyboard.press("x");
  assert.equal(await dialog.getByLabel("Reason").inputValue(), "nxa are letters here");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.keyboard.press("a");
  await page.keyboard.press("Enter");
  await page.locator(".rv-banner-good").waitFor();
  await dialog.waitFor({ state: "detached" });
  assert.equal(await page.locator(".rv-count").count(), 1, "they are counted once");
  assert.match(site.read("plan.md"), /in June/);
});

test("everything by links and forms, without a script", async (t) => {
  const { site, topic } = await begin(t);
  const page = await (await visitor(t, site, { script: false })).open(`/topics/${topic}`);
  await page.getByLabel("Your message").fill("By a form");
  await page.getByRole("button", { name: "Reply", exact: true }).click();
  await page.getByText("By a form").waitFor();
  await page.getByRole("button", { name: "Start “rewrite”" }).click();
  await until("the job has ended", async () => {
    await page.goto(`/topics/${topic}`);
    return page.getByRole("link", { name: "Review the proposal" }).count();
  });
  await page.getByRole("link", { name: "Review the proposal" }).first().click();
  await page.getByRole("link", { name: "Rendered" }).click();
  await page.locator(".rd-block del").first().waitFor();
  await page.getByRole("link", { name: "Edit the text before approving" }).click();
  const text = PLAN.replace("in May", "in late June");
  await page.getByLabel("Full text").fill(text);
  await page.getByRole("button", { name: "Preview changes" }).click();
  await page.locator(".rl-changed ins").getByText("late June").waitFor();
  assert.equal(await page.getByLabel("Full text").inputValue(), text);
  await page.getByRole("button", { name: "Save edit" }).click();
  await page.getByText(/^Edited by ada from/).waitFor();
  await page.getByLabel("Commit subject").fill("By hand and agent");
  await page.getByRole("button", { name: "Approve and commit" }).click();
  await page.locator(".rv-banner-good").waitFor();
  assert.equal(site.read("plan.md"), text);
});

test("a phone shows one column and decides with a thumb; a job that fails says why", async (t) => {
  const { site, topic } = await begin(t, REWRITE, (it) => {
    it.topicKind("broken", "echo 'no <b>model</b>' >&2; exit 3");
    it.topicKind("slow", "sleep 30");
  });
  const id = await site.proposal("rewrite", topic);
  const phone = await visitor(t, site, { viewport: PHONE, touch: true, theme: "dark" });
  const page = await phone.openLive(`/proposals/${id}`);
  const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
  assert.ok(await fits(), "nothing is wider than the screen");
  const [old, now] = await page.locator(".rl-changed .rl-cell").evaluateAll((all) =>
    all.slice(0, 2).map((it) => it.getBoundingClientRect().left));
  assert.equal(old, now, "one below the other");
  // At hand, and nothing lies over it.
  await page.locator("[data-open=approve]").tap();
  await page.getByRole("button", { name: "Not now" }).tap();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  for (const it of await page.locator("#p-bar .button:visible").all()) {
    assert.ok((await it.boundingBox()).height >= 44);
  }
  await page.goto(`/topics/${topic}`);
  assert.ok(await fits());
  await isLive(page);
  const job = await site.job("broken", { topic_id: topic, replace_proposals: true });
  await site.status(job);
  const card = page.locator(`#job-${job}`);
  await card.getByText("no <b>model</b>").waitFor();
  await card.getByRole("button", { name: "Try again" }).waitFor();
  const slow = await site.job("slow", { topic_id: topic, replace_proposals: true });
  await site.status(slow, "running");
  await page.getByText("You can start another when it finishes").waitFor();
  assert.ok(await page.getByRole("button", { name: "Start “rewrite”" }).isDisabled());
  await page.locator(`#job-${slow}`).getByRole("button", { name: "Cancel" }).click();
  await site.status(slow, "cancelled");
  // The page stays, and what was disabled is there again by itself.
  await page.locator("button:enabled", { hasText: "Start “rewrite”" }).waitFor();
  assert.equal(new URL(page.url()).pathname, `/topics/${topic}`);
});

test("axe finds nothing serious on a review, as it reads, edited, in conflict and while it is decided", async (t) => {
  const { site, topic } = await begin(t);
  await site.topic("plan.md", "steel comes late", "How late?");
  const id = await site.proposal("rewrite", topic);
  const found = [];
  const look = async (theme) => {
    const page = await (await visitor(t, site, { theme })).openLive(`/proposals/${id}`);
    const note = async (what) => found.push(...(await findings(page)).map((it) => `${what} (${theme}): ${it}`));
    for (const name of ["approve", "rework", "reject"]) {
      await page.locator(`[data-open=${name}]`).click();
      await page.getByRole("dialog").waitFor();
      await note(name);
      await page.keyboard.press("Escape");
    }
    for (const view of ["split", "unified", "rendered"]) {
      await page.goto(`/proposals/${id}?view=${view}`);
      await note(view);
    }
    await page.goto(`/proposals/${id}/edit`);
    await page.getByLabel("Full text").fill(PLAN.replace("in May", "in July"));
    await page.getByRole("button", { name: "Preview changes" }).click();
    await page.locator(".rl-changed ins").first().waitFor();
    await note("edited");
    return page;
  };
  const pages = [await look("light"), await look("dark")];
  site.write("plan.md", PLAN.replace("in May", "in April"));
  site.commit("by hand");
  for (const before of pages) {
    // Leaving a text that was not kept would ask first.
    const page = await before.context().newPage();
    await page.goto(`/proposals/${id}`);
    await page.locator(".rv-conflict").first().waitFor();
    found.push(...(await findings(page)).map((it) => `in conflict: ${it}`));
    await page.close();
  }
  assert.deepEqual(found, []);
});

test("a later revision takes the place of the text at once, and is looked at before it is decided about", async (t) => {
  // Its text follows what the document was asked to become in the thread last.
  const NEXT = `sed -e "s/in May/in $(cat "$OUT/month" 2>/dev/null || echo June)/" "$root/$path" | propose --summary "Another month"`;
  const { site, topic } = await begin(t, NEXT);
  const month = (name) => fs.writeFileSync(path.join(site.out, "month"), name);
  const first = await site.proposal("rewrite", topic);
  const ada = await (await visitor(t, site)).openLive(`/proposals/${first}`);
  const digest = () => ada.locator("#approve input[name=text_digest]").inputValue();
  const before = await digest();
  // Words in two forms, one of them with the cursor in it; the page is scrolled.
  await ada.locator("#reject textarea").fill("Half a reason to");
  await ada.locator("#rework textarea").fill("Half a wish");
  await ada.locator("#reject textarea").focus();
  await ada.locator("#reject textarea").evaluate((it) => it.setSelectionRange(2, 6));
  await ada.evaluate(() => { globalThis.isSamePage = true; });
  month("July");
  const bob = await (await visitor(t, site)).openLive(`/proposals/${first}`);
  await bob.locator("[data-open=rework]").click();
  await bob.getByLabel("What should change?").last().fill("July, please");
  await bob.getByRole("button", { name: "Request changes" }).click();
  // Who has asked for it sees it at once, and may decide.
  await bob.locator(".rl-changed ins", { hasText: "July" }).waitFor();
  assert.equal(await bob.locator(".rv-news").count(), 0);
  const news = ada.locator(".rv-news");
  await news.getByText("Revision 2 just replaced revision 1").waitFor();
  // Text, address and digest are those of the second one, without a reload; the words are still there.
  assert.equal(await ada.evaluate(() => globalThis.isSamePage), true);
  await ada.locator(".rl-changed ins", { hasText: "July" }).waitFor();
  assert.equal(await ada.locator(".rl-changed ins", { hasText: "June" }).count(), 0);
  assert.ok(!ada.url().endsWith(first) && (await digest()) !== before);
  assert.match(await ada.locator("#approve").getAttribute("action"), new RegExp(new URL(ada.url()).pathname));
  assert.equal(await ada.locator("#reject textarea").inputValue(), "Half a reason to");
  assert.equal(await ada.locator("#rework textarea").inputValue(), "Half a wish");
  assert.deepEqual(await ada.evaluate(() => {
    const it = document.activeElement;
    return [it.closest("form")?.id, it.selectionStart, it.selectionEnd];
  }), ["reject", 2, 6]);
  // Whoever presses now meant the other text: by the bar, by a key, and by the form itself.
  await ada.locator("[data-open=approve]").click({ force: true });
  assert.equal(await ada.getByRole("dialog").count(), 0);
  assert.ok(await news.evaluate((it) => it.contains(document.activeElement)));
  await ada.keyboard.press("a");
  assert.equal(await ada.getByRole("dialog").count(), 0);
  await ada.locator("#approve button[type=submit]").click({ force: true });
  await ada.locator(".rv-news.is-asked").waitFor();
  assert.equal(site.git("rev-list", "--count", "HEAD"), "1");
  // What changed between both, in place.
  await news.getByRole("link", { name: "What changed between them" }).click();
  await ada.getByRole("heading", { name: "The change since revision 1" }).waitFor();
  await ada.locator(".rl-changed del", { hasText: "June" }).waitFor();
  assert.equal(await ada.locator("#rework textarea").inputValue(), "Half a wish");
  // Once more, while the question is open: the dialog says so, and sends nothing.
  await ada.locator("[data-open=reject]").click();
  const dialog = ada.getByRole("dialog");
  await dialog.waitFor();
  month("August");
  const second = new URL(ada.url()).pathname.split("/").at(-1);
  await site.post(`/api/proposals/${second}/rework`, { reason: "August" });
  await dialog.getByText("Revision 3 just replaced revision 2").waitFor();
  assert.equal(await dialog.getByLabel("Reason").inputValue(), "Half a reason to");
  await dialog.getByRole("button", { name: "Reject", exact: true }).click({ force: true });
  await dialog.waitFor({ state: "detached" });
  await news.getByRole("button", { name: "View revision 3" }).click();
  await news.waitFor({ state: "detached" });
  assert.equal(await ada.evaluate(() => document.activeElement.dataset.change), "1");
  await ada.keyboard.press("a");
  await ada.keyboard.press("Enter");
  await ada.locator(".rv-banner-good").waitFor();
  assert.match(site.read("plan.md"), /in August/);
  // The word that was not sent can still be copied.
  await ada.getByLabel("What you typed (reject). It wasn’t sent.").waitFor();
});

test("a reason survives other pages and a reload, and nobody else sees it after a sign-out", async (t) => {
  const { site, topic } = await begin(t);
  const proposal = await site.proposal("rewrite", topic);
  const ada = await visitor(t, site);
  const page = await ada.openLive(`/proposals/${proposal}`);
  const reason = page.locator("#reject").getByLabel("Reason");
  const again = async () => {
    await page.goto("/decisions");
    await page.goto(`/proposals/${proposal}`);
    await isLive(page);
    return reason.inputValue();
  };
  await page.locator("[data-open=reject]").click();
  await reason.fill("Not before the flood.");
  assert.equal(await again(), "Not before the flood.");
  await page.locator("[data-open=reject]").click();
  await page.getByRole("button", { name: "Reject", exact: true }).click();
  await page.locator("#p-head").getByText("Rejected").first().waitFor();
  assert.equal(await page.evaluate(() => Object.keys(sessionStorage).filter((it) => it.startsWith("wb-draft-")).length), 0);

  await page.goto("/channels/new");
  const message = page.getByLabel("First message (optional)");
  const isBack = (text) => until("the draft", async () => (await message.inputValue()) === text);
  await message.fill("My salary is 1234");
  await page.reload();
  await isBack("My salary is 1234");
  await page.locator(".menu-person summary").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: /Sign/ }).waitFor();
  assert.equal(await page.evaluate(() => Object.keys(sessionStorage).filter((it) => it.startsWith("wb-draft-")).length), 0);
});
