// A job without a Topic, and the search with what narrows it down: with and without a script.

import assert from "node:assert/strict";
import { test } from "node:test";
import { findings, layoutShift, serve, until, visitor } from "./harness.mjs";

const KIND = `wb.kind "digest" {
  about = "Sums up what has happened", engine = "quiet", timeout = "20s",
  inputs = {
    source_path = wb.input.source(),
    days = wb.input.number { about = "How many days back" },
    note = wb.input.text { required = false },
    loud = wb.input.flag { default = true },
  },
  prompt = [[{{source_path}} {{days}} {{note}} {{loud}}]],
}
`;

const FILES = { files: { "docs/bridge.md": "# Bridge\n\nThe bridge is of steel.\n" } };

const begin = (t) => serve(t, FILES, (it) => {
  it.engine("quiet", "cat >/dev/null");
  it.lua += KIND;
});

test("a job is started from its kind's form; what is wrong stands at its field", async (t) => {
  const site = await begin(t);
  for (const script of [true, false]) {
    const page = await (await visitor(t, site, { script, allow: [/status of 404/] })).open("/d/docs/bridge.md");
    await page.getByRole("link", { name: "Start a job on this document" }).click();
    await page.getByRole("link", { name: "digest" }).click();
    assert.equal(await page.getByLabel("source path").inputValue(), "docs/bridge.md");
    await page.getByLabel("source path").fill("docs/brdge.md");
    await page.getByLabel("days").fill("7");
    await page.getByLabel("note").fill("not <b>lost</b>");
    await page.getByLabel("loud").uncheck();
    await page.getByRole("button", { name: "Start “digest”" }).click();
    const wrong = page.locator(".field-refusal");
    await wrong.getByText("docs/brdge.md").waitFor();
    const field = page.getByLabel("source path");
    assert.equal(await field.getAttribute("aria-invalid"), "true");
    assert.equal(await field.getAttribute("aria-describedby"), await wrong.getAttribute("id"));
    assert.ok(await field.evaluate((it) => it === document.activeElement), "it has the focus");
    assert.equal(await page.getByLabel("days").inputValue(), "7");
    assert.equal(await page.getByLabel("note").inputValue(), "not <b>lost</b>");
    assert.equal(await page.getByLabel("loud").isChecked(), false);
    if (script) assert.deepEqual(await findings(page), []);
    await field.fill("docs/bridge.md");
    await page.getByRole("button", { name: "Start “digest”" }).click();
    await page.waitForURL(/\/jobs\/[0-9a-f-]{36}$/);
    const job = await site.get(`/api/agent/jobs/${new URL(page.url()).pathname.split("/").at(-1)}`);
    assert.deepEqual([job.inputs.days, job.inputs.loud, job.inputs.source_path], [7, false, "docs/bridge.md"]);
  }
});

test("a job waits for the time that is meant where its person is, and in the place that was asked for", async (t) => {
  const site = await begin(t);
  const zones = [[true, "Asia/Dubai", "2099-03-04T01:06:00.000Z"], [false, "UTC", "2099-03-04T05:06:00.000Z"]];
  for (const [script, zone, meant] of zones) {
    const options = { script, zone: "Asia/Dubai", allow: [/status of 400/] };
    const page = await (await visitor(t, site, options)).open("/jobs/new?kind=digest&source_path=docs/bridge.md");
    const when = page.locator("details.turn");
    const [notBefore, priority] = [page.getByLabel("Not before"), page.getByLabel("Priority")];
    await page.getByLabel("days").fill("7");
    assert.ok(!(await notBefore.isVisible()), "folded away until it is asked for");
    await when.locator("summary").click();
    await when.getByText(`in ${zone}`).waitFor();
    await notBefore.fill("2099-03-04T05:06");
    await priority.fill("500");
    if (script) {
      // What a browser refuses is not folded away.
      await when.locator("summary").click();
      await page.getByRole("button", { name: "Start “digest”" }).click();
      await priority.waitFor();
      assert.deepEqual(await findings(page), []);
    }
    await page.locator("#new-job").evaluate((it) => { it.noValidate = true; });
    await page.getByRole("button", { name: "Start “digest”" }).click();
    await page.locator("#wrong-digest-turn-priority", { hasText: "between -100 and 100" }).waitFor();
    assert.ok(await priority.evaluate((it) => it === document.activeElement), "it has the focus");
    assert.equal(await priority.inputValue(), "500");
    assert.equal(await notBefore.inputValue(), "2099-03-04T05:06");
    assert.equal(await page.getByLabel("days").inputValue(), "7");
    assert.equal(await page.locator(".form-refusal").count(), 0, "it is said once");
    await when.getByText(`in ${zone}`).waitFor();
    await priority.fill("-5");
    await page.getByRole("button", { name: "Start “digest”" }).click();
    await page.waitForURL(/\/jobs\/[0-9a-f-]{36}$/);
    const job = await site.get(`/api/agent/jobs/${new URL(page.url()).pathname.split("/").at(-1)}`);
    assert.deepEqual([job.status, job.priority, job.not_before], ["queued", -5, meant]);
  }
});

