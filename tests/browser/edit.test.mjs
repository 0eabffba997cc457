// Editing a proposed text while others go on: nothing that was typed is lost, and it is said what to do.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PHONE, findings, isSeen, layoutShift, serve, until, visitor } from "./harness.mjs";

const PLAN = `# Plan

We build the bridge in May, if it does not rain.

${Array.from({ length: 40 }, (_, i) => `Paragraph ${i} stays as it is.`).join("\n\n")}

The ferry goes until then.
`;
const REWRITE = `sed -e 's/in May/in June/' "$root/$path" | propose --summary "Moves it to June"`;

async function begin(t) {
  const site = await serve(t, { files: { "plan.md": PLAN } }, (it) => {
    it.topicKind("rewrite", REWRITE);
    it.topicKind("slow", "sleep 60");
  });
  const topic = await site.topic("plan.md", "in May", "Could it be June?");
  return { site, topic, id: await site.proposal("rewrite", topic) };
}

const typed = (page) => page.getByLabel("Full text");

/** Changes a line of the text in the form, as somebody who is not finished yet. */
async function type(page, from, to) {
  const text = (await typed(page).inputValue()).replace(from, to);
  await typed(page).fill(text);
  return text;
}

/** Somebody commits another text by hand. */
function byHand(site, from, to) {
  site.write("plan.md", site.read("plan.md").replace(from, to));
  site.commit("by hand");
}

test("a later revision is told while somebody types, and what was changed is brought over to it", async (t) => {
  const { site, id } = await begin(t);
  const page = await (await visitor(t, site)).openLive(`/proposals/${id}/edit`);
  const mine = await type(page, "Paragraph 3 stays as it is", "Paragraph 3 is mine");
  await typed(page).focus();
  // Merged with what the document has become: a revision of its own.
  byHand(site, "Paragraph 30 stays", "Paragraph 30 came in between and stays");
  const state = page.locator("#e-state");
  await state.getByText("Revision 2 replaced revision 1.").waitFor();
  await page.locator("#say", { hasText: "Revision 2 replaced" }).waitFor({ state: "attached" });
  assert.equal(await typed(page).inputValue(), mine);
  assert.ok(await typed(page).evaluate((it) => it === document.activeElement), "one goes on typing");
  assert.equal(await layoutShift(page), 0);
  assert.deepEqual(await findings(page), []);
  const different = state.getByRole("link", { name: "see what changed" });
  assert.equal(await different.getAttribute("target"), "_blank");
  await page.getByRole("button", { name: "Move your changes to revision 2" }).click();
  await page.getByText("Merged").waitFor();
  const both = await typed(page).inputValue();
  for (const part of ["in June", "Paragraph 3 is mine", "30 came in between"]) assert.ok(both.includes(part), part);
  assert.equal(site.read("plan.md").includes("is mine"), false);
  await page.locator(".rl-changed ins").getByText("is mine").waitFor();
  await isSeen(page);
  await page.getByRole("button", { name: "Save edit" }).click();
  await page.getByText(/^Edited by ada from/).waitFor();
  assert.equal((await site.get(`/api${new URL(page.url()).pathname}`)).text, both);
});

test("an edit that cannot be saved stays in its field, and is saved later", async (t) => {
  const { site, id } = await begin(t);
  const allow = [/Failed to load resource/, /ERR_INTERNET_DISCONNECTED/];
  const page = await (await visitor(t, site, { allow })).openLive(`/proposals/${id}/edit`);
  const mine = await type(page, "Paragraph 3 stays as it is", "Paragraph 3 is mine");
  const save = page.getByRole("button", { name: "Save edit" });
  await page.context().setOffline(true);
  await save.click();
  await page.locator(".form-refusal", { hasText: "What you typed is still here" }).waitFor();
  assert.equal(await typed(page).inputValue(), mine);
  await page.context().setOffline(false);
  // Signed out in another tab: the text stays too.
  const cookies = await page.context().cookies();
  await page.context().clearCookies();
  await save.click();
  await page.locator(".form-refusal", { hasText: "You are signed out" }).waitFor();
  assert.equal(await typed(page).inputValue(), mine);
  await page.context().addCookies(cookies);
  await save.click();
  await page.waitForURL((it) => !it.pathname.endsWith("/edit"));
  const saved = new URL(page.url()).pathname.split("/").at(-1);
  assert.notEqual(saved, id);
  assert.ok(JSON.stringify(await site.get(`/api/proposals/${saved}`)).includes("Paragraph 3 is mine"));
});

