// What others write is shown and never obeyed: every attack of the corpus in every place where a text
// of others is shown, in whole pages and in the parts that are put in while a page is open.

import assert from "node:assert/strict";
import { test } from "node:test";
import { blocks, controls, lines, paragraphs } from "./corpus.mjs";
import { isLive, serve, until } from "./harness.mjs";
import { goals, hostileSite, live, luaText, marksOf, names, pathOf, paths, rooms, summaries, titles } from "./hostile.mjs";
import { again, assertSafe, assertThere, besieged, said, shown } from "./siege.mjs";

const LINES = marksOf(lines);
const ALL = [...LINES, ...marksOf(blocks)];
const OUTPUT = [...LINES, ...marksOf(controls)];
const encoded = (path) => path.split("/").map(encodeURIComponent).join("/");
const MEMBERS = names.map(([mark]) => mark);

/** Returns all places: `[what, address, { selector: marks }`, and whether it is one of many,
 * which are put in place of each other without leaving the page]. */
function places(ids) {
  const half = (at) => summaries[at % 2 ? summaries.length - 1 : 0].marks;
  const [reader, empty] = [`/d/${encoded(pathOf(0))}`, `/d/${encoded(pathOf(1))}`];
  return [
    ["a document", "/d/all.md", { "#text": ALL, ".note-title": LINES, ".note blockquote": titles.map((it) => it.marks[0]), ".note .facts": titles.map((_, at) => MEMBERS[at]) }],
    ["a document in lines", "/d/all.md?text=1", { "#text": ALL, ".note-title": LINES, ".note .facts": titles.map((_, at) => MEMBERS[at]) }],
    ["control characters", "/d/controls.md", { "#text": marksOf(controls) }],
    ["control characters in lines", "/d/controls.md?text=1", { "#text": marksOf(controls) }],
    ["names of images", "/d/gallery.md", { "#text": ["zqdrawingqz", ...LINES] }],
    ["a document without a title", reader, { ".reader-path": paths[0].marks }],
    ["a document with a title", empty, { ".reader-path": paths[1].marks }],
    ["messages of people", `/topics/${ids.topics[0]}`, { "#t-messages": ALL }],
    ["a suggestion", `/topics/${ids.suggestion}`, { ".th-suggestion": LINES }],
    ["names of people", `/topics/${ids.voices}`, { "#t-messages strong": MEMBERS }],
    ["a job that failed in a thread", `/topics/${ids.voices}`, { ".th-tail": ["zqnullqz", "zqunendedqz"] }],
    ["messages of agents", `/topics/${ids.paths[0]}`, { ".message-agent": ALL, "#t-proposals": half(0).slice(0, 1), ".eyebrow": paths[0].marks }],
    ["fields of a form", `/topics/${ids.voices}`, { ".th-start-about": titles[0].marks, ".th-start textarea": titles[3].marks, ".th-start .field-name": [...titles[1].marks, ...titles[2].marks], "option": titles[4].marks }],
    ["a rejected proposal", `/proposals/${ids.proposals[0]}`, { ".rv-banner-bad": half(0), ".rv-summary": half(0), ".rv-diff": ALL, ".eyebrow": paths[0].marks, ".rv-long": ALL }],
    ["a proposal as it reads", `/proposals/${ids.proposals[1]}?view=rendered`, { ".rv-diff": ALL, ".rv-summary": half(1) }],
    ["a proposal, unified", `/proposals/${ids.proposals[2]}?view=unified`, { ".rv-diff": ALL }],
    ["the text of a proposal", `/proposals/${ids.proposals[1]}/edit`, { "textarea[name=text]": ALL }],
    ["a conflict", `/proposals/${ids.conflict}`, { ".rv-conflict": LINES.slice(0, 3), ".rv-diff": ALL }],
    ["the fate of others", `/proposals/${ids.emptied}`, { "#p-fate .note-title": LINES.filter((it) => !titles[0].marks.includes(it)), "#p-fate blockquote": ["zqjslinkqz"], ".rv-diff": ALL }],
    ["output", `/jobs/${ids.rewrites[0]}?stream=stdout`, { ".tail": [...OUTPUT, "zqnullqz"], ".job-aside": LINES.filter((it) => paragraphs(lines).slice(0, 1_900).includes(it)), "#job-about": paths[0].marks }],
    ["output on standard error", `/jobs/${ids.broken}`, { ".log-box .tail": [...OUTPUT, "zqnullqz"], "#changes": ["zqbranchqz", ...paths.flatMap((it) => it.marks)] }],
    ["the end of standard error", `/jobs/${ids.broken}?stream=stdout`, { "#job-outcome .tail": ["zqnullqz"] }],
    ["what an agent said and did", `/jobs/${ids.talk}`, { ".said": OUTPUT, ".said-line": LINES.slice(0, 1), "#job-usage": ["zqtitleqz"], "#job-outcome .md": half(0).slice(0, 9), "#job-outcome pre": OUTPUT }],
    ["a prompt", `/jobs/${ids.rewrites[0]}/prompt`, { ".log-prompt": [...LINES, ...paths[0].marks] }],
    ["a view", "/d/guide.md?view=reader-0", { "article.md": ALL, ".facts": titles[0].marks }],
    ["commits", "/d/history.md", { ".history": OUTPUT.slice(-4) }],
    ["a history", "/d/history.md?history=1", { ".history": OUTPUT.slice(-45) }],
    ["an older history", `/d/history.md?history=1&after=${encodeURIComponent(ids.older)}`, { ".history": OUTPUT.slice(0, 40) }],
    ["what caused a commit", `/d/${encoded(pathOf(4))}?history=1`, { ".history": ["zqscriptqz", "zqhebrewqz"], ".eyebrow": paths[4].marks }],
    ["an approved proposal", `/proposals/${ids.proposals[4]}`, { ".rv-banner-good": ["zqhebrewqz"], ".rv-diff": ALL }],
    ["an edited proposal", `/proposals/${ids.edited}`, { "#p-head": ["zqhebrewqz"], ".rv-diff": ["zqeditedqz"], "#p-decide": paths[3].marks }],
    ["only what was edited", `/proposals/${ids.edited}?against=${ids.proposals[3]}`, { ".rv-diff": ["zqeditedqz"] }],
    ["a job that runs", `/jobs/${ids.running}`, { "#job": ["zqhebrewqz"], "#job-about": paths[3].marks, ".tail": [] }],
    ["a job that waits", `/jobs/${ids.queued}`, { ".job-sentence": paths[3].marks, "#job-about": paths[3].marks }],
    ["what a Topic waits for", `/topics/${ids.paths[3]}`, { "#holder": [...paths[3].marks, "zqhebrewqz"] }],
    ["what a view waits for", `/d/${encoded(pathOf(3))}?view=reader-1`, { ".reader-path": paths[3].marks, ".facts": titles[1].marks }],
    ["earlier names", "/d/renamed.md?history=1", { ".history": LINES }],
    ["people and tokens", "/settings", { "#people": MEMBERS, "#tokens": MEMBERS, "#kinds": titles[0].marks }],
    ["the first page", "/", { "#home-waiting": [...paths[3].marks, "zqhebrewqz"] }],
    ["the documents", "/d?query=hostile", { main: paths.flatMap((it) => it.marks) }],
    ["the Topics", "/topics?limit=200", { main: [...LINES, ...paths.flatMap((it) => it.marks)] }],
    ["the proposals", "/proposals", { main: [] }],
    ["the board", "/jobs", { "#queued": paths[3].marks, "select[name=requested_by]": ["zqhebrewqz"] }],
    ["the jobs", "/jobs?limit=50", { main: ["zqhebrewqz"] }],
    ["the Topics of a document", `/topics?source_path=${encodeURIComponent(pathOf(2))}`, { main: paths[2].marks }],
    ["the proposals of a document", `/proposals?source_path=${encodeURIComponent(pathOf(2))}`, { main: paths[2].marks }],
    ["a channel", `/channels/${ids.rooms[0]}`, { h1: rooms[0].marks, "#ch-lines": ALL, ".ch-agent": ALL, ".message-head": MEMBERS.slice(0, 5), "#ch-members": MEMBERS.slice(0, 15), "#ch-about": [...goals[0].marks, ...goals[1].marks] }],
    ["the channels", "/channels", { "#channel-list": rooms.flatMap((it) => it.marks) }],
    ["an agent", "/agents/robbo", { ".lead": titles[0].marks, "#seat": rooms[0].marks }],
    ...rooms.slice(1).map(({ marks }, at) => ["a channel", `/channels/${ids.rooms[at + 1]}`, { h1: marks }, at > 0]),
    ...titles.map(({ marks }, at) => ["a Topic", `/topics/${ids.topics[at]}`, { h1: marks, title: marks.slice(0, 1), ".th-context": marks, "#t-messages": ["zqbodyqz"].slice(0, at), ".facts": [MEMBERS[at]] }, at > 0]),
    ...titles.slice(1).map(({ marks }, at) => ["a persona", `/d/guide.md?view=reader-${at + 1}`, { ".facts": marks }, true]),
    ...paths.slice(2).map(({ marks }, at) => ["a path", `/d/${encoded(pathOf(at + 2))}?text=1`, { ".reader-path": marks }, at > 0]),
    ...paths.slice(2).map(({ marks }, at) => ["a path in a history", `/d/${encoded(pathOf(at + 2))}?history=1`, { ".eyebrow": marks }, true]),
  ];
}

