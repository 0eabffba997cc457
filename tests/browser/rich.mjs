// A site on which something of everything has happened: for pictures, and for tests of every page.

import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

import { Site, until } from "./site.mjs";

const WELL = `# Cleaning the well

A well that is not cleaned every spring gives water that nobody should drink. This page says who does it,
with which tools, and in which order.

## Before you start

Tell the village two days before, in the morning. Close the sluice and wait until the water has sunk below
the third ring. **Never go down alone**, and never without a lamp that burns.

> A lamp that goes out says that the air is bad. Come up at once.

## The tools

| Tool | How many | Kept in |
|---|---:|---|
| Rope, 30 m | 2 | the tower |
| Lamp | 3 | the tower |
| Brush with a long handle | 2 | the shed |
| Bucket | 4 | the shed |

## The work

1. Let the lamp down and count to one hundred.
2. Let the first person down on two ropes.
3. Brush the walls from the top to the bottom, ring by ring.
4. Take the mud out with buckets; it goes to the gardens.

\`\`\`sh
sluice --close && sleep 7200 && lamp --check
\`\`\`

The mud is heavy when it is wet. Two people carry one bucket between them.

## Afterwards

Open the sluice slowly. The first water is brown and is let away for a day. The second day's water is tasted
by the oldest of the village, who says whether the well is clean. Write the day into the book of the well.
`;

const STATES = `# States

An untouched beginning that stays exactly where it was.

A sentence which is pushed down by new lines above it.

The lamp burns for an hour when the oil is fresh and the wick is dry and clean.

Look at the gauge before you open the gate, and wait until the bell has rung twice in the tower.

## Moving

This whole paragraph about the ferry, its captain and the two bells will go to another section of the page.

## Rewriting

Every keeper writes the height of the water into the book at dawn, at noon and again when the sun goes down.

## Unchanged

The tower stands on the north side of the harbour. It was built of grey stone in two summers, and its stairs
have ninety steps, which are swept on the first day of each month by whoever lost the last game of cards.

Below it lies the pump house with three pumps. The oldest one is kept for the winters in which the two others
freeze, and is started once a month, so that its leather does not dry out and its valves stay loose.

The keepers change at noon. Who leaves writes what was seen, who comes reads it aloud, and both sign the page.

## Going

Nobody remembers why the seventh key was made, or for which of the doors.


## End

The last words.
`;

const STATES_LATER = `# States

An untouched beginning that stays exactly where it was.

Several new lines have come to stand here.

They push what follows down.

A sentence which is pushed down by new lines above it.

The lamp burns for two hours when the oil is fresh and the wick is quite dry and clean.

## Moving

## Rewriting

A float measures now. Nobody writes it into the book, and at noon there is nothing for a keeper to do.

## Unchanged

The tower stands on the north side of the harbour. It was built of grey stone in two summers, and its stairs
have ninety steps, which are swept on the first day of each month by whoever lost the last game of cards.

Below it lies the pump house with three pumps. The oldest one is kept for the winters in which the two others
freeze, and is started once a month, so that its leather does not dry out and its valves stay loose.

The keepers change at noon. Who leaves writes what was seen, who comes reads it aloud, and both sign the page.

## Going

## End

This whole paragraph about the ferry, its captain and the two bells will go to another section of the page.

## North

Look at the gauge before you open the gate, and wait until the bell has rung twice in the tower.

## South

Look at the gauge before you open the gate, and wait until the bell has rung twice in the tower.

The last words.
`;

const SPOTS = {
  exact: "untouched beginning",
  shifted: "pushed down by new lines",
  edited: "burns for an hour when the oil is fresh and the wick is dry",
  moved: "whole paragraph about the ferry, its captain and the two bells",
  rewritten: "Every keeper writes the height of the water into the book at dawn, at noon",
  ambiguous: "gauge before you open the gate, and wait until the bell",
  orphaned: "why the seventh key was made",
};

const VIEWS = `eval "$(cat)"
{ echo "# As $persona reads it"; echo; echo "First the point: **clean it every spring.**"; echo; sed -n '3,5p' "$root/$path"; } |
"$wb_agent" put-perspective --source-path "$path" --persona "$persona" --source-sha "$source_sha" --persona-sha "$persona_sha"
`;

