//! A site in a temporary folder, and a person's actions on it.

use std::cell::{Cell, RefCell};
use std::process::Command;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};
use tempfile::TempDir;
use wiki_browser::process::Cgroups;

use crate::support::look::{processes_of, until, wait_for, within};
use crate::support::server::{Server, shell};
use crate::support::wire::{Answer, Call};

/// The Sources of every site: `guide.md` is the one that most tests change.
const SOURCES: [(&str, &str); 3] = [
    ("guide.md", "# Guide\n\nThe first line.\n\nThe second line.\n"),
    ("notes.md", "# Notes\n\nKeep this.\n"),
    ("docs/deep.md", "# Deep\n\nFar below.\n"),
];

/// What every agent begins with: its prompt is a list of assignments.
const AGENT: &str = "eval \"$(cat)\"\n\
    beat() { i=0; while [ $i -lt 1500 ]; do echo x >> \"$OUT/hb.$1\" || exit; i=$((i+1));\n\
    sleep 0.02; done; }\n\
    propose() {\n\
    \"$wb_agent\" insert-proposal --topic-id \"$topic\" --base-sha \"$base\" \"$@\"\n\
    }\n";

/// A script that writes a heartbeat into the file `$1` until it is ended, or half a minute.
const BEAT: &str = "i=0; while [ $i -lt 1500 ]; do echo x >> \"$1\" || exit; i=$((i+1))
sleep 0.02; done\n";

/// A site; its folder goes when it is dropped, after all that worked in it has ended.
pub(crate) struct Bench {
    pub(crate) base: Utf8PathBuf,
    /// The repository, which is also the folder of the script.
    pub(crate) top: Utf8PathBuf,
    pub(crate) data: Utf8PathBuf,
    /// Where agents leave what tests look at; `$OUT` to them.
    pub(crate) out: Utf8PathBuf,
    limits: RefCell<String>,
    declarations: RefCell<String>,
    logs: Cell<u32>,
    _folder: TempDir,
}

