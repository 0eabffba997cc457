// A site on which everything that others may write attacks: documents, names, Topics, output, commits.

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { Site, until } from "./site.mjs";
import { blocks, controls, inPath, lines, packed, paragraphs } from "./corpus.mjs";

/** A picture of one point. */
const POINT = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==", "base64");
const DRAWING = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" height="9" onload="alert(1)">
<script>alert(1)</script><script href="//evil.test/x.js"/><style>@import "//evil.test/a.css";</style>
<image href="//evil.test/i.png"/><foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="//evil.test"/></foreignObject>
<a xlink:href="javascript:alert(1)"><rect width="9" height="9"/></a></svg>`;

/** The marks of some texts. */
export const marksOf = (...tables) => tables.flatMap((it) => [...it.keys()]);

// Packs: as much as the field takes. A path is cut into folders and a name.
export const titles = packed(lines, 380);
export const paths = packed(lines, 900, { between: "/", of: inPath });
export const summaries = packed(lines, 3_900);
export const pathOf = (at) => `hostile/${paths[at].text}.md`;
/** The names that a document had: as much as a history shows of each. */
export const renames = packed(lines, 270, { between: "/", of: inPath });
/** The names of images: one for each attack. */
export const images = [...lines].map(([mark, text]) => [mark, `img/${inPath(text)}.png`]);
/** Names of channels, and their goals: as much as each takes. */
export const rooms = packed(lines, 120);
export const goals = packed(lines, 900);
/** Names of people and tokens: one for each attack. */
export const names = [...lines];

const encoded = (name) => name.split("/").map((it) => encodeURIComponent(it).replace(/[()'!*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)).join("/");
const GALLERY = images.map(([mark, name]) => `${mark} ![${mark}](/${encoded(name)} "${mark}")`).join("\n\n");
const ALL = `# zqheadingqz <script>alert(1)</script>\n\nWords to mark.\n\n${paragraphs(lines, blocks)}`;

/** An agent that reads its Topic, its number and its base from the first lines of its prompt. */
const AGENT = `prompt=$(cat); of() { printf '%s\\n' "$prompt" | sed -n "s/^$1=\\([0-9a-f-]*\\)$/\\1/p" | head -n 1; }
job=$(of job); topic=$(of topic); base=$(of base); number=$(of number)
wb_agent=$(printf '%s\\n' "$prompt" | sed -n '1s/^wb_agent=//p')
`;

const kind = (name, engine, fields) => `wb.kind "${name}" {
  about = ${luaText(titles[0].text)}, engine = "${engine}", timeout = "2m", ${fields},
  inputs = {
    topic_id        = wb.input.topic(),
    source_path     = wb.input.source { from = "topic_id" },
    base_source_sha = wb.input.blob { from = "source_path" },
    number          = wb.input.line { about = ${luaText(titles[1].text)}, default = "0" },
    note            = wb.input.text { about = ${luaText(titles[2].text)}, default = ${luaText(titles[3].text)} },
    dataset         = wb.input.choice { choices = { "plain", ${luaText(titles[4].text)} }, default = "plain" },
  },
  prompt = [[
wb_agent={{wb_agent}}
job={{job_id}}
topic={{topic_id}}
base={{base_source_sha}}
number={{number}}
{{source_path}} {{note}}
]],
}
`;

/** Returns a text as one of Lua's. */
export function luaText(text) {
  const bytes = [...Buffer.from(text)].map((it) => (it > 31 && it < 127 && it !== 34 && it !== 92
    ? String.fromCharCode(it) : `\\${String(it).padStart(3, "0")}`));
  return `"${bytes.join("")}"`;
}

const PERSPECTIVE = `wb.kind "view" {
  about = "Shows a document as a persona reads it", engine = "views", timeout = "1m", lane = "source_path",
  produces = "perspective",
  inputs = {
    source_path  = wb.input.source(),
    persona_name = wb.input.persona(),
    source_sha   = wb.input.blob { from = "source_path" },
    persona_sha  = wb.input.hash { from = "persona_name" },
  },
  prompt = "{{wb_agent}} {{source_sha}} {{persona_sha}} {{persona_name}}",
}
`;
const VIEWS = `read -r wb_agent source_sha persona_sha name
"$wb_agent" put-perspective --source-path guide.md --persona "$name" --source-sha "$source_sha" --persona-sha "$persona_sha" < "$OUT/all.md"
`;
const REWRITES = `cat "$OUT/output"; cat "$OUT/output" >&2
"$wb_agent" post-message --topic-id "$topic" < "$OUT/all.md"
"$wb_agent" insert-proposal --topic-id "$topic" --base-sha "$base" --summary "$(cat "$OUT/summary.$((number % 2))")" < "$OUT/all.md"
`;
const EMPTIES = `echo '# Gone' | "$wb_agent" insert-proposal --topic-id "$topic" --base-sha "$base" --summary "$(cat "$OUT/summary.0")"`;
const TALKS = `cat "$OUT/stream"; "$wb_agent" finish --result "$OUT/result.json"`;
/** An agent of a channel: whatever it is told, it answers with every attack. */
const ANSWERS = `while IFS= read -r line; do
id=$(printf '%s' "$line" | sed 's/^{"id":"\\([^"]*\\)".*/\\1/')
printf '{"turn":"ended","id":"%s","text":%s}\\n' "$id" "$(cat "$OUT/answer.json")"
done
`;
const BREAKS = `cat "$OUT/output" >&2; cat "$OUT/paths" | while read -r name; do echo changed >> "$name"; done
git branch 'zqbranchqz<img/src=x/onerror=alert(1)>'; exit 3`;

