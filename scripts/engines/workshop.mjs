// A workshop, as people hold one: a person and two agents, a third that comes later, a handover in the
// middle, an argument that ends by itself, and what it came to. A second person follows in a terminal.

import { until } from "./site.mjs";

const QUESTION = "Where should the skills of a persona live?";
const steps = (...all) => `check-steps<${JSON.stringify(all)}>`;
const say = (text) => ({ say: text });
const pause = { run: "sleep 1" };

/** Holds it with three agents of one engine: one that runs, one that does not, and one for later. */
export async function workshop(report, site, model, [robbo, paula, con]) {
  const fact = (number, name, ...seen) => report.fact(`workshop of ${robbo}, ${number}: ${name}`, ...seen);
  const name = `skills-of-${robbo}`;
  const channel = `#${name}`;
  const shown = () => site.json("channel", "show", channel);
  const send = (text, ...what) => site.run("msg", "send", channel, what.length ? `${text} ${steps(...what)}` : text);
  const by = async (who) => (await site.room(channel)).filter((it) => it[0] === who).map((it) => it[1]);
  /** Returns the last thing that an agent's model was asked with these words. */
  const asked = (words) => {
    const messages = model.bodies.flatMap((body) => body.messages).filter((it) => it.role === "user");
    return messages.map((it) => JSON.stringify(it)).findLast((it) => it.includes(words)) ?? "";
  };

  // 1. One command: who runs is seated, who does not is started.
  await site.run("agent", "start", robbo);
  await until(async () => (await site.agents()).find((it) => it.name === robbo)?.state === "idle");
  const made = await site.run("channel", "create", name, "--type", "workshop", "--with", robbo, "--with", paula,
    "--message", `${QUESTION} ${steps(pause, say("Beside the persona, in a folder of its own."))}`);
  if (!fact(1, "one command opens it", made.code === 0, made)) return;
  const chat = site.follow(channel);
  // 2. Who works is seen, and who heard it.
  const works = await until(async () => (await shown())?.members.find((it) => it.works_since));
  fact(2, "who works is seen", works, await shown());
  // 3, 4. Both answer, once, in one order, and wake each other by that not.
  const isBoth = await until(async () => (await by(robbo)).length === 1 && (await by(paula)).length === 1);
  const first = asked(QUESTION);
  fact(3, "the first block has the rules and the message", first.includes("[CHANNEL CONTEXT]") && first.includes(`[${channel}] `), first.slice(0, 500));
  const page = await site.json("msg", "history", channel, "--limit", "200");
  const heard = page.items[0]?.heard.map((it) => it.state);
  fact(4, "both answer once, and heard it with proof", isBoth && heard.every((it) => it === "confirmed"), { heard, room: await site.room(channel) });
  // 5. Who is named works, and has read the other's answer.
  await send(`@${paula} do you agree with ${robbo}?`, say("I do, but for the tests."));
  await site.spoken(channel, paula, "I do, but for the tests.");
  const second = asked("do you agree with");
  const own = await by(robbo);
  fact(5, "who is named answers, and the other is not woken", second.includes(`(agent:${robbo})`) && own.length === 1, { own, second });
  // 6. Somebody comes later, and is told what was said.
  await site.run("channel", "add", channel, con);
  await send(`@${con} and you?`, say("Beside it."));
  await site.spoken(channel, con, "Beside it.");
  const brief = asked("and you?");
  fact(6, "a newcomer is silent, then knows what was said", brief.includes(QUESTION) && (await by(con)).length === 1, brief);
  // 7. One hands over in the middle; the name stays.
  await site.run("agent", "handover", robbo, "--note", steps({ hand: "## Current work\\n\\nSkills.\\n" }, say("Done.")));
  const successor = `${robbo}-2`;
  const isSeated = await until(async () => (await shown())?.members.some((it) => it.agent === successor));
  await send(`@${robbo} and now?`, say("I go on for it."));
  await site.spoken(channel, robbo, "I go on for it.");
  const read = (await site.json("persona", "handoffs", robbo))?.items[0];
  fact(7, "a successor reads, has the seat and the name", isSeated && read?.read_by.includes(successor), { read, agents: await site.agents() });
  // 8. Thanks wake nobody; an argument stops by itself, and a person lets them go on.
  await send(`@${robbo} thank them`, say("Thank you!"));
  await site.spoken(channel, robbo, "Thank you!");
  const again = (at) => `${at}${robbo} ${at}${paula} do you still disagree?`;
  await send(`@${robbo} argue. check-echo<${again("(at)")}>`);
  const paused = await until(async () => (await shown())?.paused);
  const argued = (await site.room(channel)).filter((it) => it[0] !== "operator" && it[1].startsWith(again("@"))).length;
  fact(8, "thanks wake nobody, and an argument stops after eight hops", paused?.reason === "hops" && argued === 8, { paused, argued, room: await site.room(channel) });
  await send(`@${robbo} @${paula} @${con} decide now.`, say("Decision: beside the persona."));
  const decided = async () => (await site.room(channel)).filter((it) => it[1] === "Decision: beside the persona.").length;
  await until(async () => (await decided()) === 3);
  fact(8, "a person's line lets them go on", (await decided()) === 3, await site.room(channel));
  // 9. It ends; its outcomes come first, and its agents are free.
  const said = await site.room(channel);
  await site.run("channel", "complete", channel);
  const { out } = await site.run("channel", "export", made.out.trim());
  const isFirst = out.indexOf("- Decision: beside the persona.");
  const seats = (await site.agents()).filter((it) => it.seat?.channel === made.out.trim());
  fact(9, "its outcomes head the export, and its agents are free", isFirst > 0 && isFirst < out.indexOf("## Conversation") && seats.length === 0, { out: out.slice(0, 400), seats });
  await until(() => chat.code !== undefined);
  const isRead = said.every(([, text]) => chat.out.includes(text.split("\n")[0]));
  fact(9, "who followed it in a terminal has read everything", chat.code === 0 && isRead, { code: chat.code, out: chat.out.slice(-600) });
}
