// A real server on a real repository in a temporary folder, and what an operator does with it.

import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const TARGET = process.env.CARGO_TARGET_DIR ?? path.join(ROOT, "target");
const BINARY = path.join(TARGET, "debug/wiki-browser");
const PATIENCE_MS = 20_000;
/** How long after a start a browser may still tell of what it asked before. */
const SETTLE_MS = 2_000;

export const DESKTOP = { width: 1280, height: 900 };
export const PHONE = { width: 390, height: 844 };

// What every agent of a test begins with: its prompt is a list of assignments.
const AGENT = `eval "$(cat)"
propose() { "$wb_agent" insert-proposal --topic-id "$topic" --base-sha "$base" "$@"; }
`;

const FILES = {
  "guide.md": "# Guide\n\nThe first line.\n\nThe second line.\n",
  "notes.md": "# Notes\n\nKeep this.\n",
  ".gitignore": "data/\nwiki-browser.lua\n",
};

/** Waits until `look` returns something that is so. */
export async function until(what, look, ms = PATIENCE_MS) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

export class Site {
  /**
   * Makes a repository with `files` ({path: text or bytes}) and the script's further lines `lua`;
   * `site` are further fields of `wb.site`, `sources` is its one glob.
   */
  constructor({ files = {}, lua = "", site = "", sources = "**/*.md", limits = 'jobs = 4, grace = "1s"', env = {} } = {}) {
    this.base = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "wb-browser-")));
    this.top = path.join(this.base, "wiki");
    this.data = path.join(this.top, "data");
    this.out = path.join(this.base, "out");
    this.agents = path.join(this.base, "agents");
    for (const folder of [this.top, this.out, this.agents]) fs.mkdirSync(folder, { recursive: true });
    this.lua = lua;
    this.fields = { site, sources, limits };
    this.env = env;
    this.port = 0;
    this.leaving = [];
    this.away = { since: Infinity, until: 0 };
    this.git("init", "-q", "-b", "main");
    for (const [name, text] of Object.entries({ ...FILES, ...files })) this.write(name, text);
    this.commit("first");
  }

  // --- the repository ---

  write(name, text) {
    const file = path.join(this.top, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, text);
  }

  read(name) {
    return fs.readFileSync(path.join(this.top, name), "utf8");
  }

  /** Runs a command of the program in the site's folder, and returns what it prints. */
  command(...args) {
    const options = { cwd: this.top, env: this.#environment(), encoding: "utf8" };
    return execFileSync(BINARY, args, options);
  }

  git(...args) {
    const env = {
      ...this.#environment(),
      GIT_AUTHOR_NAME: "Ada", GIT_AUTHOR_EMAIL: "ada@example.org",
      GIT_COMMITTER_NAME: "Ada", GIT_COMMITTER_EMAIL: "ada@example.org",
    };
    return execFileSync("git", args, { cwd: this.top, env, encoding: "utf8" }).trimEnd();
  }

  commit(subject) {
    this.git("add", "-A");
    this.git("-c", "commit.gpgsign=false", "commit", "-q", "-m", subject);
  }

  // --- the script ---

  /** Declares an engine that is a shell script; it reads its prompt itself. */
  engine(name, shell) {
    const file = path.join(this.agents, `${name}.sh`);
    fs.writeFileSync(file, shell);
    this.lua += `wb.engine "${name}" {
  type = "process", command = { "/bin/sh", "${file}" }, prompt = "stdin",
  env = { OUT = "${this.out}" },
}
`;
  }

  /**
   * Declares a kind that works on a Topic, with a shell script as its agent. The script knows
   * `$job $topic $path $base $root $wb_agent $OUT` and the function `propose` (text on stdin).
   */
  topicKind(name, shell, fields = 'produces = "proposal", lane = "source_path"') {
    this.engine(name, AGENT + shell);
    this.lua += `wb.kind "${name}" {
  about = "A test", engine = "${name}", timeout = "10m", ${fields},
  inputs = {
    topic_id        = wb.input.topic(),
    source_path     = wb.input.source { from = "topic_id" },
    base_source_sha = wb.input.blob { from = "source_path" },
  },
  prompt = [[
job={{job_id}}
topic={{topic_id}}
path={{source_path}}
base={{base_source_sha}}
root={{root}}
wb_agent={{wb_agent}}
]],
}
`;
  }

  #writeScript() {
    this.write("wiki-browser.lua", `local wb = require "wb"
wb.api(1)
wb.site { root = ".", data = "./data", listen = "127.0.0.1:${this.port}", sources = { "${this.fields.sources}" }, ${this.fields.site} }
wb.identity { author_name = "Test Agent", author_email = "agent@example.org" }
wb.limits { ${this.fields.limits} }
${this.lua}`);
  }

  // --- the server ---

  #environment() {
    return {
      PATH: "/usr/local/bin:/usr/bin:/bin", HOME: this.base, USER: "ada", WB_LOG: "info", WB_TESTING: "1",
      GIT_CONFIG_NOSYSTEM: "1", ...this.env,
    };
  }

  /**
   * Starts a server and waits until it serves. A second start takes the first one's port again. With
   * `isOwn` the script is what stands there.
   */
  async start({ isOwn = false, flags = [] } = {}) {
    if (!isOwn) this.#writeScript();
    this.log = path.join(this.base, "server.log");
    const log = fs.openSync(this.log, "a");
    const env = this.#environment();
    if (process.env.WB_WITHOUT) env.WB_WITHOUT = process.env.WB_WITHOUT;
    this.child = spawn(BINARY, ["serve", ...flags], { cwd: this.top, env, stdio: ["ignore", log, log] });
    fs.closeSync(log);
    this.ended = new Promise((resolve) => this.child.once("exit", resolve));
    let code = null;
    this.child.once("exit", (it) => { code = it ?? "a signal"; });
    await until("the server serves", async () => {
      if (code !== null) throw new Error(`the server ended (${code}): ${this.said()}`);
      const facts = this.#facts();
      return facts?.pid === this.child.pid && (await this.call("GET", "/readyz").catch(() => null))?.status === 200;
    });
    this.address = this.#facts().address;
    this.port = Number(this.address.split(":").at(-1));
    this.origin = `http://${this.address}`;
    if (this.away.since < Infinity) this.away = { since: Infinity, until: Date.now() + SETTLE_MS };
    return this;
  }

  #facts() {
    try {
      return JSON.parse(fs.readFileSync(path.join(this.data, "server.json"), "utf8"));
    } catch {
      return null; // not yet written
    }
  }

  /** Returns all that the servers have said. */
  said() {
    return fs.existsSync(this.log) ? fs.readFileSync(this.log, "utf8") : "";
  }

  /** Whether no server answers, by a test's will, or the first who asked in vain still say so. */
  isAway() {
    return this.away.since < Infinity || Date.now() < this.away.until;
  }

  /** Kills the server without a word. */
  async kill() {
    this.away.since = Date.now();
    this.child.kill("SIGKILL");
    await this.ended;
  }

  /** Ends the server in an orderly way. */
  async stop() {
    this.away.since = Date.now();
    this.child.kill("SIGTERM");
    await this.ended;
  }

  /** Ends it all and removes the folder: first those who visit, who may have something to say. */
  async close() {
    const said = await Promise.allSettled(this.leaving.map((leave) => leave()));
    await this.#end();
    const wrong = said.find((it) => it.status === "rejected");
    if (wrong) throw wrong.reason;
  }

  async #end() {
    if (this.child && this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill("SIGTERM");
      const late = setTimeout(() => this.child.kill("SIGKILL"), 10_000);
      await this.ended;
      clearTimeout(late);
    }
    fs.rmSync(this.base, { recursive: true, force: true, maxRetries: 5 });
  }

  // --- the operator, on the socket ---

  /** Sends a request as the operator; returns `{status, body}`. */
  async call(method, target, body) {
    const token = fs.readFileSync(path.join(this.data, "operator.token"), "utf8").trim();
    const headers = { host: "localhost", authorization: `Bearer ${token}` };
    const bytes = body === undefined ? undefined : JSON.stringify(body);
    if (bytes !== undefined) headers["content-type"] = "application/json";
    return new Promise((resolve, reject) => {
      const options = { socketPath: path.join(this.data, "wb.sock"), path: target, method, headers, agent: false };
      const request = http.request(options, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (part) => { text += part; });
        response.on("end", () => {
          const isJson = response.headers["content-type"]?.includes("json");
          resolve({ status: response.statusCode, body: isJson ? JSON.parse(text) : text });
        });
      });
      request.on("error", reject);
      request.end(bytes);
    });
  }

  async #ok(method, target, body) {
    const answer = await this.call(method, target, body);
    if (answer.status >= 300) throw new Error(`${method} ${target}: ${JSON.stringify(answer)}`);
    return answer.body;
  }

  get(target) { return this.#ok("GET", target); }
  post(target, body = {}) { return this.#ok("POST", target, body); }

  async loginLink(person) {
    return (await this.post("/api/login-links", person ? { person } : {})).url;
  }

  /** Opens a Topic on a passage (or, without a quote, on the whole document); returns its id. */
  async topic(source_path, quote, body) {
    const where = quote ? { selection: { quote } } : { global: true };
    return (await this.post("/api/topics", { source_path, body, ...where })).id;
  }

  /** Asks for a job; returns its id. */
  async job(kind, inputs) {
    return (await this.post("/api/agent/jobs", { kind, ...inputs })).job_id;
  }

  /** Waits until a job has one of some states; without any, until it has ended. */
  status(id, ...wanted) {
    return until(`job ${id} is ${wanted.join(" or ") || "over"}`, async () => {
      const job = await this.get(`/api/agent/jobs/${id}`);
      const is = wanted.length ? wanted.includes(job.status) : !["queued", "running"].includes(job.status);
      return is && job;
    });
  }

  /** Runs a job of a kind on a Topic that makes a proposal; returns the proposal's id. */
  async proposal(kind, topic_id) {
    const job = await this.status(await this.job(kind, { topic_id }));
    if (!job.proposal_id) throw new Error(`no proposal: ${JSON.stringify(job)}`);
    return job.proposal_id;
  }
}