/// A Topic and where it stands.
pub(crate) struct Topic {
    pub(crate) id: String,
    pub(crate) path: String,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::below("")
    }

    /// Makes a site in a folder below its temporary one.
    pub(crate) fn below(path: &str) -> Bench {
        let folder = tempfile::Builder::new().prefix("wb-bench-").tempdir().unwrap();
        let base = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let base = if path.is_empty() { base } else { base.join(path) };
        let bench = Bench {
            top: base.join("wiki"),
            data: base.join("wiki/data"),
            out: base.join("out"),
            base,
            limits: RefCell::new("jobs = 4, grace = \"1s\"".to_owned()),
            declarations: RefCell::default(),
            logs: Cell::new(0),
            _folder: folder,
        };
        for folder in [bench.top.join("docs"), bench.out.clone(), bench.base.join("agents")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(bench.base.join("beat.sh"), BEAT).unwrap();
        bench.git(&["init", "-q", "-b", "main"]);
        for (name, text) in SOURCES {
            bench.write(name, text);
        }
        bench.write(".gitignore", "data/\nwiki-browser.lua\n");
        bench.git(&["add", "-A"]);
        bench.git(&["commit", "-q", "-m", "first"]);
        bench
    }

    /// Sets the fields of `wb.limits`; four jobs and a grace of one second otherwise.
    pub(crate) fn limits(&self, fields: &str) {
        *self.limits.borrow_mut() = fields.to_owned();
    }

    /// Adds declarations to the script.
    pub(crate) fn lua(&self, text: &str) {
        self.declarations.borrow_mut().push_str(text);
    }

    /// Returns what was declared so far.
    pub(crate) fn declared(&self) -> String {
        self.declarations.borrow().clone()
    }

    /// Changes what was declared.
    pub(crate) fn edit(&self, change: impl FnOnce(&str) -> String) {
        let changed = change(&self.declarations.borrow());
        *self.declarations.borrow_mut() = changed;
    }

    /// Declares a kind that works on a Topic, with a shell script as its agent. The script knows
    /// `$job $topic $path $base $root $wb_agent $OUT` and the functions `propose` and `beat`.
    pub(crate) fn topic_kind(&self, name: &str, fields: &str, agent: &str) {
        self.engine(name, agent);
        self.lua(&format!(
            r#"wb.kind "{name}" {{
  about = "A test", engine = "{name}", {fields},
  inputs = {{
    topic_id        = wb.input.topic(),
    source_path     = wb.input.source {{ from = "topic_id" }},
    base_source_sha = wb.input.blob {{ from = "source_path" }},
  }},
  prompt = [[
job={{{{job_id}}}}
topic={{{{topic_id}}}}
path={{{{source_path}}}}
base={{{{base_source_sha}}}}
root={{{{root}}}}
wb_agent={{{{wb_agent}}}}
]],
}}
"#
        ));
    }

    /// Declares a kind that is given one `word` only; the script knows `$job $word $wb_agent $OUT`.
    pub(crate) fn word_kind(&self, name: &str, fields: &str, agent: &str) {
        self.engine(name, agent);
        let word = match fields.contains("lane = \"word\"") {
            true => "",
            false => "{ required = false, default = \"none\" }",
        };
        self.lua(&format!(
            r#"wb.kind "{name}" {{
  about = "A test", engine = "{name}", {fields},
  inputs = {{ word = wb.input.line({word}) }},
  prompt = [[
job={{{{job_id}}}}
word={{{{word}}}}
wb_agent={{{{wb_agent}}}}
]],
}}
"#
        ));
    }

    /// Declares an inbox whose instances run a shell script; the names of an instance are in its
    /// environment, and `wb-agent` is found.
    pub(crate) fn inbox(&self, name: &str, fields: &str, agent: &str) {
        let engine = name.replace('/', "-");
        self.raw_engine(&engine, agent);
        self.lua(&format!(
            r#"wb.inbox "{name}" {{ about = "A test", engine = "{engine}", {fields} }}
"#
        ));
    }

    /// Declares an engine that is a shell script and begins by reading its prompt.
    pub(crate) fn engine(&self, name: &str, agent: &str) {
        self.raw_engine(name, &format!("{AGENT}{agent}\n"));
    }

    /// Declares an engine that is a shell script, as it is; the prompt is its standard input.
    pub(crate) fn raw_engine(&self, name: &str, agent: &str) {
        let file = self.base.join("agents").join(format!("{name}.sh"));
        std::fs::write(&file, agent).unwrap();
        let (out, base) = (&self.out, &self.base);
        self.lua(&format!(
            r#"wb.engine "{name}" {{
  type = "process", command = {{ "/bin/sh", "{file}" }}, prompt = "stdin",
  env = {{ OUT = "{out}", BASE = "{base}" }},
}}
"#
        ));
    }

    /// Starts a server and waits until it serves.
    #[track_caller]
    pub(crate) fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// The same with variables.
    #[track_caller]
    pub(crate) fn serve_with(&self, env: &[(&str, &str)]) -> Server {
        self.start(env).ready()
    }

    /// Starts a server and does not wait for it.
    pub(crate) fn start(&self, env: &[(&str, &str)]) -> Server {
        self.write_script();
        Server::spawn(self, env)
    }

    /// Writes what was declared into the script.
    pub(crate) fn write_script(&self) {
        let is_usual = self.data == self.top.join("data");
        let data = if is_usual { "./data" } else { self.data.as_str() };
        let script = format!(
            r#"local wb = require "wb"
wb.api(1)
wb.site {{ root = ".", data = "{data}", listen = "127.0.0.1:0", sources = {{ "**/*.md" }} }}
wb.identity {{ author_name = "Test Agent", author_email = "agent@example.org" }}
wb.limits {{ {} }}
{}"#,
            self.limits.borrow(),
            self.declarations.borrow()
        );
        self.write("wiki-browser.lua", &script);
    }

    /// Returns the file for the log of the next server.
    pub(crate) fn next_log(&self) -> Utf8PathBuf {
        self.logs.set(self.logs.get() + 1);
        self.base.join(format!("server-{}.log", self.logs.get()))
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.top.join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.top.join(name)).unwrap()
    }

    /// Returns what an agent left in `$OUT`, without the last line break.
    pub(crate) fn left(&self, name: &str) -> String {
        std::fs::read_to_string(self.out.join(name)).unwrap_or_default().trim_end().to_owned()
    }

    /// Waits until an agent has left a line in a file of `$OUT`, and returns it.
    #[track_caller]
    pub(crate) fn wait_left(&self, name: &str) -> String {
        wait_for(&format!("there is {name}"), || {
            let text = std::fs::read_to_string(self.out.join(name)).ok()?;
            text.ends_with('\n').then(|| text.trim_end().to_owned())
        })
    }

    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.top, args)
    }

    /// Returns the commits of the branch, newest first.
    pub(crate) fn commits(&self) -> Vec<String> {
        self.git(&["rev-list", "HEAD"]).lines().map(str::to_owned).collect()
    }

    /// Returns what `git status` says; nothing for a clean tree.
    pub(crate) fn status(&self) -> String {
        self.git(&["status", "--porcelain=v1"])
    }

    /// Moves the clock of servers that are started with the returned path in `WB_CLOCK`.
    pub(crate) fn clock(&self, ms: i64) -> String {
        let (file, aside) = (self.base.join("clock"), self.base.join("clock.new"));
        std::fs::write(&aside, ms.to_string()).unwrap();
        std::fs::rename(&aside, &file).unwrap();
        file.into_string()
    }

    pub(crate) fn socket(&self) -> Utf8PathBuf {
        self.data.join("wb.sock")
    }

    pub(crate) fn operator(&self) -> String {
        std::fs::read_to_string(self.data.join("operator.token")).unwrap().trim().to_owned()
    }

    /// Sends a request as it is over the socket.
    #[track_caller]
    pub(crate) fn send(&self, call: &Call) -> Answer {
        call.try_socket(&self.socket()).unwrap_or_else(|| panic!("no answer to {call:?}"))
    }

    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Answer {
        self.send(&Call::get(target).token(&self.operator()))
    }

    #[track_caller]
    pub(crate) fn post(&self, target: &str, body: Value) -> Answer {
        self.send(&Call::post(target, body).token(&self.operator()))
    }

    /// Sends a message over which the server crashes, perhaps before it has answered.
    pub(crate) fn send_into_crash(&self, to: &str, payload: Value) {
        let call = Call::post("/api/messages", json!({"to": to, "payload": payload}));
        drop(call.token(&self.operator()).try_socket(&self.socket()));
    }

    /// Returns the id of the newest message to an address.
    #[track_caller]
    pub(crate) fn newest_message(&self, to: &str) -> String {
        let page = self.get(&format!("/api/messages?to={to}&limit=1")).ok();
        page["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{page:#}")).to_owned()
    }

    /// Opens a Topic on a passage.
    #[track_caller]
    pub(crate) fn topic(&self, path: &str, quote: &str, body: &str) -> Topic {
        let selection = json!({"quote": quote});
        let body = json!({"source_path": path, "selection": selection, "body": body});
        let topic = self.post("/api/topics", body).ok();
        Topic { id: topic["id"].as_str().unwrap().to_owned(), path: path.to_owned() }
    }

    /// Asks for a job; returns its id.
    #[track_caller]
    pub(crate) fn job(&self, kind: &str, inputs: Value) -> String {
        let mut body = inputs;
        body["kind"] = json!(kind);
        let made = self.post("/api/agent/jobs", body).ok();
        made["job_id"].as_str().unwrap().to_owned()
    }

    /// Asks for a job on a Topic; returns its id.
    #[track_caller]
    pub(crate) fn job_on(&self, kind: &str, topic: &Topic) -> String {
        self.job(kind, json!({"topic_id": topic.id}))
    }

    #[track_caller]
    pub(crate) fn show(&self, job: &str) -> Value {
        self.get(&format!("/api/agent/jobs/{job}")).ok()
    }

    /// Waits until the index of the search, which a start makes, is there: nothing else is written
    /// by itself.
    #[track_caller]
    pub(crate) fn wait_indexed(&self) {
        let ask = || self.get("/api/search/index").ok();
        until("the index is there", || ask()["state"] == "ready");
    }

    /// Waits until a job has a status.
    #[track_caller]
    pub(crate) fn wait_status(&self, job: &str, status: &str) -> Value {
        wait_for(&format!("job {job} is {status}"), || {
            Some(self.show(job)).filter(|it| it["status"] == status)
        })
    }

    /// Waits for the end of a job, whichever it is.
    #[track_caller]
    pub(crate) fn ended(&self, job: &str) -> Value {
        wait_for(&format!("job {job} ends"), || {
            let job = self.show(job);
            (!["queued", "running"].contains(&job["status"].as_str().unwrap())).then_some(job)
        })
    }

    /// Runs a job that succeeds and returns its proposal: `{"proposal", "text", …}`.
    #[track_caller]
    pub(crate) fn proposal(&self, kind: &str, topic: &Topic) -> Value {
        let job = self.ended(&self.job_on(kind, topic));
        assert_eq!(job["status"], "succeeded", "{job:#}");
        self.get(&format!("/api/proposals/{}", job["proposal_id"].as_str().unwrap())).ok()
    }

    /// Returns the request that approves a proposal as it was shown.
    pub(crate) fn approval(&self, shown: &Value) -> Call {
        let it = &shown["proposal"];
        let body = json!({
            "text_digest": it["text_digest"], "base_source_sha": it["base_source_sha"],
        });
        let id = it["id"].as_str().unwrap();
        Call::post(&format!("/api/proposals/{id}/approve"), body).token(&self.operator())
    }

    /// Returns the status of a proposal.
    #[track_caller]
    pub(crate) fn proposal_status(&self, shown: &Value) -> String {
        let id = shown["proposal"]["id"].as_str().unwrap();
        let now = self.get(&format!("/api/proposals/{id}")).ok();
        now["proposal"]["status"].as_str().unwrap().to_owned()
    }

    /// Runs the operator's program; returns exit code, standard output and standard error.
    pub(crate) fn cli(&self, args: &[&str]) -> (i32, String, String) {
        cli(&self.top, args)
    }

    /// Runs the operator's program with `--json`; returns the answer of a success.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let (code, out, err) = self.cli(&[args, &["--json"]].concat());
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        serde_json::from_str(&out).unwrap()
    }

    /// Changes rows behind the back of a server, which must not run: what a test forges.
    #[track_caller]
    pub(crate) fn sql(&self, statement: &str) {
        let database = rusqlite::Connection::open(self.data.join("wiki.db")).unwrap();
        assert_eq!(database.execute(statement, []).unwrap(), 1, "{statement}");
    }

    /// Returns what runs in this site's folders: servers, guards, agents.
    pub(crate) fn alive(&self) -> Vec<(i32, String)> {
        processes_of(&self.base)
    }

    /// Removes the cgroups of jobs whose server was killed: no next one will.
    fn remove_cgroups(&self) {
        let Ok(jobs) = self.data.join("jobs").read_dir_utf8() else { return };
        let Ok(place) = Cgroups::open(&self.data) else { return };
        let jobs: Vec<String> = jobs.flatten().map(|it| it.file_name().to_owned()).collect();
        for entry in place.folder().unwrap().read_dir_utf8().unwrap().flatten() {
            if jobs.iter().any(|job| entry.file_name().ends_with(job.as_str())) {
                // One that still holds a process stays: its test has failed.
                let _ = std::fs::remove_dir(entry.path());
            }
        }
    }

    /// Waits until nothing but servers runs.
    #[track_caller]
    pub(crate) fn quiet(&self) {
        until("no agent runs", || self.alive().iter().all(|(_, line)| line.ends_with(" serve ")));
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Guards of agents that outlive their server are told to end.
        for (pid, line) in self.alive() {
            if line.contains(" __guard ") {
                shell(&format!("kill -TERM {pid} 2> /dev/null || true"));
            }
        }
        // The guards of a killed server end by themselves; the folder is removed after them.
        within(Duration::from_secs(5), || self.alive().is_empty());
        self.remove_cgroups();
    }
}

