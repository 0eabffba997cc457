// What wiki-browser does with the installed Claude Code, from end to end: members of a channel,
// instances of inboxes, approvals, and the assistant. docs/engines.md says what each line is for.

import { spawnSync } from "node:child_process";

import { Site, until, WORKSHOPS } from "./site.mjs";
import { workshop } from "./workshop.mjs";

/** Writes steps for the scripted model. */
const steps = (...all) => `check-steps<${JSON.stringify(all)}>`;
const say = (text) => ({ say: text });
const run = (command) => ({ run: command });

/** Runs it all on a site that is made, and removed, here. */
export async function endToEnd({ report, program, claude, top, model }) {
  const site = new Site({ program, claude, top, model });
  try {
    const trouble = await site.serve();
    if (!report.fact("a server starts with the engines of the documentation", !trouble, trouble)) return;
    await stream(report, site);
    await terminal(report, site);
    await together(report, site);
    await handover(report, site);
    for (const { engine, agents } of WORKSHOPS) {
      if (engine === "terminal" && spawnSync("tmux", ["-V"]).error) continue;
      await workshop(report, site, model, agents);
    }
    await inboxes(report, site);
    await approvals(report, site);
    await assistant(report, site, model);
  } finally {
    await site.close();
  }
}

async function create(report, site, name, agent) {
  const made = await site.run("channel", "create", name, "--with", agent, "--message", steps(say("Dry, but for the sump.")));
  report.fact(`${agent}: a person opens a channel with it`, made.code === 0, made);
  return made.out.trim();
}

/** A person posts, and each answer stands there once, in the order of the posts. */
async function talk(report, site, channel, agent) {
  const first = await site.spoken(channel, agent, "Dry, but for the sump.");
  report.fact(`${agent}: its answer stands in the channel`, first, await state(site, channel, agent));
  const wanted = ["Dry, but for the sump."];
  for (const text of ["Eleven metres.", "[no-reply]", "In **March**."]) {
    await site.run("msg", "send", channel, `How deep is it? ${steps(run("sleep 0.2"), say(text))}`);
    if (text === "[no-reply]") continue;
    wanted.push(text);
    await site.spoken(channel, agent, text);
  }
  await site.run("msg", "send", channel, steps(run("printf 'A plan' | wb-agent channel post"), say("Posted.")));
  await site.spoken(channel, agent, "Posted.");
  const said = (await site.room(channel)).filter((it) => it[0] === agent).map((it) => it[1]);
  return { wanted, said };
}

async function stream(report, site) {
  const channel = await create(report, site, "in-a-stream", "robbo");
  const { wanted, said } = await talk(report, site, channel, "robbo");
  const all = [...wanted, "A plan", "Posted."];
  report.fact("robbo: a tool runs, [no-reply] is silent, a post by verb comes first", same(said, all), said);
  await site.run("msg", "send", channel, steps(run("sleep 3"), say("After the kill.")));
  await until(async () => (await site.agents()).find((it) => it.name === "robbo")?.state === "busy");
  await site.kill();
  const trouble = await site.serve();
  report.fact("a server that was killed in the middle of a turn starts again", !trouble, trouble);
  await site.spoken(channel, "robbo", "After the kill.");
  await site.run("msg", "send", channel, steps(say("And on.")));
  await site.spoken(channel, "robbo", "And on.");
  const after = (await site.room(channel)).filter((it) => it[0] === "robbo").map((it) => it[1]).slice(all.length);
  report.fact("robbo: its answer is there once, and it goes on", same(after, ["After the kill.", "And on."]), after);
  const shown = await site.json("channel", "show", channel);
  report.fact("robbo: tokens and cost are counted", shown?.spent.tokens > 0 && shown.spent.cost_usd > 0, shown?.spent);
}

async function terminal(report, site) {
  if (spawnSync("tmux", ["-V"]).error) return report.skip("an agent in a terminal", "tmux is not installed");
  const channel = await create(report, site, "in-a-terminal", "paula");
  const { wanted, said } = await talk(report, site, channel, "paula");
  // No post by verb: it would precede the look at the transcript.
  report.fact("paula: a tool runs, [no-reply] is silent, a post by verb is refused", same(said, [...wanted, "Posted."]), said);
  const turns = (await site.json("agent", "turns", "paula"))?.items ?? [];
  report.fact("paula: no turn is held or mixed", turns.length > 0 && turns.every((it) => it.state !== "running" && !it.held), turns);
  await site.run("msg", "send", channel, `${"A long line. ".repeat(120)}${steps(say("Long, and read."))}`);
  report.fact("paula: a long message is pasted whole", await site.spoken(channel, "paula", "Long, and read."), await state(site, channel, "paula"));
}