/** Makes the site; it is not started yet. */
export function hostileSite() {
  const files = {
    "all.md": ALL, "gallery.md": `# Gallery\n\n![zqdrawingqz](drawing.svg) zqdrawingqz\n\n${GALLERY}\n`, "drawing.svg": DRAWING,
    "controls.md": `# Controls\n\n${paragraphs(controls)}`, "history.md": "# History\n",
    "conflict.md": "# Conflict\n\nzqconflictqz\n", "orphan.md": "# Orphan\n\nGone tomorrow zqorphanqz<b>.\n\nThis stays.\n",
    "agents/broken.md": `---\nname: broken\n${lines.get("zqscriptqz")}: x\n---\nx\n`,
  };
  for (const [at, { text }] of titles.entries()) {
    files[`agents/reader-${at}.md`] = `---\nname: reader-${at}\nabout: ${JSON.stringify(text)}\n---\n${ALL}`;
  }
  for (const at of paths.keys()) files[pathOf(at)] = `${at % 2 ? "# Title\n\n" : ""}Words of document ${at}.\n`;
  for (const [, name] of images) files[name] = POINT;
  const site = new Site({ files, site: `name = ${luaText(`zqsiteqz${lines.get("zqtitleqz")}\u202E`)},`, limits: 'jobs = 8, grace = "1s"' });
  commits(site);
  for (const [name, shell] of [["rewrites", REWRITES], ["empties", EMPTIES], ["talks", TALKS], ["breaks", BREAKS], ["waits", 'echo "zqwaitsqz<b>"; sleep 600']]) site.engine(name, AGENT + shell);
  site.lua = site.lua.replace('"talks" {', '"talks" { reads = "claude-stream-json",');
  site.engine("views", VIEWS);
  site.lua += kind("rewrites", "rewrites", 'produces = "proposal", lane = "source_path"')
    + kind("empties", "empties", 'produces = "proposal", lane = "source_path"')
    + kind("waits", "waits", 'lane = "source_path"') + kind("talks", "talks", 'produces = "result"') + kind("breaks", "breaks", 'lane = "topic_id"') + PERSPECTIVE;
  fs.writeFileSync(path.join(site.agents, "answers.sh"), ANSWERS);
  site.lua += `wb.engine "answers" { type = "stream", speaks = "lines", command = { "/bin/sh", "${site.agents}/answers.sh" }, env = { OUT = "${site.out}" } }
wb.agent "robbo" { about = ${luaText(titles[0].text)}, engine = "answers", autostart = "on_message", on_server_loss = "kill" }
`;
  write(site);
  return site;
}

/** What the agents of the site read. */
function write(site) {
  const put = (name, text) => fs.writeFileSync(path.join(site.out, name), text);
  put("all.md", ALL);
  put("output", `${paragraphs(lines, controls)}<scr\0ipt>zqnullqz</scr\0ipt>\n`);
  put("answer.json", JSON.stringify(ALL));
  put("summary.0", summaries[0].text);
  put("summary.1", summaries.at(-1).text);
  put("result.json", JSON.stringify({ text: paragraphs(lines, controls), [lines.get("zqscriptqz")]: "zqresultqz" }));
  put("paths", `${paths.map((_, at) => pathOf(at)).join("\n")}\n`);
  const sharp = ["zqtitleqz", "zqdoublequoteqz", "zqoverrideqz", "zqsvgloadqz"].map((it) => lines.get(it)).join(" ");
  const said = (content) => ({ type: "assistant", session_id: "s", message: { id: "m", model: sharp, content } });
  const text = paragraphs(lines, controls);
  const halves = [text.slice(0, text.length / 2), text.slice(text.length / 2)];
  const stream = [
    { type: "system", subtype: "init", session_id: "s", model: sharp, tools: [sharp] },
    ...halves.map((it) => said([{ type: "text", text: it }])),
    ...packed(lines, 130).map((it, at) => said([{ type: "tool_use", id: `t${at}`, name: it.text.slice(0, 80), input: { command: it.text } }])).slice(0, 40),
    said([{ type: "tool_use", id: "u", name: "Bash", input: { command: halves[0] } }, { type: "tool_use", id: "v", name: "Bash", input: { command: halves[1] } }]),
    ...halves.map((it) => ({ type: "user", session_id: "s", message: { content: [{ type: "tool_result", tool_use_id: "u", is_error: true, content: it }] } })),
    { type: "result", subtype: "success", session_id: "s", is_error: false, result: summaries[0].text, total_cost_usd: 0.01,
      modelUsage: { [sharp]: { inputTokens: 1, outputTokens: 1 } }, usage: { input_tokens: 1, output_tokens: 1 } },
  ];
  put("stream", `${stream.map((it) => JSON.stringify(it)).join("\n")}\n`);
}