/// Runs the operator's program in a folder; returns exit code, standard output and standard error.
#[allow(clippy::disallowed_methods, reason = "a test plays the operator in a terminal")]
pub(crate) fn cli(folder: &Utf8Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wiki-browser"));
    command.args(args).current_dir(folder).env_clear().env("PATH", "/usr/bin:/bin");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Runs git as the user would, in a clean environment; returns what it printed.
#[track_caller]
pub(crate) fn git(folder: &Utf8Path, args: &[&str]) -> String {
    let (code, printed) = try_git(folder, args);
    assert_eq!(code, 0, "git {args:?}: {printed}");
    printed
}

/// The same with the exit code.
#[allow(clippy::disallowed_methods, reason = "a test plays the user in a terminal")]
pub(crate) fn try_git(folder: &Utf8Path, args: &[&str]) -> (i32, String) {
    // A path, because a name that is looked for in another `PATH` is started by a fork, and that
    // takes longer the more memory the tests of this process have taken.
    let mut command = Command::new("/usr/bin/git");
    command.args(["-c", "maintenance.auto=false"]).args(args);
    command.current_dir(folder).env_clear().env("PATH", "/usr/bin:/bin");
    command.env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Una User");
        command.env(format!("GIT_{who}_EMAIL"), "una@example.org");
    }
    let output = command.output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).trim_end().to_owned();
    (output.status.code().unwrap_or(-1), printed)
}
