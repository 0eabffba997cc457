// A scripted model on loopback: the part of Anthropic's Messages API that Claude Code uses. What it
// answers stands in the messages themselves, so that conversations do not disturb each other:
//
//   check-run<COMMAND>         a call of Bash, then "The final words."
//   check-steps<[STEP, …]>     one step after the other: {say: TEXT}, {run: COMMAND}, {call: NAME, with: INPUT},
//                              {hand: TEXT}, which reads the handoff that the message names, or writes one
//   check-echo<TEXT>           says TEXT and the same again, so that agents go on by themselves; (at) is a @
//
// A `say` ends a turn; the steps after it are for what the conversation goes on with.

import { randomUUID } from "node:crypto";
import http from "node:http";

const FINAL = "The final words.";

const partsOf = ({ content }) => (typeof content === "string" ? [{ type: "text", text: content }] : content);
const textOf = (message) => partsOf(message).map((it) => it.text ?? "").join("\n");

/** Returns the last steps that a message holds. */
function stepsIn(message) {
  const text = textOf(message);
  const found = [...text.matchAll(/check-steps<(\[.*?\])>|check-echo<([^<>]*)>/gs)].at(-1);
  if (!found) return undefined;
  if (found[2] !== undefined) return [{ say: `${found[2].replaceAll("(at)", "@")} ${found[0]}` }];
  const file = /handoff read (\S+\.md)/.exec(text)?.[1];
  return JSON.parse(found[1]).map((step) => ("hand" in step ? { run: handing(step.hand, file) } : step));
}

/** Returns the command of an agent that hands over, or that follows one. */
function handing(text, file) {
  return file ? `wb-agent handoff read ${file}` : `printf '${text}' | wb-agent handoff write --summary skills`;
}

/** Returns the step that follows what the model has said since it was told its steps. */
function nextStep(messages) {
  const at = messages.findLastIndex((it) => it.role === "user" && stepsIn(it));
  if (at < 0) return undefined;
  const after = messages.slice(at + 1);
  // Claude Code may send each part of an answer as a message of its own.
  const said = after.filter((it, place) => it.role === "assistant" && after[place - 1]?.role !== "assistant").length;
  return stepsIn(messages[at])[said] ?? { say: FINAL };
}

const called = (name, input) => ({ type: "tool_use", id: `toolu_${randomUUID().slice(0, 8)}`, name, input });

function answerTo(body) {
  const messages = body.messages ?? [];
  const has = (name) => body.tools?.some((it) => it.name === name);
  // A request without tools asks for a title or the like.
  const step = body.tools?.length ? nextStep(messages) : undefined;
  if (step?.run) return called("Bash", { command: step.run, description: "A check" });
  if (step?.call) return called(step.call, step.with ?? {});
  if (step) return { type: "text", text: step.say };
  // What was said since the model's last answer: the program adds notes of its own, also behind it.
  const said = messages.slice(messages.findLastIndex((it) => it.role === "assistant") + 1);
  const hasResult = said.flatMap(partsOf).some((it) => it.type === "tool_result");
  const run = /check-run<([^<>]*)>/.exec(said.map(textOf).join("\n"));
  if (run && !hasResult && has("Bash")) return called("Bash", { command: run[1], description: "A check" });
  return { type: "text", text: FINAL };
}

function eventsOf(body, part) {
  const isCall = part.type === "tool_use";
  const message = {
    id: `msg_${randomUUID().slice(0, 8)}`, type: "message", role: "assistant", model: body.model, content: [],
    stop_reason: null, stop_sequence: null, usage: { input_tokens: 10, output_tokens: 1 },
  };
  const start = isCall ? { ...part, input: {} } : { type: "text", text: "" };
  const delta = isCall
    ? { type: "input_json_delta", partial_json: JSON.stringify(part.input) }
    : { type: "text_delta", text: part.text };
  return [
    { type: "message_start", message },
    { type: "content_block_start", index: 0, content_block: start },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: isCall ? "tool_use" : "end_turn", stop_sequence: null }, usage: { output_tokens: 5 } },
    { type: "message_stop" },
  ];
}

/** The scripted model, once it listens. */
export class Model {
  /** How many requests of conversations were answered. */
  asked = 0;
  /** What the conversations were asked, the last one last. */
  bodies = [];

  constructor() {
    this.server = http.createServer((request, response) => {
      const chunks = [];
      request.on("data", (chunk) => chunks.push(chunk));
      request.on("end", () => this.#answer(request, Buffer.concat(chunks).toString(), response));
    });
  }

  listen() {
    return new Promise((resolve) => this.server.listen(0, "127.0.0.1", () => resolve(this)));
  }

  get url() {
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }

  #answer(request, text, response) {
    const json = (status, body) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    if (request.method !== "POST" || !request.url.startsWith("/v1/messages")) return void json(404, {});
    if (request.url.includes("count_tokens")) return void json(200, { input_tokens: 10 });
    const body = JSON.parse(text);
    if (body.tools?.length) {
      this.asked += 1;
      this.bodies.push(body);
    }
    const part = answerTo(body);
    const events = eventsOf(body, part);
    if (!body.stream) {
      return void json(200, { ...events[0].message, content: [part], stop_reason: events[4].delta.stop_reason });
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const it of events) response.write(`event: ${it.type}\ndata: ${JSON.stringify(it)}\n\n`);
    response.end();
  }
}