const PERSPECTIVE = readFileSync(new URL("../data/perspective.lua", import.meta.url), "utf8");

const OPENS = `case "$(cat "$MESSAGE_PATH")" in
*quick*) wb-agent send person:ada 'The team *quick* has its account.'; wb-agent complete --reply '{"account": "1234"}' ;;
*) while :; do wb-agent inbox --wait 50s > /dev/null || exit 1; done ;;
esac
`;

const INBOXES = `wb.inbox "accounts/open" {
  about = "Open an account for a team", engine = "opens", timeout = "45m", on_server_loss = "kill",
  workspace = "worktree", repo = ".", schema = "schemas/open.json", sends = { "person:*" },
}
wb.engine "keeps" { type = "stream", command = { "/bin/cat" }, speaks = "lines" }
wb.agent "keeper" { about = "Keeps the book of the well", engine = "keeps" }
`;

const OPEN = {
  type: "object", required: ["team"],
  properties: {
    team: { type: "string", description: "Its short name" }, budget: { type: "integer", maximum: 500, description: "Euro a month" },
    size: { enum: ["small", "large"] }, note: { type: "string", maxLength: 400 }, regions: { type: "array" },
  },
};

/** What stands in for Claude Code: it answers, or asks before it deletes a file. */
const ASSISTANT = String.raw`last=$(tail -n 1)
event() { printf '{"type":"stream_event","event":%s}\n' "$1"; }
say() { event '{"type":"content_block_delta","delta":{"type":"text_delta","text":"'"$1"'"}}'; }
printf '{"type":"system","subtype":"init","session_id":"s","tools":[]}\n'
event '{"type":"message_start","message":{"id":"m1"}}'
case $last in
  *fails*) printf '{"type":"result","is_error":true,"result":"API Error: 529 Overloaded"}\n'; exit 1 ;;
esac
say '## What you need\n\nFrom [the tower](/d/guide/cleaning-the-well.md) and the shed:\n\n| Tool | Kept in |\n|---|---|\n| Rope, 30 m | the tower |\n\n'
say '~~~sh\nsluice --close && lamp --check\n~~~\n\n- **Two** people\n- a quiet day\n\n> Never alone.'
event '{"type":"message_stop"}'
printf '{"type":"result","is_error":false,"result":"x","session_id":"s","total_cost_usd":0.03'
printf ',"usage":{"input_tokens":9000,"output_tokens":120}}\n'
`;

const PERSONA = (name, about) => `---\nname: ${name}\nabout: ${about}\n---\nYou read on a phone, standing up.\n`;

/** Makes the site; `call` starts it and lets everything happen. Returns the ids of what there is. */
export function richSite(extra = {}) {
  const files = {
    "guide/cleaning-the-well.md": WELL, "states.md": STATES,
    "guide/levelling.md": "# Levelling\n\nThe level stands on firm ground.\n",
    "stations/north.md": "# North station\n\nThree pumps, one of which is new.\n",
    "stations/a name with spaces & Ünïcode.md": "# Strange names\n\nThey work as well.\n",
    "agents/plain-reader.md": PERSONA("plain-reader", "A careful reader without the trade's words"),
    "agents/safety.md": PERSONA("safety", "Looks for what could hurt somebody"),
    "schemas/open.json": JSON.stringify(OPEN),
    ...extra,
  };
  const site = new Site({ files, site: 'name = "Handbook",' });
  site.topicKind("incorporate", `sed 's/^The mud is heavy.*/The mud is heavy when it is wet: two people carry one bucket between them, and change hands at each ring./; s/the third ring/the fourth ring/; s/Count to one hundred/Count to two hundred/' "$root/$path" | propose --summary 'Says how two people carry a bucket'`);
  site.topicKind("breaks", "echo 'looking at the document…' >&2; printf '\\033[31merror:\\033[0m the model did not answer\\n' >&2; exit 3");
  site.topicKind("slow", "echo 'reading the document' >&2; echo ready > \"$OUT/slow.$job\"; i=0; while [ $i -lt 600 ]; do echo \"step $i\" >&2; i=$((i+1)); sleep 1; done");
  site.engine("views", VIEWS);
  site.lua += PERSPECTIVE;
  site.engine("opens", OPENS);
  site.lua += INBOXES;
  const file = path.join(site.agents, "assistant.sh");
  writeFileSync(file, ASSISTANT);
  site.lua += `wb.engine "claude-chat" {
  type = "process", command = { "/bin/sh", "${file}" }, prompt = "stdin",
  reads = "claude-stream-json", env = { ANTHROPIC_API_KEY = "k" },
}
wb.assistant { runtimes = { claude_code = "claude-chat" }, claude_code_persons = { "ada" } }
`;
  return site;
}

