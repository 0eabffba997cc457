// Stands in for the package of the gateway: as much of its interface as the gateway uses, over the
// stand-in of a model's provider (tests/support/model.rs), whose address is in a file beside this.
import { existsSync, readFileSync } from "node:fs";

const address = () => readFileSync(new URL("address", import.meta.url), "utf8").trim();

export function getModel(provider, id) {
  return id === "none" ? undefined : { id, provider, api: "stand-in" };
}

function message(it) {
  if (it.role === "user") return { role: "user", content: it.content };
  if (it.role === "toolResult") {
    const { toolCallId: tool_use_id, isError: is_error, content } = it;
    return { role: "user", content: [{ type: "tool_result", tool_use_id, is_error, content }] };
  }
  const content = it.content.map((part) =>
    part.type === "toolCall"
      ? { type: "tool_use", id: part.id, name: part.name, input: part.arguments }
      : part,
  );
  return { role: "assistant", content };
}

async function* frames(body) {
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true });
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end));
      text = text.slice(end + 2);
      try {
        yield JSON.parse(data[1]);
      } catch {
        // Of what is no JSON nothing is known, as with the real one.
      }
    }
  }
}

const STOPS = { end_turn: "stop", tool_use: "toolUse", max_tokens: "length" };

export async function* streamSimple(model, context, options) {
  const content = [];
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const failed = (errorMessage) => ({ type: "error", error: { errorMessage } });
  if (existsSync(new URL("limited", import.meta.url))) {
    options.onResponse({ status: 429, headers: { "retry-after": "3600" } });
    yield failed("429 the usage limit is reached");
    return;
  }
  let response;
  try {
    response = await fetch(`http://${address()}/v1/messages`, {
      method: "POST",
      signal: options.signal,
      headers: { "content-type": "application/json", "x-api-key": options.apiKey },
      body: JSON.stringify({
        model: model.id,
        stream: true,
        system: [{ type: "text", text: context.systemPrompt }],
        messages: context.messages.map(message),
        tools: context.tools.map(({ name, parameters }) => ({ name, input_schema: parameters })),
      }),
    });
    if (response.status !== 200) {
      const { error } = JSON.parse(await response.text());
      options.onResponse({ status: response.status, headers: Object.fromEntries(response.headers) });
      yield failed(`${response.status} ${error.message}`);
      return;
    }
    let stop = "stop";
    for await (const event of frames(response.body)) {
      if (event.type === "content_block_start") {
        const { type, id, name } = event.content_block;
        if (type === "text") content.push({ type, text: "" });
        if (type === "thinking") content.push({ type, thinking: "" });
        if (type === "tool_use") content.push({ type: "toolCall", id, name, arguments: "" });
      } else if (event.type === "content_block_delta") {
        const last = content.at(-1);
        if (event.delta.type === "text_delta") {
          last.text += event.delta.text;
          yield { type: "text_delta", delta: event.delta.text };
        } else if (event.delta.type === "input_json_delta") {
          last.arguments += event.delta.partial_json;
          yield { type: "toolcall_delta" };
        }
      } else if (event.type === "message_start") {
        usage.input = event.message.usage.input_tokens;
      } else if (event.type === "message_delta") {
        stop = STOPS[event.delta.stop_reason] ?? event.delta.stop_reason;
        usage.output = event.usage.output_tokens;
      } else if (event.type === "error") {
        yield failed(`${event.error.type}: ${event.error.message}`);
        return;
      }
    }
    for (const part of content) {
      if (part.type === "toolCall") part.arguments = JSON.parse(part.arguments);
    }
    yield { type: "done", message: { content, stopReason: stop, usage } };
  } catch (cause) {
    yield failed(`connection: ${cause.message}`);
  }
}