/** Both in one room: each answers what wakes it, once, and the messages have one order. */
async function together(report, site) {
  if (spawnSync("tmux", ["-V"]).error) return;
  await site.run("channel", "complete", "#in-a-terminal");
  const added = await site.run("channel", "add", "#in-a-stream", "--agent", "paula");
  await site.run("msg", "send", "#in-a-stream", steps(run("sleep 0.2"), say("Both of us.")));
  const isBoth = await until(async () => (await site.room("#in-a-stream")).filter((it) => it[1] === "Both of us.").length === 2);
  report.fact("both in one room: each answers once", isBoth, { added, room: (await site.room("#in-a-stream")).slice(-5) });
  const page = await site.json("msg", "history", "#in-a-stream", "--limit", "200");
  const numbers = page?.items.map((it) => it.sequence) ?? [];
  report.fact("its messages have one order without a gap", numbers.every((it, at) => it === at + 1), numbers);
}

/** Its successor reads what it wrote, and has its seat. */
async function handover(report, site) {
  const write = "printf '## Current work\\n\\nThe well.\\n' | wb-agent handoff write --summary the-well";
  const asked = await site.run("agent", "handover", "robbo", "--note", steps(run(write), say("Written.")));
  const isSeated = await until(async () => (await site.json("channel", "show", "#in-a-stream"))?.members.some((it) => it.agent === "robbo-2"));
  if (!report.fact("robbo: hands over to a successor, which has the seat", isSeated, { asked, agents: await site.agents() })) return;
  await site.run("msg", "send", "#in-a-stream", `@robbo ${steps(say("I am the second."))}`);
  const is = await site.spoken("#in-a-stream", "robbo", "I am the second.");
  report.fact("robbo: the successor answers under its name", is, (await site.room("#in-a-stream")).slice(-5));
}

const same = (left, right) => JSON.stringify(left) === JSON.stringify(right);

/** Returns what helps to see why an agent does not answer. */
async function state(site, channel, agent) {
  const { state: is, reason, problem } = (await site.agents()).find((it) => it.name === agent) ?? {};
  const { out } = await site.run("agent", "peek", agent);
  return { is, reason, problem, room: (await site.room(channel)).slice(-4), screen: out.slice(-1_500) };
}

async function inboxes(report, site) {
  const complete = (text) => run(`wb-agent complete --reply '"${text}"'`);
  const payload = JSON.stringify(steps(complete("The pump is fine."), say("Done.")));
  const once = await site.run("send", "topic:check/once", "--payload", payload, "--wait");
  report.fact("an instance completes, and its sender gets the reply", once.code === 0 && once.out.includes("The pump is fine."), once);
  const first = JSON.stringify(steps(say("What shall I look at?")));
  const sent = await site.json("send", "topic:check/talk", "--payload", first);
  const job = await until(async () => (await site.json("instances", "check/talk"))?.items.find((it) => it.status === "running"));
  if (!report.fact("an instance with several turns runs", sent && job, { sent, job })) return;
  const second = JSON.stringify(steps(complete("The second turn."), say("Done.")));
  const more = await site.run("send", job.address, "--payload", second);
  const told = await site.run("mail", "wait", sent.message_id, "--timeout", "60s");
  report.fact("its second turn completes it", told.code === 0 && told.out.includes("The second turn."), { more, told });
}

async function approvals(report, site) {
  const parked = async (inbox, sort, ...all) => {
    const sent = await site.json("send", `topic:check/${inbox}`, "--payload", JSON.stringify(steps(...all)));
    const request = await site.asked(sort);
    const isParked = await until(async () => (await site.json("instances", `check/${inbox}`))?.items.some((it) => it.status === "parked"));
    report.fact(`an instance asks (${sort}), and is parked without a process`, request && isParked, { sent, request });
    const decided = request && (await site.run("approval", "approve", request.id, "--note", "Go on"));
    const told = sent && (await site.run("mail", "wait", sent.message_id, "--timeout", "60s"));
    report.fact(`the decision (${sort}) resumes its session, and it completes`, told?.code === 0 && told.out.includes("Resumed."), { decided, told });
  };
  const end = [run(`wb-agent complete --reply '"Resumed."'`), say("Done.")];
  const ask = "wb-agent approval create --channel check --title 'Create it?' --and-exit";
  await parked("once", "request", run(ask), say("I wait."), ...end);
  await parked("asks", "permission", run("mkdir made-by-check"), run("mkdir made-by-check"), ...end);
}

async function assistant(report, site, model) {
  const call = { call: "mcp__wb__read_source", with: { path: "guide.md" } };
  const asked = await site.run("ask", `When is the valve shut? ${steps(call, say("In March, says the guide."))}`);
  report.fact("the assistant answers in the mode claude_code", asked.code === 0 && asked.out.includes("In March, says the guide."), asked);
  const results = JSON.stringify(model.bodies.at(-1).messages);
  report.fact("its one tool call was executed by the server", results.includes("The valve is shut in March."), results.slice(-600));
  const names = model.bodies.at(-1).tools.map((it) => it.name);
  report.fact("it has no tools but ours", names.every((it) => it.startsWith("mcp__wb__") || it === "DeferredToolPlaceholder"), names);
}