test("an edit that cannot be moved to a later revision is kept", async (t) => {
  const { site, id } = await begin(t);
  const ada = await visitor(t, site, { worker: false, allow: [/Failed to load resource/] });
  const page = await ada.openLive(`/proposals/${id}/edit`);
  const mine = await type(page, "Paragraph 3 stays as it is", "Paragraph 3 is mine");
  byHand(site, "Paragraph 30 stays", "Paragraph 30 came in between and stays");
  const move = page.getByRole("button", { name: "Move your changes to revision 2" });
  await move.waitFor();
  await isSeen(page);
  const cookies = await page.context().cookies();
  await page.context().clearCookies();
  await move.click();
  await page.locator(".sign-in").waitFor();
  await page.context().addCookies(cookies);
  await page.goto(`/proposals/${id}/edit`);
  await until("the words are back", async () => await typed(page).inputValue() === mine);
});

test("the words to edit are in sight, near the top of a text and far down in it", async (t) => {
  const site = await serve(t, { files: { "plan.md": PLAN } }, (it) => {
    it.topicKind("rewrite", REWRITE);
    it.topicKind("late", `sed -e 's/The ferry/The boat/' "$root/$path" | propose --summary "Names the boat"`);
  });
  const ids = [];
  for (const [kind, words] of [["rewrite", "in May"], ["late", "The ferry"]]) {
    ids.push(await site.proposal(kind, await site.topic("plan.md", words, "Say it better.")));
  }
  for (const viewport of [undefined, PHONE]) {
    const ada = await visitor(t, site, viewport ? { viewport, touch: true } : {});
    for (const id of ids) {
      const page = await ada.open(`/proposals/${id}/edit`);
      const { line, top, bottom, bar } = await typed(page).evaluate((area) => {
        const text = area.value;
        const [scrolled, box] = [area.scrollTop, area.getBoundingClientRect()];
        area.dataset.measured = "";
        area.value = text.slice(0, area.dataset.fromUnit);
        const line = box.top + area.scrollHeight - scrolled;
        area.value = text;
        delete area.dataset.measured;
        const bar = area.form.querySelector(".rv-keep").getBoundingClientRect().top;
        return { line, top: box.top, bottom: box.bottom, bar };
      });
      assert.ok(line > Math.max(top, 0) && line < Math.min(bottom, bar), `${line} ${top} ${bottom} ${bar}`);
    }
  }
});

test("a decision, a rework and a document in conflict are told while somebody types", async (t) => {
  const { site, topic, id } = await begin(t);
  const phone = await visitor(t, site, { viewport: PHONE, touch: true, theme: "dark" });
  const page = await phone.openLive(`/proposals/${id}/edit`);
  const mine = await type(page, "Paragraph 3 stays as it is", "Paragraph 3 is mine");
  const state = page.locator("#e-state");
  const keep = page.getByRole("button", { name: "Save edit" });
  byHand(site, "in May", "in April");
  await state.getByText("The same lines have changed since").waitFor();
  assert.ok(await keep.isEnabled(), "it can be kept all the same");
  site.git("reset", "-q", "--hard", "HEAD~1");
  await state.getByText("The same lines have changed since").waitFor({ state: "detached" });
  await site.post(`/api/proposals/${id}/reject`, { reason: "Not <b>now</b>" });
  await state.getByText(": Not <b>now</b>. Your edit is still here").waitFor();
  assert.ok(await keep.isDisabled());
  assert.equal(await typed(page).inputValue(), mine);
  assert.ok(await state.getByText("Your edit is still here").evaluate((it) => {
    const { top, bottom } = it.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  }), "it is seen wherever one types");
  assert.deepEqual(await findings(page), []);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  const again = await site.proposal("rewrite", topic);
  const other = await phone.openLive(`/proposals/${again}/edit`);
  await type(other, "Paragraph 3 stays as it is", "Paragraph 3 is mine");
  await site.post(`/api/proposals/${again}/rework`, { reason: "Finer" });
  await other.locator("#e-state").getByText(/An agent is writing the next revision|replaced revision/).first().waitFor();
  // Its text is the same as before, so that only the later revision has what was typed as well.
  await other.getByRole("button", { name: /Move your changes to revision/ }).click();
  await other.getByText("Merged").waitFor();
  assert.ok((await typed(other).inputValue()).includes("Paragraph 3 is mine"));
});