/** One commit for each attack: in its subject, its author's name, and what it claims; and a document that had many names. */
function commits(site) {
  const all = [...lines, ...controls];
  let head = "refs/heads/main^0";
  const text = all.map(([, attack], at) => {
    const name = attack.replaceAll(/[<>\n\0]/g, "");
    const message = `${attack}\n\nApproved-by: ${attack}\n`;
    const blob = `# History\n\nVersion ${at}.\n`;
    const from = at === 0 ? `from ${head}\n` : "";
    head = "";
    return `commit refs/heads/main\nauthor ${name} <a@example.org> ${1_700_000_000 + at} +0000\n`
      + `committer Ada <ada@example.org> ${1_700_000_000 + at} +0000\ndata ${Buffer.byteLength(message)}\n${message}\n${from}`
      + `M 100644 inline history.md\ndata ${Buffer.byteLength(blob)}\n${blob}\n`;
  }).join("");
  const stays = "Words that stay while their name changes.\n";
  const renamed = [...renames.map((it) => `old/${it.text}.md`), "renamed.md"].map((name, at, all) => {
    const before = at === 0 ? "" : `D ${all[at - 1]}\n`;
    return `commit refs/heads/main\ncommitter Ada <ada@example.org> ${1_700_001_000 + at} +0000\ndata 2\nR\n`
      + `${before}M 100644 inline ${name}\ndata ${stays.length}\n${stays}\n`;
  }).join("");
  execFileSync("git", ["fast-import", "--quiet", "--force"], { cwd: site.top, input: text + renamed });
  site.git("reset", "-q", "--hard");
}