async function look(ada, page, [what, address, wanted], isAgain) {
  const where = `${what} (${address.slice(0, 60)}${isAgain ? ", again" : ""})`;
  for (const [selector, marks] of Object.entries(wanted)) await assertThere(page, marks, where, selector);
  await assertSafe(page, where);
  assert.deepEqual(said(ada), [], where);
}

// Some thousand looks at pages; on a machine that has much else to do they take their time.
test("what others write is shown and never obeyed", { timeout: 900_000 }, async (t) => {
  const site = hostileSite();
  t.after(async () => {
    if (process.env.WB_SHOW_LOG) process.stderr.write(site.said());
    await site.close();
  });
  await site.start();
  const ids = await live(site);
  const tried = [];
  const failed = [];
  let partsPut = 0;
  await t.test("in every place, in whole pages and in parts", async () => {
    const ada = await besieged(t, site, { allow: [/status of 404/] });
    const all = places(ids);
    const walk = async () => {
      const page = await ada.stand();
      for (let next = all.shift(); next; next = all.shift()) {
        try {
          if (next[3]) {
            const { wrong } = await shown(page, next[1]);
            assert.deepEqual(wrong, [], `${next[1]}, put in`);
          } else {
            await page.goto(next[1]);
          }
          if (next[2][".tail"] || next[2][".log-box .tail"]) await page.getByRole("button", { name: "Go to end" }).waitFor();
          await look(ada, page, next, false);
          const parts = next[3] ? 0 : await again(page);
          if (parts > 0) await look(ada, page, next, true);
          for (const marks of Object.values(next[2])) tried.push(...marks.map((it) => `${it} ${next[0]}`));
          partsPut += parts;
        } catch (cause) {
          failed.push(cause.message.slice(0, 1_500));
        }
      }
      await page.close();
    };
    await Promise.all([walk(), walk()]);
    assert.deepEqual(failed, []);
    assert.ok(partsPut > 40, `${partsPut} parts were put in anew`);
    t.diagnostic(`${new Set(tried).size} attacks in places`);
  });
  await t.test("in searches, and in what is not there", (it) => searches(it, site));
  await t.test("while the page is used", (it) => used(it, site, ids));
});