test("a job on a Topic waits for the time that is meant, also while its page changes", async (t) => {
  const site = await serve(t, FILES, (it) => it.topicKind("shorten", "true"));
  const id = await site.topic("docs/bridge.md", "of steel", "Why is the bridge of steel?");
  const options = { zone: "Asia/Dubai", allow: [/status of 400/] };
  const page = await (await visitor(t, site, options)).openLive(`/topics/${id}`);
  const form = page.locator("#start-shorten");
  const [notBefore, priority] = [form.getByLabel("Not before"), form.getByLabel("Priority")];
  const send = form.getByRole("button", { name: "Start “shorten”" });
  assert.ok(!(await notBefore.isVisible()), "folded away until it is asked for");
  await form.locator("details.turn summary").click();
  await notBefore.fill("2099-03-04T05:06");
  // What is typed, and in which zone, stays when the part of the page is fetched anew.
  const other = await site.job("shorten", { topic_id: id, not_before: "2099-01-01T00:00:00Z" });
  await page.locator(`#job-${other}`).waitFor();
  assert.equal(await notBefore.inputValue(), "2099-03-04T05:06");
  await form.getByText("in Asia/Dubai").waitFor();
  assert.match(await form.locator("[name=zone]").inputValue(), /\[Asia\/Dubai\]$/);
  assert.deepEqual(await findings(page), []);
  await site.post(`/api/agent/jobs/${other}/cancel`, {});
  await until("nothing holds the document", () => send.isEnabled());
  await form.evaluate((it) => { it.noValidate = true; });
  await priority.fill("500");
  await send.click();
  await page.locator("#wrong-shorten-turn-priority", { hasText: "between -100 and 100" }).waitFor();
  await priority.fill("-5");
  await send.click();
  const made = async () => (await site.get(`/api/agent/jobs?topic_id=${id}`)).items.find((it) => it.priority === -5);
  await until("the job is there", made);
  assert.equal((await made()).not_before, "2099-03-04T01:06:00.000Z");
});

test("a job is begun from the palette by who may, about the document that is read", async (t) => {
  const site = await begin(t);
  await site.post("/api/persons", { name: "vi", role: "viewer" });
  for (const [person, rows] of [[undefined, 1], ["vi", 0]]) {
    const page = await (await visitor(t, site, { person })).openLive("/d/docs/bridge.md");
    await page.keyboard.press("Control+k");
    await page.locator(".palette input").fill("dig");
    await page.locator(".palette-row").getByText("Search everywhere for “dig”").waitFor();
    assert.equal(await page.locator(".palette-row").getByText("New job: digest").count(), rows);
    if (!rows) continue;
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "digest" }).waitFor();
    assert.equal(await page.getByLabel("source path").inputValue(), "docs/bridge.md");
  }
});