/** Lets everything happen on a started site. */
export async function live(site) {
  const well = "guide/cleaning-the-well.md";
  const ids = { states: {}, proposals: {}, jobs: {} };
  for (const [state, quote] of Object.entries(SPOTS)) {
    ids.states[state] = await site.topic("states.md", quote, `A remark that should end up ${state}.`);
  }
  site.write("states.md", STATES_LATER);
  site.commit("Measure heights by a float");
  const body = "Two people should change hands.\n\n```suggestion\nThe mud is heavy when it is wet: two people carry one bucket between them, and change hands at each ring.\n```\n\nOr is there a *better* way? See [levelling](levelling.md).";
  const mud = "The mud is heavy when it is wet.";
  ids.topic = await site.topic(well, mud, body);
  await site.post(`/api/topics/${ids.topic}/messages`, { body: "It would also help those who are new. I would mention the rings." });
  ids.other = await site.topic(well, "wait until the water has sunk below", "How long does that take in a dry year?");
  await site.topic(well, null, "Who owns this page now that Ilse has left?");
  await site.topic("guide/levelling.md", "firm ground", "What is firm?");
  for (const [status, verb] of [["rejected", "reject"], ["approved", "approve"]]) {
    const topic = await site.topic(well, status === "approved" ? "Bucket" : "Lamp", `A change that will be ${status}`);
    const id = await site.proposal("incorporate", topic);
    const { proposal } = await site.get(`/api/proposals/${id}`);
    const approval = { text_digest: proposal.text_digest, base_source_sha: proposal.base_source_sha };
    if (status === "rejected") await site.post(`/api/proposals/${id}/${verb}`, { reason: "The sentence about the rings is wrong." });
    else ids.approval = approval;
    ids.proposals[status] = id;
  }
  ids.proposals.superseded = await site.proposal("incorporate", ids.topic);
  const again = await site.post(`/api/proposals/${ids.proposals.superseded}/rework`, { reason: "Please keep the third ring." });
  await site.status(again.job_id);
  ids.proposals.open = (await site.get(`/api/proposals?status=open&topic_id=${ids.topic}`)).items[0].id;
  await site.post(`/api/proposals/${ids.proposals.approved}/approve`, ids.approval);
  ids.jobs.failed = await site.job("breaks", { topic_id: ids.other });
  await site.status(ids.jobs.failed, "failed");
  ids.view = (await site.post("/api/perspectives/request", { source_path: well, persona: "plain-reader" })).job_id;
  await site.status(ids.view);
  ids.jobs.running = await site.job("slow", { topic_id: ids.other });
  await site.status(ids.jobs.running, "running");
  ids.jobs.queued = await site.job("incorporate", { topic_id: ids.topic, replace_proposals: false }).catch(() => null);
  const question = {
    channel: "aws", title: "Create account billing-prod?",
    payload: { team: "billing", budget: 300, dry_run: false },
    schema: { properties: { team: { enum: ["billing", "search"] }, budget: { type: "integer", maximum: 500, description: "Euro a month" } } },
  };
  ids.approvals = { pending: (await site.post("/api/approvals", question)).id };
  const plan = { channel: "dns", title: "Move the zone example.org to the new servers?", payload: { zone: "example.org", steps: ["lower the TTL", "move", "check"] }, expires: "7d" };
  ids.approvals.amended = (await site.post("/api/approvals", plan)).id;
  const changes = { ...plan.payload, steps: ["lower the TTL", "wait a day", "move", "check"] };
  await site.post(`/api/approvals/${ids.approvals.amended}/approve`, { version: 1, changes, note: "Not before the weekend." });
  ids.approvals.json = (await site.post("/api/approvals", plan)).id;
  const write = (payload) => site.post("/api/messages", { to: "topic:accounts/open", payload });
  const quick = await write({ team: "quick" });
  await site.status(quick.job_id);
  ids.letter = (await site.get("/api/messages?to=me")).items.find((it) => it.sort === "message").id;
  ids.jobs.instance = (await write({ team: "billing", budget: 300 })).job_id;
  await until("an instance works", async () => (await site.get(`/api/instances/${ids.jobs.instance}`)).phase === "run");
  await write({ team: "search" });
  const texts = {
    "agents.md": "I keep the well of the village. Answer in short sentences.",
    "agent/memory.md": "The rope in the tower was renewed in May.",
    "agent/actions/Tools.md": "---\nabout: What is needed today\nrequires_confirmation: true\n---\nList the tools for {{date}}.",
    "agent/actions/Yesterday.md": "What happened on {{date}}?",
  };
  for (const [name, text] of Object.entries(texts)) {
    await site.post("/api/agent/vault/text", { path: name, text, digest: "none" });
  }
  ids.chats = {
    answered: (await site.post("/api/agent/chat", { message: "Which tools do I need?" })).session_id,
    failed: (await site.post("/api/agent/chat", { message: "What if it fails?" })).session_id,
  };
  await until("the search knows it all", async () => (await site.get("/api/search/index")).state === "ready");
  ids.placed = Object.fromEntries((await site.get("/api/topics?source_path=states.md&limit=50")).items
    .map((it) => [it.title.split(" ").at(-1).replace(".", ""), it.placement?.state]));
  return ids;
}