/** Every attack as a query, as what was found, and as the address of nothing. */
async function searches(t, site) {
  const ada = await besieged(t, site, { allow: [/status of 4/] });
  const all = [];
  for (const mark of LINES) {
    all.push(["what was found", `/search?query=${mark}&kind=source`, [mark], ".row-quote, .row-title"]);
  }
  for (const { marks, text } of titles) {
    const asked = encodeURIComponent(text);
    all.push(["no document", `/d/${asked.slice(0, 900).replace(/%.?$/, "")}.md`, marks.slice(0, 1), ".message"]);
    all.push(["a query", `/search?query=${asked}`, marks, "input[name=query]"]);
    all.push(["a part of a path", `/d?query=${asked.slice(0, 180)}`, marks.slice(0, 1), "input[name=query]"]);
    all.push(["filters", `/search?query=zq*&path=${asked}`, marks, ".chips"]);
    all.push(["a document of the board", `/jobs?source_path=${asked}`, [], ""]);
    all.push(["a document of a new job", `/jobs/new?source_path=${asked}`, marks, ".facts"]);
  }
  for (const { text } of titles.slice(0, 4)) {
    const asked = encodeURIComponent(text);
    all.push(["an author", `/search?query=zq*&author=${asked}`, [], ""]);
    all.push(["no persona", `/d/guide.md?view=${asked}`, [], ""]);
    all.push(["no state", `/topics?status=${asked}`, [], ""]);
    all.push(["no place", `/search?query=zq*&after=${asked}`, [], ""]);
    all.push(["no field", `/search?${asked}=1`, [], ""]);
    all.push(["no page", `/nothing/${asked}`, [], ""]);
    all.push(["no job", `/jobs/${asked}`, [], ""]);
  }
  const walk = async () => {
    const page = await ada.stand();
    await page.goto("/search?query=zq*");
    await assertSafe(page, "the search");
    for (let next = all.shift(); next; next = all.shift()) {
      const [what, address, marks, selector] = next;
      const { status, text, wrong } = await shown(page, address, selector);
      assert.ok(status < 500, `${what}: ${status}`);
      assert.deepEqual(marks.filter((it) => !text.includes(it)), [], `${what}: ${address}: ${text.slice(0, 300)}`);
      assert.deepEqual(wrong, [], `${what}: ${address}`);
    }
    await page.goto(`/d/${encoded(pathOf(0))}x`);
    await assertSafe(page, "no such document");
    await page.close();
  };
  await Promise.all([walk(), walk()]);
  assert.deepEqual(said(ada), []);
}

