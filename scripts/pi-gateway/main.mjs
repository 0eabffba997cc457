// Asks models with a person's own subscription, for the assistant of wiki-browser.
//
// The server starts it, reaches it by a Unix socket in its folder, and ends it. It is given prompts
// and schemas of tools, and makes one step of a model; it makes no call of a tool, keeps no
// conversation and knows no path but its folder. Only Pi's layer of models is used.
//
// Invariant: a credential stands in `auth/<person>.json` only, which nobody else writes; it is in no
// answer and no line that is printed.

import { createHash, randomUUID, timingSafeEqual } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";

// Of a sign-in the person pastes the answer; nothing listens for it on this machine. It is read when
// the module is loaded.
process.env.PI_OAUTH_CALLBACK_HOST = "240.0.0.1";
const { getModel, streamSimple } = await import("@earendil-works/pi-ai");
const { getOAuthProvider } = await import("@earendil-works/pi-ai/oauth");

const PROVIDERS = ["openai-codex", "github-copilot"];
const SOCKET = "gateway.sock";
const BODY_BYTES_MAX = 64 * 1024 * 1024;
const LOGIN_MS = 15 * 60_000;
const LOGIN_BEGIN_MS = 20_000;
const LOGINS_MAX = 200;
const TEXT_CHARS_MAX = 8_192;
const MESSAGE_CHARS_MAX = 400;
// A token that ends within this time is made anew before it is used.
const FRESH_MS = 60_000;

const folder = process.env.WB_GATEWAY_DIR;
const secret = process.env.WB_GATEWAY_TOKEN;
delete process.env.WB_GATEWAY_TOKEN;
if (!folder || !secret) {
  console.error("the server starts this program; it is not for a shell");
  process.exit(2);
}
process.chdir(folder);
process.umask(0o077);
mkdirSync("auth", { recursive: true, mode: 0o700 });
chmodSync("auth", 0o700);

