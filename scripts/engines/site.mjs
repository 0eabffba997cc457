// A site of its own in a temporary folder, with the installed Claude Code as its engines, and what a
// person does with it: the commands are those of wiki-browser, typed as a person types them.

import { execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

const WAIT_MS = 60_000;
/** A key that the program takes for one; the model is ours. */
const KEY = "sk-ant-none-0123456789-abcdefghij";
const FILES = { "guide.md": "# Guide\n\nThe valve is shut in March.\n", ".gitignore": "data/\n" };

/** Waits until `look` returns something; what it returned last if it never does. */
export async function until(look, ms = WAIT_MS) {
  for (const end = Date.now() + ms; ; ) {
    const found = await look();
    if (found || Date.now() > end) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The agents of a workshop, in each of the two ways to talk to them. */
export const WORKSHOPS = [
  { engine: "live", agents: ["live-robbo", "live-paula", "live-con"] },
  { engine: "terminal", agents: ["term-robbo", "term-paula", "term-con"] },
];

const declared = (name, engine) => `wb.agent "${name}" { about = "In a workshop", engine = "${engine}", autostart = "on_message" }\n`;

/** Returns the engines and agents that the documentation shows, with this program. */
function script(claude, env) {
  const text = (it) => JSON.stringify(it);
  const asks = `asks = { "--permission-prompt-tool", "mcp__wb__permission", "--mcp-config", "{{mcp_config}}",
              "--allowedTools", "Bash(wb-agent:*),Bash({{wb_agent}}:*),Bash(sleep:*)" },`;
  const session = 'session = { "--session-id", "{{session}}" }, resume = { "--resume", "{{session}}" },';
  const system = 'system = { "--append-system-prompt-file", "{{system_file}}" },';
  const fixed = '"--strict-mcp-config", "--setting-sources="';
  const variables = `env = { ${Object.entries(env).map(([name, value]) => `${name} = ${text(value)}`).join(", ")} },`;
  return `local wb = require "wb"
wb.api(1)
wb.site { root = ".", data = "./data", listen = "127.0.0.1:0", sources = { "**/*.md" } }
wb.identity { author_name = "Check", author_email = "check@example.org" }
wb.limits { jobs = 4, grace = "2s" }
wb.engine "live" {
  type = "stream", speaks = "claude-stream-json",
  command = { ${text(claude)}, "-p", "--input-format", "stream-json", "--output-format", "stream-json",
              "--replay-user-messages", "--verbose", ${fixed} },
  ${session} ${system} ${asks} ${variables}
}
wb.engine "terminal" {
  type = "terminal", input = "❯", hooks = { "--settings", "{{hooks_file}}" },
  command = { ${text(claude)}, "--permission-mode", "default", ${fixed}, "--allowedTools", "Bash(wb-agent:*),Bash(sleep:*)" },
  ${session} ${system} ${variables}
}
wb.engine "once" {
  type = "process", prompt = "stdin", reads = "claude-stream-json",
  command = { ${text(claude)}, "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
              ${fixed}, "--permission-mode", "default" },
  ${session} ${asks} ${variables}
}
wb.engine "chat" {
  type = "process", command = { ${text(claude)} }, prompt = "stdin", reads = "claude-stream-json", ${variables}
}
wb.agent "robbo" { about = "In a stream", engine = "live", autostart = "on_message", on_server_loss = "keep" }
wb.agent "paula" { about = "In a terminal", engine = "terminal", autostart = "on_message" }
${WORKSHOPS.flatMap(({ agents, engine }) => agents.map((name) => declared(name, engine))).join("")}wb.inbox "check/once" { about = "Answers", engine = "once", timeout = "5m" }
wb.inbox "check/talk" { about = "Answers after two turns", engine = "live", timeout = "5m", after_turn = "2m" }
wb.inbox "check/asks" { about = "Asks before a tool", engine = "once", timeout = "5m", permission_wait = "1s" }
wb.assistant {
  runtimes = { claude_code = "chat" }, claude_code_persons = { "operator" },
  tools = { read_source = "allow" },
}
`;
}

export class Site {
  constructor({ program, claude, top, model }) {
    this.program = program;
    this.top = path.join(top, "site");
    this.home = path.join(top, "site-home");
    this.log = path.join(top, "server.log");
    for (const folder of [this.top, this.home]) fs.mkdirSync(folder);
    // What a person answers once, before an agent in a terminal starts for the first time.
    const answered = {
      hasCompletedOnboarding: true, theme: "dark", customApiKeyResponses: { approved: [KEY.slice(-20)], rejected: [] },
      projects: { [fs.realpathSync(this.top)]: { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true } },
    };
    fs.writeFileSync(path.join(this.home, ".claude.json"), JSON.stringify(answered));
    const env = {
      ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: KEY, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
    };
    for (const [name, text] of Object.entries(FILES)) fs.writeFileSync(path.join(this.top, name), text);
    fs.writeFileSync(path.join(this.top, "wiki-browser.lua"), script(claude, env));
    this.#git("init", "-q", "-b", "main");
    this.#git("add", "-A");
    this.#git("commit", "-q", "-m", "first");
  }

  #git(...args) {
    const who = ["-c", "user.name=Check", "-c", "user.email=check@example.org", "-c", "commit.gpgsign=false"];
    execFileSync("git", [...who, ...args], { cwd: this.top, env: this.#environment() });
  }

  #environment() {
    return { PATH: process.env.PATH, HOME: this.home, LANG: "C.UTF-8", TERM: "xterm-256color", WB_LOG: "info" };
  }

  /** Starts a server; returns why it could not be. */
  async serve() {
    const log = fs.openSync(this.log, "a");
    this.child = spawn(this.program, ["serve"], { cwd: this.top, env: this.#environment(), stdio: ["ignore", log, log] });
    fs.closeSync(log);
    let isOver = false;
    this.ended = new Promise((resolve) => this.child.once("exit", () => { isOver = true; resolve(); }));
    const isReady = await until(async () => isOver || (await this.run("status")).code === 0);
    return isReady && !isOver ? undefined : this.said();
  }

  said() {
    return fs.readFileSync(this.log, "utf8").slice(-3_000);
  }

  /** Kills the server without a word. */
  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  /** Ends agents, server and terminals. */
  async close() {
    if (!this.child) return;
    await this.run("agent", "stop", "--all");
    await until(async () => (await this.agents()).every((it) => it.state === "stopped"), 20_000);
    this.child.kill("SIGTERM");
    const late = setTimeout(() => this.child.kill("SIGKILL"), 15_000);
    await this.ended;
    clearTimeout(late);
    spawnSync("tmux", ["-S", path.join(this.top, "data/run/tmux.sock"), "kill-server"], { stdio: "ignore" });
  }

  /** Types a command; returns its exit status and what it printed. */
  run(...args) {
    const options = { cwd: this.top, env: this.#environment(), encoding: "utf8", timeout: 2 * WAIT_MS };
    return new Promise((resolve) => {
      execFile(this.program, args, options, (error, out, err) => resolve({ code: error ? (error.code ?? -1) : 0, out, err }));
    });
  }

  /** The same with `--json`; undefined if it failed. */
  async json(...args) {
    const { code, out } = await this.run(...args, "--json");
    return code === 0 ? JSON.parse(out) : undefined;
  }

  /** Follows a channel as in a terminal of its own; what it printed is in `out`. */
  follow(channel) {
    const child = spawn(this.program, ["channel", "follow", channel], { cwd: this.top, env: this.#environment(), stdio: ["pipe", "pipe", "pipe"] });
    const chat = { out: "", code: undefined };
    child.stdout.on("data", (part) => { chat.out += part; });
    child.once("exit", (code) => { chat.code = code; });
    return chat;
  }

  async agents() {
    return (await this.json("agent", "list"))?.items ?? [];
  }

  /** Returns what stands in a channel: `[who, text]`, `*` for the program. */
  async room(channel) {
    const page = await this.json("msg", "history", channel, "--limit", "200");
    return (page?.items ?? []).map((it) => [it.author?.handle ?? "*", it.text]);
  }

  /** Waits until a member has said something in a channel. */
  spoken(channel, who, text) {
    return until(async () => (await this.room(channel)).some((it) => it[0] === who && it[1] === text));
  }

  /** Waits for the only request that somebody must decide; returns it. */
  asked(sort) {
    return until(async () => {
      const page = await this.json("approval", "list", "--state", "pending");
      return page?.items.find((it) => it.sort === sort);
    });
  }
}