/** People work in the midst of it. */
async function used(t, site, ids) {
  const ada = await besieged(t, site, { allow: [/status of 4/] });
  const page = await ada.stand();
  const safe = async (where) => {
    await assertSafe(page, where);
    assert.deepEqual(said(ada), [], where);
  };
  // Images: none of elsewhere, and all of ours.
  await page.goto("/d/gallery.md");
  await page.evaluate(() => document.querySelectorAll("#text img").forEach((it) => { it.loading = "eager"; }));
  await until("all images are there", () => page.evaluate(() =>
    [...document.querySelectorAll("#text img")].every((it) => it.complete && it.naturalWidth > 0)), 15_000);
  assert.equal(await page.locator("#text img").count(), LINES.length + 1);
  await safe("images");
  const drawing = (await page.request.get("/raw/drawing.svg")).headers();
  assert.equal(drawing["content-disposition"], "attachment");
  assert.match(drawing["content-security-policy"], /default-src 'none'.*sandbox/);
  // Words of an attack become a Topic.
  await page.goto("/d/all.md");
  await page.waitForSelector(".reader[data-ready]");
  await page.evaluate(() => {
    const walker = document.createTreeWalker(document.querySelector("#text"), NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.data.includes("zqclobberdocumentqz")) getSelection().selectAllChildren(node.parentElement.closest("[data-b]"));
    }
  });
  await page.locator(".reader-pop [aria-label='Comment on this passage']").click();
  await page.locator(".composer blockquote", { hasText: "zqclobberdocumentqz" }).waitFor();
  await safe("a form with words");
  await page.locator(".composer textarea[name=body]").fill(lines.get("zqimgerrorqz"));
  await page.locator(".composer .button-main").click();
  await page.locator(".note-title", { hasText: "zqimgerrorqz<img" }).waitFor();
  await safe("a new Topic");
  // A Topic whose words are gone.
  await page.goto("/d/orphan.md");
  await page.locator(".note-move").click();
  await page.keyboard.press("Enter");
  await page.locator(".composer h2", { hasText: titles[0].marks[0] }).waitFor();
  await safe("a Topic that is put elsewhere");
  await page.keyboard.press("Escape");
  // Going to something by its name.
  for (const mark of ["zqoverrideqz", "zqhebrewqz", "zqsvgloadqz", "zqpopsqz"]) {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill(mark);
    await page.locator(".palette-row").filter({ hasText: `Search everywhere for “${mark}” ` }).or(page.locator(".palette-snippet", { hasText: mark }).first()).first().waitFor();
    await assertThere(page, [mark], "the palette", ".palette-list");
    await safe(`the palette: ${mark}`);
    await page.keyboard.press("Escape");
  }
  // Output that a script asks for.
  await page.goto(`/jobs/${ids.rewrites[0]}?stream=stdout`);
  await page.getByRole("button", { name: "Go to start" }).click();
  await page.waitForFunction(() => document.querySelector(".tail").scrollTop === 0);
  await page.locator(".tail").getByText("zqscriptqz<script>").first().waitFor();
  await assertThere(page, [...OUTPUT, "zqnullqz"], "output that follows", ".tail");
  await safe("output that follows");
  // What others do while it is open, and what is sent from it.
  await page.goto(`/topics/${ids.voices}`);
  await isLive(page);
  await site.post(`/api/topics/${ids.voices}/messages`, { body: `zqlaterqz\n\n${paragraphs(lines, blocks)}` });
  await page.getByText("zqlaterqz").waitFor();
  await assertThere(page, ALL, "a message that comes", `#message-${names.length + 2}`);
  await safe("a message that comes");
  await page.getByLabel("Your message").fill(`zqtypedqz\n\n${paragraphs(lines)}`);
  await page.getByRole("button", { name: "Reply", exact: true }).click();
  await page.locator("#t-messages").getByText("zqtypedqz").waitFor();
  await safe("a message that was sent");
  // A text that is edited, before it is kept.
  await page.goto(`/proposals/${ids.proposals[1]}/edit`);
  await page.getByLabel("Full text").fill(`zqpreviewqz\n\n${paragraphs(lines, blocks)}`);
  await page.getByRole("button", { name: "Preview changes" }).click();
  await page.locator(".rl-changed, .rl-added").getByText("zqpreviewqz").first().waitFor();
  await assertThere(page, ["zqpreviewqz"], "a preview", ".rv-diff");
  await assertThere(page, ALL, "what is edited", "textarea[name=text]");
  await safe("a preview");
  // A form that is refused gives back what was typed. (Leaving what is edited would ask first.)
  const other = await page.context().newPage();
  await refused(other, ids);
  await assertSafe(other, "what was typed");
  await page.close();
}