test("a search is narrowed down, says by what, and is widened again", async (t) => {
  const site = await begin(t);
  await site.topic("docs/bridge.md", "of steel", "Why is the bridge of steel?");
  await site.topic("notes.md", "", "A bridge in the notes");
  for (const script of [true, false]) {
    const page = await (await visitor(t, site, { script })).open("/search");
    assert.ok(await page.getByLabel("Search for").evaluate((it) => it === document.activeElement));
    await page.keyboard.type("bridge");
    await page.keyboard.press("Enter");
    const rows = page.locator(".rows .row");
    await rows.nth(2).waitFor();
    assert.equal(await rows.count(), 3, "a document and two Topics");
    await page.getByText("Filters").click();
    await page.getByLabel("Folder or start of the path").fill("docs/");
    await page.getByLabel("Topic state").selectOption({ label: "Open" });
    await page.getByLabel("Folder or start of the path").press("Enter");
    await page.locator(".chips").getByText("Path starts with docs/").waitFor();
    assert.equal(await rows.count(), 1);
    assert.equal(await page.getByLabel("Topic state").inputValue(), "open");
    if (script) {
      assert.deepEqual(await findings(page), []);
      assert.equal(await layoutShift(page), 0);
    }
    await page.getByRole("link", { name: "Topics: open : remove" }).click();
    await page.locator(".chips .chip").first().waitFor();
    assert.equal(await page.locator(".chips .chip").count(), 1);
    assert.equal(await rows.count(), 2);
    // What cannot be found says why, and leads on.
    await page.goto("/search?query=bridge&kind=source&status=open");
    await page.getByText("Documents have no state or author").waitFor();
    await page.getByRole("link", { name: "Search Topics and messages too" }).click();
    assert.equal(await rows.count(), 2);
    await page.goto("/search?query=ferry&path=docs/");
    await page.getByText("No results for “ferry” with these filters.").waitFor();
    await page.goto("/search?query=&path=docs/");
    await page.getByText("enter at least one word").waitFor();
  }
});

test("on paper stands what can be read, light, with exact times, and not what can be pressed", async (t) => {
  const site = await begin(t);
  const topic = await site.topic("docs/bridge.md", "of steel", "Why is the bridge of steel?");
  const page = await (await visitor(t, site, { theme: "dark" })).openLive("/d/docs/bridge.md");
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  await page.setViewportSize({ width: 680, height: 960 });
  const note = page.locator(`#topic-${topic}`);
  assert.ok(await note.getByText("Why is the bridge of steel?").isVisible());
  assert.ok(await note.locator("blockquote").isVisible());
  assert.match(await note.locator("time").evaluate((it) => getComputedStyle(it, "::after").content), /UTC/);
  const ink = () => page.evaluate(() => getComputedStyle(document.querySelector("h1, h2")).color);
  const light = await ink();
  await page.emulateMedia({ media: "print", colorScheme: "light" });
  assert.equal(await ink(), light, "the same in both themes");
  for (const at of ["/d/docs/bridge.md", `/topics/${topic}`, "/jobs"]) {
    await page.goto(at);
    for (const it of ["button", "form", "a.button", ".bar"]) {
      assert.equal(await page.locator(`${it}:visible`).count(), 0, `${it} on ${at}`);
    }
  }
});

const TALK = `wb.engine "talk" {
  type = "stream", speaks = "lines",
  command = { "/bin/sh", "-c", [[while read -r line; do id=\${line#*'"id":"'}; id=\${id%%'"'*}; ]] ..
    [[case $line in *finish*) wb-agent complete ;; esac; ]] ..
    [[printf '{"turn":"ended","id":"%s","text":"read"}\\n' "$id"; done]] },
}
wb.inbox "t/talk" { about = "Talks", engine = "talk", timeout = "5m", prompt = "{{payload}}" }
`;

test("an instance is written to by keyboard; what was typed survives a reload and its end", async (t) => {
  const site = await serve(t, {}, (it) => { it.lua += TALK; });
  const sent = await site.post("/api/messages", { to: "topic:t/talk", payload: "hello" });
  await site.status(sent.job_id, "running");
  const page = await (await visitor(t, site, { allow: [/status of 409/] })).openLive(`/jobs/${sent.job_id}`);
  const field = page.getByLabel("Message to this instance");
  await page.getByText("No messages since it started").waitFor();
  await field.fill("not <b>lost</b>");
  await page.reload();
  await until("the draft is back", async () => (await field.inputValue()) === "not <b>lost</b>");
  await field.press("Control+Enter");
  await page.locator("#job-messages li").getByText("not <b>lost</b>").waitFor();
  assert.equal(await field.inputValue(), "");
  assert.deepEqual(await findings(page), []);
  await field.fill("too late");
  await site.post("/api/messages", { to: `agent:t/${sent.job_id}`, payload: "finish" });
  await site.status(sent.job_id, "succeeded");
  await field.press("Control+Enter");
  await page.getByRole("alert").getByText("has ended").waitFor();
  assert.equal(await field.inputValue(), "too late");
});