test("without scripts what cannot be kept comes back with what was typed and a way on", async (t) => {
  const { site, id } = await begin(t);
  const page = await (await visitor(t, site, { script: false })).open(`/proposals/${id}/edit`);
  await page.getByRole("button", { name: "Save edit" }).click();
  await page.getByText("the edited text is the same as the proposed one").waitFor();
  const mine = await type(page, "in June", "in <i>late</i> June");
  const shown = await site.get(`/api/proposals/${id}`);
  const theirs = shown.text.replace("in June", "in early June");
  await site.post(`/api/proposals/${id}/edit`, { text: theirs, text_digest: shown.proposal.text_digest });
  await page.getByRole("button", { name: "Save edit" }).click();
  await page.getByText("Revision 2 replaced revision 1.").waitFor();
  assert.equal(await typed(page).inputValue(), mine);
  await page.getByRole("button", { name: "Move your changes to revision 2" }).click();
  // Both changed the same line: nothing is mixed, and it is said.
  await page.getByText("You and revision 2 changed the same lines, in 1 place.").waitFor();
  assert.equal(await typed(page).inputValue(), mine);
  await page.getByRole("button", { name: "Save edit" }).click();
  await page.getByText(/^Edited by ada from/).waitFor();
  assert.equal((await site.get(`/api${new URL(page.url()).pathname}`)).text, mine);
});

test("an edit is not saved over lines whose change the page has not shown yet", async (t) => {
  const { site, id } = await begin(t);
  const ada = await visitor(t, site, { worker: false, allow: [/status of 409/, /ERR_FAILED/] });
  const page = await ada.openLive(`/proposals/${id}/edit`);
  await type(page, "in June", "in July");
  await page.route("**/edit", (route) => {
    return route.request().headers()["wb-fragment"] ? route.abort() : route.continue();
  });
  byHand(site, "in May", "in the middle of May");
  await until("the server knows", async () => {
    return (await site.get(`/api/proposals/${id}`)).conflict !== null;
  });
  let saves = 0;
  page.on("request", (it) => { saves += Number(it.method() === "POST" && !it.postData().includes("preview=")); });
  const save = page.getByRole("button", { name: "Save edit" });
  await until("Save has the focus", async () => {
    await page.keyboard.press("Tab");
    return save.evaluate((it) => it === document.activeElement);
  });
  // Pressed again as soon as it is said, which a slow machine would not manage from outside.
  await save.evaluate((button) => {
    const state = document.getElementById("e-state");
    const seen = new MutationObserver(() => {
      if (!state.textContent.includes("Saving puts your version of them")) return;
      seen.disconnect();
      setTimeout(() => button.click());
    });
    seen.observe(state, { childList: true, subtree: true, characterData: true });
  });
  await page.keyboard.press("Enter");
  await page.locator("#e-state", { hasText: "have changed since you began to type" }).waitFor();
  await page.locator("#e-state", { hasText: "Saving puts your version of them" }).waitFor();
  await page.locator("#say", { hasText: "Look at the conflict, then save again." }).waitFor({ state: "attached" });
  assert.equal(saves, 1);
  await until("there was time to read it", async () => {
    if (page.url().endsWith("/edit") && saves < 2) await save.click();
    return saves > 1;
  });
  await page.getByText(/^Edited by ada from/).waitFor();
  assert.equal(saves, 2);
});