async function refused(page, ids) {
  const send = async (action, fields) => {
    await page.goto(`/topics/${ids.voices}`);
    await page.evaluate(([action, fields]) => {
      const form = document.querySelector("form[data-composer]");
      form.removeAttribute("data-inline");
      form.action = action;
      form.replaceChildren(...Object.entries(fields).map(([name, value]) => Object.assign(document.createElement("textarea"), { name, value })));
      form.submit();
    }, [action, fields]);
    await page.locator("main .code").waitFor();
    await assertSafe(page, action);
  };
  await send("/topics/01a20242-2c96-7508-89e3-ec061899bdc9/messages", { key: "a", body: paragraphs(lines) });
  await assertThere(page, LINES, "what was typed", "textarea[readonly]");
  await send("/perspectives", { key: "b", source_path: "guide.md", persona: "broken" });
  await assertThere(page, ["zqscriptqz"], "what is wrong with a persona", ".message");
}

test("what is wrong with a script is shown, and what stands in it is not obeyed", async (t) => {
  const site = await serve(t);
  const script = site.read("wiki-browser.lua");
  const ada = await besieged(t, site);
  const page = await ada.stand();
  for (const [what, lua] of [
    ["names of fields", `wb.kind "x" {\n${[...lines, ...controls].map(([, it]) => `  [${luaText(it)}] = 1,`).join("\n")}\n}`],
    ["an error", `error(${luaText(paragraphs(lines, controls))})`],
    ["a line", `local x = "${lines.get("zqoverrideqz")} ${lines.get("zqscriptqz")}" ]]`],
  ]) {
    site.write("wiki-browser.lua", `${script}\n${lua}\n`);
    const reload = await site.call("POST", "/api/config/reload", {});
    assert.equal(reload.body.ok, false, what);
    for (const address of ["/settings", "/d/guide.md", "/no/such/page"]) {
      await page.goto(address);
      if (address !== "/no/such/page") await page.locator(".trouble").waitFor();
      if (address === "/settings") await assertThere(page, ["zqscriptqz"], what, ".diagnostics");
      await assertSafe(page, `${what}: ${address}`);
    }
    await page.goto("/settings");
    t.diagnostic(`${what}: ${await page.evaluate(() => [...document.querySelector(".diagnostics").textContent.matchAll(/zq\w+?qz/g)].length)} in the report`);
  }
  assert.deepEqual(said(ada).filter((it) => !/status of 404/.test(it)), []);
});

test("the alarm is heard: without escaping and without the policy, attacks are seen", async (t) => {
  const attacks = [lines.get("zqimgerrorqz"), lines.get("zqimgremoteqz"), lines.get("zqoverrideqz"), lines.get("zqclobberidsqz"), lines.get("zqframeqz")];
  // Tags are written anew, so that they reach a page as words alone.
  const words = attacks.join("\n\n").replaceAll("<", "&lt;");
  for (const [without, wanted] of [
    ["escape", [/a report of the policy: script-src/, /a report of the policy: img-src/]],
    ["escape,page_policy", [/a dialog: 1/, /a request to http:\/\/evil\.test\/[ij]\.png/, /a request to data:/]],
  ]) {
    const site = await serve(t, { env: { WB_WITHOUT: without }, files: { "all.md": words } });
    const ada = await besieged(t, site);
    const page = await ada.stand();
    await page.goto("/d/all.md", { waitUntil: "commit" });
    const heard = [];
    for (const one of wanted) {
      await until(`${without}: ${one}: ${heard.join("; ")}`, () => {
        heard.push(...said(ada));
        return heard.some((it) => one.test(it));
      });
    }
    await assert.rejects(assertSafe(page, without), (cause) => {
      for (const part of ["an element: <iframe", "an attribute onerror", "a name twice: text", "it turns"]) {
        assert.ok(cause.message.includes(part), `${part} in ${cause.message}`);
      }
      return true;
    });
    await page.close();
    said(ada);
  }
});