class Refusal extends Error {
  constructor(status, kind, message) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

// ---- Credentials --------------------------------------------------------------------------------

const locks = new Map();

/** Does one thing after the other for a person. */
async function alone(person, work) {
  const before = locks.get(person) ?? Promise.resolve();
  const done = before.then(work, work);
  const settled = done.then(
    () => {},
    () => {},
  );
  locks.set(person, settled);
  try {
    return await done;
  } finally {
    if (locks.get(person) === settled) locks.delete(person);
  }
}

function personOf(value) {
  if (typeof value !== "string" || !/^[0-9a-z-]{8,64}$/.test(value)) {
    throw new Refusal(400, "bad_request", "this is no id of a person");
  }
  return value;
}

function providerOf(value) {
  if (PROVIDERS.includes(value)) return value;
  const message = `the gateway signs in to ${PROVIDERS.join(" and ")} only`;
  throw new Refusal(400, "auth_unsupported", message);
}

function readAuth(person) {
  try {
    const all = JSON.parse(readFileSync(`auth/${person}.json`, "utf8"));
    return all !== null && typeof all === "object" ? all : {};
  } catch (cause) {
    if (cause.code === "ENOENT") return {};
    throw new Refusal(500, "auth_invalid", "the file of the sign-in cannot be read");
  }
}

function writeAuth(person, all) {
  const name = `auth/${person}.json`;
  const next = `${name}.${randomUUID()}`;
  writeFileSync(next, JSON.stringify(all), { mode: 0o600, flush: true });
  renameSync(next, name);
}

/** Returns what a provider takes as the key of a person, made anew if it is about to end. */
function keyOf(person, provider) {
  return alone(person, async () => {
    const all = readAuth(person);
    const oauth = getOAuthProvider(provider);
    let credentials = all[provider];
    if (!credentials) throw new Refusal(401, "auth_invalid", `you are not signed in to ${provider}`);
    if (!(Number(credentials.expires) > Date.now() + FRESH_MS)) {
      try {
        credentials = await oauth.refreshToken(credentials);
      } catch (cause) {
        const said = clean(cause);
        // Only what the provider itself refuses ends the sign-in: else it is worth another try.
        const isOver = /\b(400|401|403)\b|invalid_grant|revoked/i.test(said);
        const kind = isOver ? "auth_invalid" : "unreachable";
        throw new Refusal(401, kind, `the sign-in to ${provider} could not be renewed`);
      }
      writeAuth(person, { ...all, [provider]: credentials });
    }
    return { credentials, key: oauth.getApiKey(credentials), oauth };
  });
}

// ---- Signing in ---------------------------------------------------------------------------------

const logins = new Map();

function endLogin(login, state, problem) {
  if (login.state !== "waiting") return;
  login.state = state;
  login.problem = problem ?? null;
  clearTimeout(login.timer);
  login.controller.abort();
  login.give?.(new Refusal(409, "login_ended", "the sign-in has ended"));
  login.begun();
}

function shown(login) {
  const { id, provider, state, url, instructions, problem } = login;
  return { login_id: id, provider, state, url, instructions, problem };
}

async function beginLogin({ person: who, provider: where }) {
  const person = personOf(who);
  const provider = providerOf(where);
  for (const login of [...logins.values()]) {
    if (login.person !== person) continue;
    endLogin(login, "ended", "another sign-in was begun");
    logins.delete(login.id);
  }
  if (logins.size >= LOGINS_MAX) logins.delete(logins.keys().next().value);
  let begun;
  const begins = new Promise((resolve) => (begun = resolve));
  const login = {
    id: randomUUID(),
    person,
    provider,
    state: "waiting",
    url: null,
    instructions: null,
    problem: null,
    controller: new AbortController(),
    give: null,
    begun,
  };
  logins.set(login.id, login);
  login.timer = setTimeout(() => endLogin(login, "failed", "it took longer than 15 minutes"), LOGIN_MS);
  const answer = () =>
    new Promise((resolve, reject) => {
      login.give = (it) => (it instanceof Error ? reject(it) : resolve(it));
      if (login.state !== "waiting") login.give(new Refusal(409, "login_ended", "it has ended"));
    });
  const oauth = getOAuthProvider(provider);
  const callbacks = {
    onAuth: ({ url, instructions }) => {
      login.url = String(url).slice(0, TEXT_CHARS_MAX);
      // One that is answered on this machine tells of a browser here, which there is not.
      const says = oauth.usesCallbackServer ? null : instructions;
      login.instructions = says ? String(says).slice(0, MESSAGE_CHARS_MAX) : null;
      begun();
    },
    // What may be left empty is for other installations of a provider than its own.
    onPrompt: async (prompt) => (prompt.allowEmpty ? "" : await answer()),
    onManualCodeInput: answer,
    onSelect: async (prompt) => prompt.options[0]?.id,
    signal: login.controller.signal,
  };
  oauth
    .login(callbacks)
    .then((credentials) =>
      alone(person, async () => {
        if (login.state !== "waiting") return;
        writeAuth(person, { ...readAuth(person), [provider]: credentials });
        endLogin(login, "done");
      }),
    )
    .catch((cause) => endLogin(login, "failed", clean(cause)));
  const late = setTimeout(begun, LOGIN_BEGIN_MS);
  await begins;
  clearTimeout(late);
  if (login.state === "failed") throw new Refusal(502, "login_failed", login.problem);
  return shown(login);
}

function loginOf(id, who) {
  const login = logins.get(id);
  if (!login || login.person !== personOf(who)) {
    throw new Refusal(404, "no_login", "there is no such sign-in; begin it again");
  }
  return login;
}

async function answerLogin(id, { person, text }) {
  const login = loginOf(id, person);
  if (typeof text !== "string" || !text.trim() || text.length > TEXT_CHARS_MAX) {
    throw new Refusal(400, "bad_request", "the answer is a line of text");
  }
  if (login.state !== "waiting" || !login.give) {
    throw new Refusal(409, "login_ended", "this sign-in waits for no answer");
  }
  login.give(text.trim());
  login.give = null;
  return shown(login);
}

function signOut(who) {
  const person = personOf(who);
  for (const login of [...logins.values()]) {
    if (login.person === person) endLogin(login, "ended", "signed out");
  }
  return alone(person, async () => {
    rmSync(`auth/${person}.json`, { force: true });
    return {};
  });
}

// ---- A step of a model --------------------------------------------------------------------------

/** Returns what went wrong, without anything that looks like a credential. */
function clean(cause) {
  const text = cause instanceof Error ? cause.message : String(cause);
  return text
    .replace(/[A-Za-z0-9_\-.]{40,}/g, "[…]")
    .replace(/[\u0000-\u001f\u007f]+/g, " ")
    .slice(0, MESSAGE_CHARS_MAX);
}

function contextOf({ system, messages, tools, provider, model: name }, model) {
  const names = new Map();
  const zero = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
  const told = [];
  for (const { role, blocks } of messages) {
    if (role === "assistant") {
      const content = blocks.map((it) => it.native ?? { type: "text", text: it.text });
      for (const call of content) if (call.type === "toolCall") names.set(call.id, call.name);
      const stopReason = content.some((it) => it.type === "toolCall") ? "toolUse" : "stop";
      const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
      const usage = { ...zero, cost };
      const from = { api: model.api, provider, model: name };
      told.push({ role, content, ...from, usage, stopReason, timestamp: Date.now() });
      continue;
    }
    for (const { result } of blocks.filter((it) => it.result)) {
      const content = [{ type: "text", text: result.text || "(nothing)" }];
      const of = { toolCallId: result.id, toolName: names.get(result.id) ?? "tool" };
      told.push({ role: "toolResult", ...of, content, isError: !result.ok, timestamp: Date.now() });
    }
    const content = blocks.filter((it) => it.text || it.image).map((it) => partOf(it, model));
    if (content.length > 0) told.push({ role: "user", content, timestamp: Date.now() });
  }
  return { systemPrompt: system, messages: told, tools };
}

function partOf({ text, image }, model) {
  if (!image) return { type: "text", text };
  // The list of models says what each one takes.
  if (model.input && !model.input.includes("image")) {
    return { type: "text", text: "(an image, which this model cannot see)" };
  }
  return { type: "image", data: image.data, mimeType: image.type };
}

/** Says in one word why a provider does not answer. */
function kindOf(status, said) {
  if (/context.{0,20}(window|length|limit)|too (long|large)|max.{0,10}tokens? exceed/i.test(said)) {
    return "context_full";
  }
  if (status === 401 || status === 403) return "auth_invalid";
  if (status === 404 || /model.{0,40}(not found|not supported|does not exist)/i.test(said)) {
    return "model_not_found";
  }
  if (status === 429 || /usage limit|rate limit/i.test(said)) return "rate_limited";
  if (status === 529 || /overloaded/i.test(said)) return "overloaded";
  if (status === 400 || status === 422) return "bad_answer";
  return "unreachable";
}

async function step(body, write, signal) {
  const person = personOf(body.person);
  const provider = providerOf(body.provider);
  let model = getModel(provider, body.model);
  if (!model) {
    throw new Refusal(404, "model_not_found", `${provider} has no model ${clean(body.model)}`);
  }
  const { credentials, key, oauth } = await keyOf(person, provider);
  if (oauth.modifyModels) model = oauth.modifyModels([model], credentials)[0];
  let answered = null;
  const options = {
    apiKey: key,
    signal,
    sessionId: body.session,
    maxTokens: body.max_output,
    reasoning: body.thinking === "off" ? undefined : body.thinking,
    maxRetries: 0,
    transport: "sse",
    onResponse: (response) => {
      answered = response;
    },
  };
  for await (const event of streamSimple(model, contextOf(body, model), options)) {
    if (event.type === "text_delta") {
      await write({ type: "text", text: event.delta });
    } else if (event.type === "thinking_delta" || event.type === "toolcall_delta") {
      // What it thinks is not shown; that it does, is.
      await write({ type: "alive" });
    } else if (event.type === "done") {
      const { content, stopReason, usage } = event.message;
      await write({ type: "message", native: content, stop: stopReason, usage });
      return;
    } else if (event.type === "error") {
      const said = clean(event.error?.errorMessage ?? "the provider broke the answer off");
      const status = answered?.status >= 400 ? answered.status : Number(/^\d{3}\b/.exec(said)?.[0]);
      const wait = Number(answered?.headers?.["retry-after"]);
      const kind = kindOf(status, said);
      const usage = event.error?.usage ?? null;
      await write({ type: "error", kind, message: said, wait: wait >= 0 ? wait : null, usage });
      return;
    }
  }
}

// ---- HTTP over the socket -----------------------------------------------------------------------

const digest = (text) => createHash("sha256").update(text).digest();
const expected = digest(`Bearer ${secret}`);

async function read(request) {
  const pieces = [];
  let bytes = 0;
  for await (const piece of request) {
    bytes += piece.length;
    if (bytes > BODY_BYTES_MAX) throw new Refusal(413, "too_large", "the request is too large");
    pieces.push(piece);
  }
  try {
    const body = JSON.parse(Buffer.concat(pieces).toString("utf8") || "{}");
    if (body !== null && typeof body === "object") return body;
  } catch {
    // As below: it is no JSON either way.
  }
  throw new Refusal(400, "bad_request", "the body is no JSON object");
}

async function answerStep(request, response) {
  const body = await read(request);
  const controller = new AbortController();
  response.on("close", () => controller.abort());
  response.writeHead(200, { "content-type": "application/x-ndjson" });
  const write = async (line) => {
    if (response.destroyed || response.write(`${JSON.stringify(line)}\n`)) return;
    await new Promise((resolve) => {
      response.once("drain", resolve);
      response.once("close", resolve);
    });
  };
  try {
    await step(body, write, controller.signal);
  } catch (cause) {
    if (controller.signal.aborted) return;
    const kind = cause instanceof Refusal ? cause.kind : "unreachable";
    await write({ type: "error", kind, message: clean(cause), wait: null });
  } finally {
    response.end();
  }
}

async function route(request, response) {
  const given = digest(request.headers.authorization ?? "");
  if (!timingSafeEqual(given, expected)) throw new Refusal(401, "bad_token", "not for you");
  const url = new URL(request.url, "http://gateway");
  const [, version, noun, id] = url.pathname.split("/");
  const what = `${request.method} ${version}/${noun ?? ""}${id ? "/:id" : ""}`;
  switch (what) {
    case "GET health/":
      return { ok: true, node: process.version, pid: process.pid };
    case "POST v1/step":
      await answerStep(request, response);
      return null;
    case "POST v1/login":
      return await beginLogin(await read(request));
    case "GET v1/login/:id":
      return shown(loginOf(id, url.searchParams.get("person")));
    case "POST v1/login/:id":
      return await answerLogin(id, await read(request));
    case "DELETE v1/login/:id":
      return await signOut(id);
    default:
      throw new Refusal(404, "no_route", "there is no such route");
  }
}

const server = createServer((request, response) => {
  route(request, response)
    .then((answer) => {
      if (answer === null) return;
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify(answer));
    })
    .catch((cause) => {
      if (response.headersSent) return response.destroy();
      const isKnown = cause instanceof Refusal;
      if (!isKnown) console.error(clean(cause));
      response.writeHead(isKnown ? cause.status : 500, { "content-type": "application/json" });
      const kind = isKnown ? cause.kind : "internal";
      response.end(JSON.stringify({ kind, message: clean(cause) }));
    });
});
// A promise of a provider that nobody waits for must not end the answers of others.
process.on("unhandledRejection", (cause) => console.error(clean(cause)));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(0));
rmSync(SOCKET, { force: true });
server.listen(SOCKET, () => {
  chmodSync(SOCKET, 0o600);
  console.log(JSON.stringify({ ready: true, pid: process.pid }));
});
