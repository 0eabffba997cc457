// Channels: made by a form, talked in with an agent, followed live, paused and ended; on a phone, in
// both themes, and without scripts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { findings, isWithin, PHONE, picture, serve, until, visitor } from "./harness.mjs";

/** An agent that answers everything with the number of what it has heard. */
const TALKER = `count=0
while IFS= read -r line; do
count=$((count+1))
id=$(printf '%s' "$line" | sed 's/^{"id":"\\([^"]*\\)".*/\\1/')
printf '{"turn":"ended","id":"%s","text":"answer %s to you, @operator and @nobody\\\\n\\\\nDecision: go on"}\\n' "$id" "$count"
done
`;

/** A picture of one dot. */
const DOT =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const agents = (site) => {
  site.write("talker.sh", TALKER);
  site.lua += `
wb.engine "talker" { type = "stream", speaks = "lines", command = { "/bin/sh", "${site.top}/talker.sh" } }
wb.agent "robbo" { about = "A test", engine = "talker", autostart = "on_message", on_server_loss = "kill" }
`;
};

test("a person and an agent talk on a page that follows them", async (t) => {
  const site = await serve(t, {}, agents);
  const ada = await visitor(t, site);
  const page = await ada.openLive("/channels");
  await page.getByText("No open channels.").waitFor();
  await page.getByRole("link", { name: "New channel" }).click();
  await page.getByLabel("Name").fill("Release plan");
  await page.getByLabel("robbo").check();
  await page.getByRole("button", { name: "Create channel" }).click();
  await page.waitForURL(/\/channels\/workshop-release-plan-1$/);
  await page.getByText("robbo reads your message when it is free.").waitFor();
  // Who is a member is not offered as one.
  const offered = page.locator(".ch-add option");
  assert.deepEqual(await offered.allTextContents(), ["Choose…"]);
  assert.deepEqual(await findings(page), []);
  const box = page.locator("#ch-say textarea");
  await box.fill("What is left, @robbo?");
  await box.press("Enter");
  await page.locator(".ch-agent", { hasText: "answer 1 to you" }).waitFor();
  await page.locator(".ch-at", { hasText: "@robbo" }).waitFor();
  assert.equal(await page.locator(".ch-at", { hasText: "@nobody" }).count(), 0);
  await page.locator(".ch-agent", { hasText: "in reply to 1" }).waitFor();
  assert.equal(await box.inputValue(), "");
  // What others say comes by itself, and the box keeps what is typed.
  await box.fill("half a");
  await site.post("/api/channels/1/messages", { body: "From elsewhere" });
  await page.locator(".ch-line", { hasText: "From elsewhere" }).waitFor();
  await page.locator(".ch-agent", { hasText: "answer 2 to you" }).waitFor();
  assert.equal(await box.inputValue(), "half a");
  // Who cannot see it hears who has answered, and not what.
  await page.locator("#ch-said", { hasText: /^robbo answered$/ }).waitFor({ state: "attached" });
  await page.locator("h1").click();
  await page.keyboard.press("r");
  assert.equal(await box.evaluate((it) => it === document.activeElement), true);
  assert.equal(await box.inputValue(), "half a");
  // With the keyboard: to the last message, and a reply to it.
  await box.fill("");
  await page.locator("h1").click();
  await page.keyboard.press("k");
  const answered = await page.evaluate(() => document.activeElement.closest(".ch-line").id.slice(1));
  await page.keyboard.press("r");
  await page.getByText(`In reply to ${answered}`).waitFor();
  await page.keyboard.type("This one");
  await page.keyboard.press("Enter");
  const reply = page.locator(".ch-line", { hasText: "This one" });
  await reply.getByRole("link", { name: `in reply to ${answered}` }).waitFor();
  await page.locator("#ch-replying").waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Pause" }).click();
  await page.locator(".ch-paused", { hasText: "Paused by a person." }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Resume" }).click();
  await page.locator(".ch-paused").waitFor({ state: "detached" });
  await page.getByText("Complete …").click();
  await page.getByRole("button", { name: "Complete" }).click();
  await page.getByText("This channel is complete.").waitFor();
  await page.getByRole("link", { name: "Read it as Markdown" }).waitFor();
  await page.goto("/channels?status=complete");
  await page.getByText("Release plan").waitFor();
});

test("a channel is read and talked in on a phone, in both themes", async (t) => {
  const site = await serve(t, {}, agents);
  await site.post("/api/channels", { name: "Phone", message: "Hello **there**" });
  for (const theme of ["light", "dark"]) {
    const ada = await visitor(t, site, { viewport: PHONE, touch: true, theme });
    const page = await ada.openLive("/channels/workshop-phone-1");
    await page.locator(".ch-line strong", { hasText: "there" }).waitFor();
    assert.ok(await isWithin(page));
    await page.locator("#ch-say textarea").fill(`From a phone, ${theme}`);
    await page.getByRole("button", { name: "Send" }).tap();
    await page.locator(".ch-line", { hasText: `From a phone, ${theme}` }).waitFor();
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
    // One line of text costs one line of the screen.
    const foot = await page.locator(".ch-foot").boundingBox();
    assert.ok(foot.height <= 72, `the composer is ${foot.height} px high`);
    await picture(page, `composer-${theme}`);
    await page.goto("/channels");
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
  }
});

test("without scripts a channel is made, talked in and left by forms", async (t) => {
  const site = await serve(t, {}, agents);
  const ada = await visitor(t, site, { script: false });
  const page = await ada.open("/channels/new");
  await page.getByLabel("Name").fill("Plain");
  await page.getByLabel("First message").fill("One");
  await page.getByRole("button", { name: "Create channel" }).click();
  await page.locator(".ch-line", { hasText: "One" }).waitFor();
  await page.locator("#ch-say textarea").fill("Two");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator(".ch-line", { hasText: "Two" }).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("Paused by a person. Waiting messages are kept.").waitFor();
});

test("what is new is marked, counted in lists and on Home, and read by being seen", async (t) => {
  const site = await serve(t, {}, agents);
  await site.post("/api/channels", { name: "News", members: [{ agent: "robbo" }], message: "Go?" });
  const ada = await visitor(t, site);
  const page = await ada.open("/channels");
  await until("an answer is new", async () => {
    await page.reload();
    return (await page.locator(".ch-new", { hasText: "1 new" }).count()) === 1;
  });
  await page.goto("/");
  await page.locator("#home-channels .ch-new", { hasText: "1 new" }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.goto("/channels/1");
  await page.locator("#ch-mark + .ch-agent", { hasText: "answer 1" }).waitFor();
  assert.deepEqual(await findings(page), []);
  await until("what was seen is read", async () => {
    const shown = await site.get("/api/channels/1");
    return shown.unread === 0;
  });
  await page.goto("/channels");
  assert.equal(await page.locator(".ch-new").count(), 0);
});

test("names are completed, strangers are said, and whoever reads above is not moved", async (t) => {
  const site = await serve(t, {}, agents);
  await site.post("/api/channels", { name: "Long", message: "First" });
  for (let it = 0; it < 60; it += 1) {
    await site.post("/api/channels/1/messages", { body: `Line ${it}\n\nwith some words below it` });
  }
  const ada = await visitor(t, site);
  const page = await ada.openLive("/channels/1");
  const box = page.locator("#ch-say textarea");
  await box.pressSequentially("Ask @ch");
  await page.getByRole("option", { name: "@chair" }).waitFor();
  assert.deepEqual(await findings(page), []);
  await box.press("Enter");
  assert.equal(await box.inputValue(), "Ask @chair ");
  await box.pressSequentially("and @media too");
  await page.getByText("No member is called media.").waitFor();
  await box.press("Escape");
  await page.evaluate(() => scrollTo(0, 0));
  const before = await page.evaluate(() => scrollY);
  await site.post("/api/channels/1/messages", { body: "From below" });
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.equal(await page.evaluate(() => scrollY), before);
  await page.getByRole("button", { name: "1 new" }).click();
  await page.locator(".ch-line", { hasText: "From below" }).waitFor();
  await page.locator("#ch-down").waitFor({ state: "hidden" });
  assert.equal(await box.inputValue(), "Ask @chair and @media too");
});

test("a seat is given to a fresh agent on the page", async (t) => {
  const site = await serve(t, {}, agents);
  await site.post("/api/channels", { name: "Seats", members: [{ agent: "robbo" }] });
  const ada = await visitor(t, site);
  const page = await ada.openLive("/channels/1");
  const robbo = page.locator("#ch-members li", { hasText: "robbo" });
  await robbo.getByText("Change").click();
  await robbo.getByRole("button", { name: "Start fresh" }).click();
  await page.getByText("robbo-2 has the seat of robbo now.").waitFor();
  await page.locator("#ch-members li", { hasText: "robbo-2" }).waitFor();
  assert.deepEqual(await findings(page), []);
});

test("earlier messages are put above the others, and nothing is lost in between", async (t) => {
  const site = await serve(t, {}, agents);
  await site.post("/api/channels", { name: "Long" });
  const say = (from, to) => Array.from({ length: to - from + 1 }, (_, at) => `Line ${from + at}`)
    .reduce((before, body) => before.then(() => site.post("/api/channels/1/messages", { body })), Promise.resolve());
  await say(1, 130);
  const ada = await visitor(t, site);
  const page = await ada.openLive("/channels/1");
  const numbers = () => page.locator(".ch-lines > [id^=m]").evaluateAll((all) => all.map((it) => Number(it.id.slice(1))));
  const from = (first, last) => Array.from({ length: last - first + 1 }, (_, at) => first + at);
  assert.deepEqual(await numbers(), from(71, 130));
  // What comes meanwhile moves the page, and leaves no gap above it.
  await say(131, 133);
  await page.locator("#m133").waitFor();
  await page.locator(".ch-earlier a").scrollIntoViewIfNeeded();
  const place = () => page.locator("#m74").evaluate((it) => it.getBoundingClientRect().top);
  const before = await place();
  await page.getByRole("link", { name: "Earlier messages" }).click();
  await page.locator("#m73").waitFor();
  assert.deepEqual(await numbers(), from(14, 133));
  await until("it stays in place", async () => Math.abs((await place()) - before) < 2);
  await say(134, 136);
  await page.locator("#m136").waitFor({ state: "attached" });
  assert.deepEqual(await numbers(), from(14, 136));
  await page.getByRole("link", { name: "Earlier messages" }).click();
  await page.locator("#m1").waitFor({ state: "attached" });
  assert.deepEqual(await numbers(), from(1, 136));
  assert.equal(await page.getByRole("link", { name: "Earlier messages" }).count(), 0);
  assert.deepEqual(await findings(page), []);
});

test("files go with a message by drop and button, on a phone", async (t) => {
  const site = await serve(t, {}, agents);
  await site.post("/api/channels", { name: "Files", message: "First" });
  const ada = await visitor(t, site, { viewport: PHONE, touch: true });
  const page = await ada.openLive("/channels/1");
  const choosing = page.waitForEvent("filechooser");
  await page.getByRole("button", { name: "Attach files" }).tap();
  const chooser = await choosing;
  await chooser.setFiles([
    { name: "<b>plan</b>.txt", mimeType: "text/html", buffer: Buffer.from("<script>1</script>") },
    { name: "dot.png", mimeType: "image/png", buffer: Buffer.from(DOT, "base64") },
  ]);
  await page.locator("#ch-attached li[data-sent]").nth(1).waitFor();
  assert.deepEqual(await findings(page), []);
  // A text is not needed.
  await page.getByRole("button", { name: "Send" }).tap();
  const line = page.locator(".ch-line", { has: page.locator(".ch-files") });
  await line.getByRole("link", { name: "<b>plan</b>.txt" }).waitFor();
  const picture = line.locator("img");
  await until("the picture is shown", () => picture.evaluate((it) => it.naturalWidth === 1));
  await until("the list is empty again", async () => {
    return (await page.locator("#ch-attached li").count()) === 0;
  });
  assert.ok(await isWithin(page));
  assert.deepEqual(await findings(page), []);
});

test("a conversation with an agent goes on in a channel, with the turns that were chosen", async (t) => {
  const site = await serve(t, {}, agents);
  await site.post("/api/channels", { name: "Taken" });
  for (const text of ["What next?", "Something private"]) {
    const sent = await site.post("/api/messages", { to: "agent:robbo", payload: text });
    await site.get(`/api/messages/${sent.message_id}/await?timeout=30`);
  }
  const ada = await visitor(t, site, { viewport: PHONE, touch: true, allow: [/status of 409/] });
  const page = await ada.open("/agents/robbo");
  await page.locator("#agent-turns li", { hasText: "direct message" }).nth(1).waitFor();
  assert.ok(await isWithin(page));
  assert.deepEqual(await findings(page), []);
  await page.getByRole("link", { name: "Continue in a channel" }).click();
  assert.ok(await isWithin(page));
  assert.deepEqual(await findings(page), []);
  await page.getByLabel("Something private").uncheck();
  // A refusal keeps what was typed and chosen.
  await page.getByLabel("Name").fill("Taken");
  await page.getByRole("button", { name: "Create channel" }).click();
  await page.getByRole("alert").waitFor();
  assert.equal(await page.getByLabel("Something private").isChecked(), false);
  await page.getByLabel("Name").fill("Further");
  await page.getByRole("button", { name: "Create channel" }).click();
  await page.getByText("What next?").waitFor();
  assert.equal(await page.getByText("Something private").count(), 0);
  assert.ok(await isWithin(page));
});

test("the palette leads to the page of an agent, which is written to by Ctrl-Enter", async (t) => {
  const site = await serve(t, {}, agents);
  const page = await (await visitor(t, site)).openLive("/");
  await page.keyboard.press("Control+k");
  await page.locator(".palette input").fill("new job");
  await page.locator(".palette-row").getByText("Search everywhere for “new job”").waitFor();
  assert.equal(await page.locator(".palette-row", { hasText: "robbo" }).count(), 0);
  await page.locator(".palette input").fill("message rob");
  await page.locator(".palette-row").getByText("Message robbo").click();
  await page.waitForURL(`${site.origin}/agents/robbo`);
  await page.getByLabel("Message").fill("Hello");
  await page.getByLabel("Message").press("Control+Enter");
  await page.locator("#agent-messages .row").first().waitFor();
});

test("the handoffs of an agent are listed and read, and an agent is asked to read them", async (t) => {
  const site = await serve(t, {}, agents);
  const ada = await visitor(t, site, { viewport: PHONE, touch: true });
  const page = await ada.open("/handoffs/robbo");
  await page.getByText("No handoffs yet.").waitFor();
  assert.ok(await isWithin(page));
  assert.deepEqual(await findings(page), []);
  const folder = "data/personas/robbo/handoffs";
  const summary = "a-summary-that-is-as-long-as-a-summary-of-a-handoff-may-be-60";
  for (let it = 1; it <= 22; it += 1) {
    const stamp = `202603${String(it).padStart(2, "0")}T102332Z`;
    site.write(`${folder}/${stamp}_${it === 22 ? summary : "locking"}_agent-1.md`,
      `# Handoff ${it}\n\n## Current work\n\n<script>alert(1)</script>\n\nMind the **locks**.\n\n## Next steps\n`);
  }
  await page.reload();
  assert.equal(await page.locator("#handoff-list .row").count(), 20);
  await page.locator("#handoff-list .row").first().getByText("a summary that is as long").waitFor();
  assert.ok(await isWithin(page));
  await page.getByRole("link", { name: "Show more" }).click();
  await page.locator("#handoff-list .row").nth(21).waitFor();
  await page.getByRole("link", { name: "Show sections" }).click();
  await page.locator(".sections dd", { hasText: "<script>alert(1)</script>" }).first().waitFor();
  assert.ok(await isWithin(page));
  assert.deepEqual(await findings(page), []);
  await picture(page, "handoffs");
  await page.locator("#handoff-list .row-main").first().click();
  await page.locator(".md strong", { hasText: "locks" }).waitFor();
  assert.ok(await isWithin(page));
  assert.deepEqual(await findings(page), []);
  await picture(page, "handoff");
  await page.goto("/agents/robbo");
  assert.equal(await page.locator("#rehydrate input[type=checkbox]").count(), 3);
  assert.deepEqual(await findings(page), []);
  await page.getByLabel("Note").fill("Mind the locks");
  await page.getByRole("button", { name: "Ask robbo to read" }).click();
  await page.locator("#agent-messages .row", { hasText: "Read what was written for you" }).waitFor();
  await page.getByText("read by robbo").waitFor();
  assert.ok(await isWithin(page));
  await picture(page, "agent");
  await page.goto("/handoffs/robbo/..%2F..%2Fx.md");
  await page.getByText("there is no handoff").waitFor();
});

test("an agent's page says where it sits and what each turn was asked", async (t) => {
  const site = await serve(t, {}, agents);
  await site.post("/api/channels", { name: "Seats", intent: "Find it", members: [{ agent: "robbo" }], message: "What is left?" });
  const ada = await visitor(t, site);
  const page = await ada.openLive("/agents/robbo");
  await page.locator("#seat").getByRole("link", { name: "Seats" }).waitFor();
  await page.locator("#agent-turns .turn-asked", { hasText: "What is left?" }).waitFor();
  assert.deepEqual(await findings(page), []);
  await picture(page, "agent-seat");
  await site.post("/api/channels/1/complete", {});
  await page.locator("#seat").waitFor({ state: "detached" });
});

test("a browser that is asked tells of channels, but not of the one in view", async (t) => {
  const site = await serve(t, {}, (it) => {
    agents(it);
    it.lua += 'wb.agent "paula" { about = "A test", engine = "talker" }\n';
  });
  await site.post("/api/channels", { name: "Seen", members: [{ agent: "robbo" }] });
  await site.post("/api/channels", { name: "Other", members: [{ agent: "paula" }] });
  const ada = await visitor(t, site);
  await ada.context.grantPermissions(["notifications"], { origin: site.origin });
  const page = await ada.openLive("/channels");
  await page.getByRole("button", { name: "Notify me" }).click();
  await page.getByRole("button", { name: "Notices on", pressed: true }).waitFor();
  assert.deepEqual(await findings(page), []);
  // Chromium forgets a notice if it is asked for notices while it shows that one: whether one has
  // been shown is told by the worker, and only then Chromium is asked.
  const [worker] = ada.context.serviceWorkers();
  await worker.evaluate(() => {
    self.shown = 0;
    const show = registration.showNotification;
    registration.showNotification = async (...notice) => {
      await show.apply(registration, notice);
      self.shown += 1;
    };
  });
  const notices = () => page.evaluate(async () => {
    const { ready } = navigator.serviceWorker;
    return (await (await ready).getNotifications()).map((it) => `${it.title} ${it.body}`);
  });
  const seen = await ada.openLive("/channels/workshop-seen-1");
  await site.post("/api/channels/1/messages", { body: "Go on" });
  await seen.locator(".ch-agent", { hasText: "answer 1" }).waitFor();
  // What she says herself is nothing to tell; what an agent answers is.
  await site.post("/api/channels/2/messages", { body: "Go on" });
  await until("a notice comes", () => worker.evaluate(() => self.shown > 0));
  assert.deepEqual(await notices(), ["#Other paula wrote"]);
  await page.getByRole("button", { name: "Notices on" }).click();
  await page.getByRole("button", { name: "Notify me", pressed: false }).waitFor();
});

test("what waits in channels is among the decisions until somebody acts", async (t) => {
  const site = await serve(t, {}, agents);
  await site.post("/api/channels", { name: "Spent", budget: { turns: 1 }, members: [{ agent: "robbo" }], message: "Go?" });
  const ada = await visitor(t, site);
  const page = await ada.openLive("/decisions");
  await page.locator("#decision-list").getByText("its budget is used up").click();
  await page.locator(".ch-paused").waitFor();
  await site.post("/api/channels/1/resume", { budget: { turns: 9 } });
  await page.goto("/decisions");
  await page.getByText("Nothing to review.").waitFor();
});
