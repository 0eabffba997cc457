// Stands in for the provider behind the real package: node loads this first. What would go to ChatGPT
// is asked of the stand-in of a model (tests/support/model.rs), and its answer is told in the words
// of ChatGPT. Nothing else can be reached.
import { appendFileSync, readFileSync } from "node:fs";

const read = (name) => readFileSync(new URL(name, import.meta.url), "utf8").trim();
const base64 = (it) => Buffer.from(JSON.stringify(it)).toString("base64url");
const claims = { "https://api.openai.com/auth": { chatgpt_account_id: "account" } };
const access = `${base64({ alg: "none" })}.${base64(claims)}.x`;
const web = globalThis.fetch;

globalThis.fetch = async (target, options = {}) => {
  const url = String(target?.url ?? target);
  if (url === "https://auth.openai.com/oauth/token") return token(new URLSearchParams(options.body));
  if (url === "https://chatgpt.com/backend-api/codex/responses") return answer(options);
  appendFileSync(new URL("others", import.meta.url), `${url}\n`);
  throw new Error(`nothing else is reached from here: ${url}`);
};

/** A code or a refresh token `old` makes a token that has ended already; `revoked` makes none. */
function token(form) {
  appendFileSync(new URL("tokens", import.meta.url), `${form.get("grant_type")}\n`);
  const given = form.get("code") ?? form.get("refresh_token");
  if (given === "revoked") return Response.json({ error: "invalid_grant" }, { status: 400 });
  const expires_in = given === "old" ? 0 : 3600;
  const refresh_token = given === "gone" ? "revoked" : "again";
  return Response.json({ access_token: access, refresh_token, expires_in: given === "gone" ? 0 : expires_in });
}

/** Returns what was said, as the stand-in knows it: parts of one step are one message. */
function messages(input) {
  const all = [];
  for (const it of input) {
    const [role, part] = said(it);
    if (part.length === 0) continue;
    const last = all.at(-1);
    if (last?.role === role && role === "assistant") last.content.push(...part);
    else all.push({ role, content: part });
  }
  return all;
}

function said(it) {
  const texts = (it.content ?? []).filter((part) => part.text).map(({ text }) => ({ type: "text", text }));
  if (it.role === "user") return ["user", texts];
  if (it.type === "message") return ["assistant", texts];
  if (it.type === "function_call") {
    const input = JSON.parse(it.arguments);
    return ["assistant", [{ type: "tool_use", id: it.call_id, name: it.name, input }]];
  }
  if (it.type === "function_call_output") {
    return ["user", [{ type: "tool_result", tool_use_id: it.call_id, content: it.output }]];
  }
  return ["assistant", []];
}

async function answer({ body, headers, signal }) {
  const { instructions, input, model, tools } = JSON.parse(body);
  const sent = new Headers(headers);
  if (sent.get("authorization") !== `Bearer ${access}` || sent.get("chatgpt-account-id") !== "account") {
    return Response.json({ error: { message: "not this account" } }, { status: 401 });
  }
  const asked = await web(`http://${read("address")}/v1/messages`, {
    method: "POST",
    signal,
    headers: { "content-type": "application/json", "x-api-key": read("key") },
    body: JSON.stringify({ model, system: [{ type: "text", text: instructions }], messages: messages(input), tools }),
  });
  if (asked.status !== 200) return asked;
  return new Response(ReadableStream.from(told(asked.body)), { headers: { "content-type": "text/event-stream" } });
}

async function* told(body) {
  const frame = (it) => new TextEncoder().encode(`data: ${JSON.stringify(it)}\n\n`);
  let usage = {};
  let open = null;
  const close = function* () {
    if (open) yield frame({ type: "response.output_item.done", item: open });
    open = null;
  };
  for await (const event of frames(body)) {
    const id = `item_${event.index}`;
    if (event.type === "message_start") {
      usage = event.message.usage;
    } else if (event.type === "content_block_start") {
      yield* close();
      const { type, id: call_id, name } = event.content_block;
      if (type === "thinking") continue;
      const text = { type: "output_text", text: "", annotations: [] };
      open = type === "tool_use"
        ? { type: "function_call", id, call_id, name, arguments: "" }
        : { type: "message", id, role: "assistant", content: [text] };
      yield frame({ type: "response.output_item.added", item: { ...open, content: [] } });
      if (type === "text") yield frame({ type: "response.content_part.added", part: text });
    } else if (event.type === "content_block_delta" && event.delta.type === "text_delta") {
      open.content[0].text += event.delta.text;
      yield frame({ type: "response.output_text.delta", delta: event.delta.text });
    } else if (event.type === "content_block_delta" && event.delta.type === "input_json_delta") {
      open.arguments += event.delta.partial_json;
      yield frame({ type: "response.function_call_arguments.delta", delta: event.delta.partial_json });
    } else if (event.type === "message_delta") {
      yield* close();
      const { input_tokens } = usage;
      const { output_tokens } = event.usage;
      const status = event.delta.stop_reason === "max_tokens" ? "incomplete" : "completed";
      const counted = { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens };
      yield frame({ type: "response.completed", response: { id: "r", status, usage: counted } });
    } else if (event.type === "error") {
      yield frame({ type: "error", code: event.error.type, message: event.error.message });
    }
  }
}

async function* frames(body) {
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true });
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      yield JSON.parse(/^data: (.*)$/m.exec(text.slice(0, end))[1]);
    }
  }
}
