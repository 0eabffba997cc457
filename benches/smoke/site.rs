//! A site in a temporary folder, and the real server on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempDir;

use crate::wire::Line;

/// What a measurement returns; its error says what could not be done.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long a server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that goes away with its value.
pub(crate) fn folder() -> Outcome<TempDir> {
    let parent = std::env::var_os("WB_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    Ok(tempfile::Builder::new().prefix("wb-bench-").tempdir_in(parent)?)
}

/// Returns the server that is measured: the one that was built with this program, or that of
/// another release, from the folder in `WB_BENCH_PROGRAMS`.
fn program() -> PathBuf {
    let own = || PathBuf::from(env!("CARGO_BIN_EXE_wiki-browser"));
    let other = std::env::var_os("WB_BENCH_PROGRAMS").map(PathBuf::from);
    other.map_or_else(own, |folder| folder.join("wiki-browser"))
}

/// A line of progress, where it disturbs no result.
pub(crate) fn progress(text: &str) {
    eprintln!("bench: {text}");
}

/// The repository, the script and the data folder of one site.
pub(crate) struct Site {
    pub(crate) top: Utf8PathBuf,
    pub(crate) data: Utf8PathBuf,
}

impl Site {
    /// Makes a site that runs `jobs` at once. Its kinds have no lane: the queue is the limit.
    pub(crate) fn new(base: &Path, name: &str, jobs: u32) -> Outcome<Site> {
        let base = Utf8Path::from_path(base).ok_or("the temporary folder is not UTF-8")?;
        let top = base.join(name);
        std::fs::create_dir_all(top.join("docs"))?;
        for number in 0..20 {
            let text = format!("# Page {number}\n\nA sentence that somebody may mark.\n");
            std::fs::write(top.join(format!("docs/page-{number:02}.md")), text)?;
        }
        std::fs::write(top.join(".gitignore"), "data/\nwiki-browser.lua\n")?;
        let this = std::env::current_exe()?;
        std::fs::write(top.join("wiki-browser.lua"), script(jobs, &this.to_string_lossy()))?;
        for args in [
            &["init", "-q", "-b", "main"][..],
            &["add", "-A"],
            &["-c", "user.name=B", "-c", "user.email=b@example.org", "commit", "-q", "-m", "first"],
        ] {
            let done = Command::new("git").args(args).current_dir(&top).status()?;
            if !done.success() {
                return Err(format!("git {args:?} failed").into());
            }
        }
        Ok(Site { data: top.join("data"), top })
    }

    /// Starts a server and waits until it answers; returns it with the time that this took.
    pub(crate) async fn serve(&self) -> Outcome<(Server, Duration)> {
        let log = File::create(self.top.with_extension("log"))?;
        // The last server's: a stale socket would only refuse, a stale file would lie.
        let _ = std::fs::remove_file(self.data.join("server.json"));
        let begin = Instant::now();
        let child = Command::new(program())
            .arg("serve")
            .current_dir(&self.top)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.top)
            .env("USER", "bench")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let mut server = Server { child, socket: self.data.join("wb.sock"), token: String::new() };
        loop {
            if let Some(status) = server.child.try_wait()? {
                let said = std::fs::read_to_string(self.top.with_extension("log"))?;
                return Err(format!("the server ended ({status}): {said}").into());
            }
            if let Ok(mut line) = Line::connect(&server.socket).await
                && let Ok((200, _)) =
                    line.ask(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await
            {
                break;
            }
            if begin.elapsed() > PATIENCE {
                return Err("the server does not come up".into());
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        let took = begin.elapsed();
        let token = std::fs::read_to_string(self.data.join("operator.token"))?;
        server.token = token.trim().to_owned();
        Ok((server, took))
    }
}

fn script(jobs: u32, this: &str) -> String {
    format!(
        r#"local wb = require "wb"
wb.api(1)
wb.site {{ root = ".", data = "./data", listen = "127.0.0.1:0", sources = {{ "**/*.md" }} }}
wb.identity {{ author_name = "Bench", author_email = "bench@example.org" }}
wb.limits {{ jobs = {jobs}, grace = "2s" }}
wb.engine "true" {{ type = "process", command = {{ "/bin/true" }}, prompt = "stdin" }}
wb.engine "stamp" {{ type = "process", command = {{ "{this}", "__stamp" }}, prompt = "stdin" }}
wb.kind "true" {{ about = "Does nothing", engine = "true", timeout = "1m", prompt = "Nothing." }}
wb.kind "stamp" {{ about = "Says when", engine = "stamp", timeout = "1m", prompt = "Now." }}
wb.kind "later" {{
  about = "Waits in a lane", engine = "true", timeout = "1m", lane = "word", on_busy = "queue",
  inputs = {{ word = wb.input.line() }}, prompt = "Nothing.",
}}
"#
    )
}

/// A server that is ended when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) socket: Utf8PathBuf,
    pub(crate) token: String,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the processor time that it has used, in microseconds, to a hundredth of a second.
    pub(crate) fn cpu_us(&self) -> Outcome<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()))?;
        let fields = stat.rsplit(')').next().ok_or("no stat")?;
        let ticks: Vec<f64> =
            fields.split_ascii_whitespace().skip(11).take(2).flat_map(str::parse).collect();
        Ok(ticks.iter().sum::<f64>() * 10_000.0)
    }

    /// Returns a request as bytes, as the operator sends it.
    pub(crate) fn request(&self, method: &str, target: &str, body: Option<&str>) -> Vec<u8> {
        let mut text = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n",
            self.token
        );
        if let Some(body) = body {
            let length = body.len();
            text += &format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
        }
        text += "\r\n";
        text += body.unwrap_or_default();
        text.into_bytes()
    }

    /// Posts once; the answer must be a success.
    pub(crate) async fn post(&self, target: &str, body: &str) -> Outcome<serde_json::Value> {
        self.call(self.request("POST", target, Some(body))).await
    }

    /// Asks once; the answer must be a success.
    pub(crate) async fn get(&self, target: &str) -> Outcome<serde_json::Value> {
        self.call(self.request("GET", target, None)).await
    }

    async fn call(&self, request: Vec<u8>) -> Outcome<serde_json::Value> {
        let mut line = Line::connect(&self.socket).await?;
        let (status, body) = line.ask(&request).await?;
        if !(200..300).contains(&status) {
            return Err(format!("{status}: {}", String::from_utf8_lossy(body)).into());
        }
        Ok(serde_json::from_slice(body)?)
    }

    /// Kills it without a word.
    pub(crate) fn kill(mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends it in an orderly way.
    pub(crate) fn stop(mut self) -> Outcome<()> {
        // By the command, so that this program needs no system calls of its own.
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() { Ok(()) } else { Err(format!("{status}").into()) };
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err("the server does not end".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