test("a message to an inbox stays in its form without a connection or a session", async (t) => {
  const site = await serve(t, FILES, (it) => {
    it.engine("replies", "cat >/dev/null; wb-agent complete --reply 1");
    it.lua += 'wb.inbox "shop/order" { about = "Orders", engine = "replies", timeout = "20s" }\n';
  });
  const ada = await visitor(t, site, { allow: [/ERR_INTERNET_DISCONNECTED/, /status of 401/] });
  const page = await ada.openLive("/inboxes/shop/order");
  const field = page.getByLabel("Message", { exact: true });
  await field.fill("Two queens");
  const context = page.context();
  await context.setOffline(true);
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator("#send .form-refusal", { hasText: "Can’t reach this site" }).waitFor();
  await context.setOffline(false);
  const cookies = await context.cookies();
  await context.clearCookies();
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator("#send .form-refusal", { hasText: "You are signed out" }).waitFor();
  assert.equal(await field.inputValue(), "Two queens");
  await context.addCookies(cookies);
  await page.getByRole("button", { name: "Send" }).click();
  await page.waitForURL(/\/mail\/[0-9a-f-]{36}$/);
  await page.getByText("Two queens").first().waitFor();
});

test("a new channel stays in its form without a connection or a session", async (t) => {
  const site = await serve(t, FILES);
  const ada = await visitor(t, site, { worker: false, allow: [/ERR_INTERNET_DISCONNECTED/, /status of 401/] });
  const page = await ada.openLive("/channels/new");
  const create = page.getByRole("button", { name: "Create channel" });
  const holds = async () => {
    assert.equal(await page.locator("[name=name]").inputValue(), "Herons");
    assert.equal(await page.locator("[name=message]").inputValue(), "Who counts them?");
  };
  await page.locator("[name=name]").fill("Herons");
  await page.locator("[name=message]").fill("Who counts them?");
  const context = page.context();
  await context.setOffline(true);
  await create.click();
  await page.locator(".form-refusal", { hasText: "Can’t reach this site" }).waitFor();
  await holds();
  await context.setOffline(false);
  const cookies = await context.cookies();
  await context.clearCookies();
  await create.click();
  await page.locator(".form-refusal", { hasText: "You are signed out" }).waitFor();
  await holds();
  await page.goto("/channels");
  await context.addCookies(cookies);
  await page.goto("/channels/new");
  await holds();
  await create.click();
  await page.waitForURL(/\/channels\/workshop-herons-1$/);
  await page.locator(".ch-line", { hasText: "Who counts them?" }).waitFor();
  await page.goto("/channels/new");
  assert.equal(await page.locator("[name=message]").inputValue(), "");
});

test("a form that was posted while signed out is not posted again by a sign-in", async (t) => {
  const site = await serve(t, FILES);
  await site.post("/api/persons", { name: "eva", role: "member" });
  const ada = await visitor(t, site, { worker: false });
  for (const person of ["eva", "ada"]) {
    const page = await ada.openLive("/channels/new");
    await page.locator("[name=name]").fill("Herons");
    const posts = [];
    page.on("request", (it) => { if (it.method() === "POST") posts.push(it.url()); });
    await page.context().clearCookies();
    // As a browser sends it without scripts.
    await page.evaluate(() => document.querySelector("#new-channel").submit());
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    assert.equal(posts.length, 1);
    const home = await ada.context.newPage();
    await home.goto(await site.loginLink(person));
    await home.locator("main button[type=submit]").click();
    await page.locator(".menu-person summary", { hasText: person }).waitFor();
    assert.equal(posts.length, 1, "nothing is posted unasked");
    assert.deepEqual((await site.get("/api/channels")).items, []);
    await home.close();
    await page.close();
  }
});