/** Sends a request with a token of a person. */
async function as(site, token, target, body) {
  const answer = await fetch(site.origin + target, {
    method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(`${target}: ${answer.status} ${JSON.stringify(said)}`);
  return said;
}

/** Makes a person for each attack, who is called so, with a token that is called so. */
async function persons(site) {
  const made = [];
  for (let from = 0; from < names.length; from += 12) {
    made.push(...await Promise.all(names.slice(from, from + 12).map(async ([mark, display_name], at) => {
      const name = `p${from + at}`;
      await site.post("/api/persons", { name, role: "member", display_name });
      const { token } = await site.post("/api/tokens", { name: display_name, person: name, scopes: ["read", "write", "decide"] });
      return { mark, name, token };
    })));
  }
  return made;
}

/** Lets everything happen on a started site; returns the ids of what there is. */
export async function live(site) {
  const people = await persons(site);
  const by = (mark) => people.find((it) => it.mark === mark);
  const ids = { topics: [], paths: [], jobs: [], proposals: [] };
  // Each Topic: as many attacks as a title takes, on the words of the same ones.
  const quotes = packed(new Map([...lines].map(([mark, text]) => [mark, text])), 380, { between: "\n\n" });
  ids.topics = await Promise.all(titles.map(async ({ text }, at) => {
    const selection = { quote: (quotes[at] ?? quotes[0]).text };
    const body = at === 0 ? ALL : `zqbodyqz ${text}`;
    return (await as(site, people[at].token, "/api/topics", { source_path: "all.md", title: text, body, selection })).id;
  }));
  // Everybody says something.
  ids.voices = await site.topic("guide.md", null, "Everybody");
  const said = (it) => as(site, it.token, `/api/topics/${ids.voices}/messages`, { body: `A word of ${it.mark}` });
  for (let from = 0; from < people.length; from += 12) await Promise.all(people.slice(from, from + 12).map(said));
  const mark = lines.get("zqscriptqz");
  ids.suggestion = (await as(site, by("zqhebrewqz").token, "/api/topics", {
    source_path: "all.md", body: `zqsuggestsqz\n\n\`\`\`suggestion\n${paragraphs(lines)}\`\`\`\n`, selection: { quote: "Words to mark." },
  })).id;
  ids.orphan = (await as(site, by("zqhebrewqz").token, "/api/topics", {
    source_path: "orphan.md", title: titles[0].text, body: mark, selection: { quote: "Gone tomorrow zqorphanqz<b>." },
  })).id;
  site.write("orphan.md", "# Orphan\n\nThis stays.\n");
  site.git("add", "orphan.md");
  site.git("commit", "-q", "-m", "An orphan");
  ids.rooms = await channels(site, people);
  await jobs(site, ids, by);
  await until("the search knows it all", async () => (await site.get("/api/search/index")).state === "ready");
  return ids;
}

/** Makes a channel for each name: everybody is in the first, where they and an agent say everything. */
async function channels(site, people) {
  const make = (name, members, at = 0) => site.post("/api/channels", {
    name, members, about: goals[at].text, intent: goals[(at + 1) % goals.length].text,
  });
  const first = await make(rooms[0].text, [{ persona: "robbo" }, ...people.slice(0, 15).map(({ name }) => ({ person: name }))]);
  const route = `/api/channels/${first.slug}`;
  for (const { token, mark } of people.slice(0, 5)) await as(site, token, `${route}/messages`, { body: `A word of ${mark}`, to: first.me });
  await site.post(`${route}/messages`, { body: `${ALL}\n\nDecision: ${lines.get("zqscriptqz")}\n` });
  await until("the agent has answered", async () => (await site.get(route)).spent.turns > 0);
  const rest = [];
  for (const [at, { text }] of rooms.slice(1).entries()) rest.push(await make(text, [], (at + 1) % goals.length));
  return [first, ...rest].map(({ slug }) => slug);
}

async function jobs(site, ids, by) {
  const asker = by("zqhebrewqz").token;
  const start = async (kind, topic_id, number = 0) => (await as(site, asker, "/api/agent/jobs", {
    kind, topic_id, number: String(number), note: paragraphs(lines), dataset: titles[4].text,
  })).job_id;
  ids.paths = await Promise.all(paths.map(async (_, at) => (await as(site, by("zqoverrideqz").token, "/api/topics", {
    source_path: pathOf(at), body: `Of document ${at}`, global: true,
  })).id));
  ids.conflicted = await site.topic("conflict.md", "zqconflictqz", "To be in conflict");
  const begun = await Promise.all([
    ...ids.paths.map((it, at) => start("rewrites", it, at)), start("rewrites", ids.conflicted), start("empties", ids.topics[0]), start("talks", ids.voices),
  ]);
  const ended = [];
  for (const job of begun) ended.push(await site.status(job, "succeeded"));
  ids.rewrites = begun.slice(0, paths.length);
  ids.proposals = ended.slice(0, paths.length).map((it) => it.proposal_id);
  [ids.conflict, ids.emptied] = ended.slice(paths.length).map((it) => it.proposal_id);
  ids.talk = begun.at(-1);
  await as(site, asker, `/api/proposals/${ids.proposals[0]}/reject`, { reason: summaries[0].text });
  await decide(site, ids, asker);
  site.write("conflict.md", `# Conflict\n\n${paragraphs(lines).slice(0, 900)}\n`);
  site.git("add", "conflict.md");
  site.git("commit", "-q", "-m", "In the same lines");
  // Whoever runs as the server does can write there.
  fs.appendFileSync(path.join(site.data, "jobs", ids.talk, "stream.ndjson"), '["x",{"type":"start"}]\n{"type":"text"}\n7\n{"seq":1,"type":{}}\n');
  ids.view = (await site.post("/api/perspectives/request", { source_path: "guide.md", persona: "reader-0" })).job_id;
  await site.status(ids.view, "succeeded");
  ids.broken = await start("breaks", ids.voices);
  await site.status(ids.broken, "failed");
  ids.older = (await site.get("/api/source/history?path=history.md&limit=50")).next;
  ids.running = await start("waits", ids.paths[3]);
  await site.status(ids.running, "running");
  ids.queued = await start("waits", ids.paths[3]);
}

/** A person whose name attacks edits one proposal and approves another. */
async function decide(site, ids, asker) {
  const of = async (id) => (await site.get(`/api/proposals/${id}`)).proposal;
  const { text_digest } = await of(ids.proposals[3]);
  ids.edited = (await as(site, asker, `/api/proposals/${ids.proposals[3]}/edit`, { text: `${ALL}\nzqeditedqz<b>\n`, text_digest })).id;
  const { text_digest: shown, base_source_sha } = await of(ids.proposals[4]);
  const subject = ["zqscriptqz", "zqhebrewqz"].map((it) => lines.get(it)).join(" ");
  await as(site, asker, `/api/proposals/${ids.proposals[4]}/approve`, { text_digest: shown, base_source_sha, subject });
}