/** Returns the addresses of all pages worth a look: name → path. */
export function pages(ids) {
  return {
    home: "/", documents: "/d", document: "/d/guide/cleaning-the-well.md", states: "/d/states.md",
    history: "/d/guide/cleaning-the-well.md?history", view: "/d/guide/cleaning-the-well.md?view=plain-reader",
    lines: "/d/guide/cleaning-the-well.md?text=1", unmade: "/d/guide/cleaning-the-well.md?view=safety",
    topics: "/topics", topic: `/topics/${ids.topic}`, orphan: `/topics/${ids.states.orphaned}`,
    proposals: "/decisions", proposal: `/proposals/${ids.proposals.open}`,
    approved: `/proposals/${ids.proposals.approved}`, rejected: `/proposals/${ids.proposals.rejected}`,
    superseded: `/proposals/${ids.proposals.superseded}`, edit: `/proposals/${ids.proposals.open}/edit`,
    carry: `/proposals/${ids.proposals.superseded}/edit`,
    approval: `/approvals/${ids.approvals.pending}`, amended: `/approvals/${ids.approvals.amended}`,
    plan: `/approvals/${ids.approvals.json}`, approvals: "/approvals",
    jobs: "/jobs", failed: `/jobs/${ids.jobs.failed}`, running: `/jobs/${ids.jobs.running}`,
    prompt: `/jobs/${ids.jobs.running}/prompt`, search: "/search", found: "/search?query=mud",
    narrowed: "/search?query=mud&kind=topic&status=open", kinds: "/jobs/new", begin: "/jobs/new?kind=incorporate",
    turn: "/jobs/new?kind=perspective", start: `/topics/${ids.topic}`,
    inboxes: "/inboxes", inbox: "/inboxes/accounts/open", instance: `/jobs/${ids.jobs.instance}`,
    mail: "/mail", letter: `/mail/${ids.letter}`, agents: "/agents", agent: "/agents/keeper",
    assistant: "/assistant", answered: `/assistant/${ids.chats.answered}`,
    unanswered: `/assistant/${ids.chats.failed}`, "assistant-settings": "/assistant/settings",
    action: "/assistant/settings/action?path=agent/actions/Tools.md",
    nothing: "/search?query=zeppelin", settings: "/settings", missing: "/no/such/page",
  };
}
