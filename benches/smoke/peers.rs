//! Other queues on the same machine, where they are installed: pueue and task-spooler.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Asked;
use crate::jobs::{SLOTS, batch};
use crate::report::{Aim, Report};
use crate::site::{Outcome, Site};

/// Longest time for one batch of a peer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Compares with each peer that is there, with as many slots as the machine has cores.
pub(crate) async fn measure(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    let slots = SLOTS[0];
    let pueue = Pueue::start(&base.join("pueue"), slots)?;
    let tsp = Spooler::start(&base.join("tsp"), slots)?;
    for (name, is_there) in [("pueue", pueue.is_some()), ("task-spooler", tsp.is_some())] {
        if !is_there {
            report.note(format!("{name} is not installed; it was left out."));
        }
    }
    if pueue.is_none() && tsp.is_none() {
        return Ok(());
    }
    let site = Site::new(base, "peers", u32::try_from(slots)?)?;
    let (server, _) = site.serve().await?;
    batch(&server, 40).await?;
    let (mut with_pueue, mut with_tsp) = (Vec::new(), Vec::new());
    let few = (asked.seconds * 12.0).max(4.0) as usize;
    let many = (asked.seconds * 300.0).max(40.0) as usize;
    for _ in 0..asked.rounds {
        let ours = batch(&server, many).await?;
        if let Some(pueue) = &pueue {
            with_pueue.push((ours, pueue.batch(few)?));
        }
        if let Some(tsp) = &tsp {
            with_tsp.push((ours, tsp.batch(many)?));
        }
    }
    server.stop()?;
    if !with_pueue.is_empty() {
        let name = format!("durable over HTTP / pueue, {slots} slots");
        report.ratio("jobs", name, &with_pueue, Aim::AtLeast(80.0), |ours, theirs| {
            format!("{ours:.0}/s; pueue {theirs:.2}/s (not durable)")
        });
    }
    if !with_tsp.is_empty() {
        let name = format!("durable over HTTP / task-spooler, {slots} slots");
        report.ratio("jobs", name, &with_tsp, Aim::None, |ours, theirs| {
            format!("{ours:.0}/s; task-spooler {theirs:.0}/s (not durable)")
        });
    }
    Ok(())
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|it| it.join(name)).find(|it| it.is_file())
}

/// Runs a command to its end in silence.
fn run(command: &mut Command) -> Outcome<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{command:?}: {}: {said}", output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A pueue daemon of its own.
struct Pueue {
    daemon: Child,
    client: PathBuf,
    config: PathBuf,
}

impl Pueue {
    fn start(folder: &Path, slots: usize) -> Outcome<Option<Pueue>> {
        let (Some(client), Some(daemon)) = (find("pueue"), find("pueued")) else { return Ok(None) };
        std::fs::create_dir_all(folder)?;
        let config = folder.join("pueue.yml");
        let place = folder.display();
        std::fs::write(
            &config,
            format!(
                "shared:\n  pueue_directory: {place}\n  runtime_directory: {place}\n  \
                 use_unix_socket: true\n  unix_socket_path: {place}/pueue.sock\n\
                 client: {{}}\ndaemon: {{}}\n"
            ),
        )?;
        let daemon = Command::new(daemon)
            .arg("-c")
            .arg(&config)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pueue = Pueue { daemon, client, config };
        let begin = Instant::now();
        while pueue.call(&["status"]).is_err() {
            if begin.elapsed() > Duration::from_secs(10) {
                return Err("pueued does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        pueue.call(&["parallel", &slots.to_string()])?;
        Ok(Some(pueue))
    }

    fn call(&self, args: &[&str]) -> Outcome<String> {
        run(Command::new(&self.client).arg("-c").arg(&self.config).args(args))
    }

    /// From the first `add` to the last end.
    fn batch(&self, count: usize) -> Outcome<f64> {
        let begin = Instant::now();
        for _ in 0..count {
            self.call(&["add", "--", "true"])?;
        }
        loop {
            let told: serde_json::Value = serde_json::from_str(&self.call(&["status", "--json"])?)?;
            let tasks = told["tasks"].as_object().ok_or("pueue has no tasks")?;
            let is_done = |it: &serde_json::Value| it["status"]["Done"].is_object();
            if tasks.values().filter(|it| is_done(it)).count() >= count {
                break;
            }
            if begin.elapsed() > PATIENCE {
                return Err("pueue does not come to an end".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let rate = count as f64 / begin.elapsed().as_secs_f64();
        self.call(&["clean"])?;
        Ok(rate)
    }
}

impl Drop for Pueue {
    fn drop(&mut self) {
        // The daemon is ours alone, by its folder; if it does not listen any more it is killed.
        let _ = self.call(&["shutdown"]);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(3) {
            if matches!(self.daemon.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// A task-spooler of its own: its server starts with the first command and ends with `-K`.
struct Spooler {
    program: PathBuf,
    folder: PathBuf,
}

impl Spooler {
    fn start(folder: &Path, slots: usize) -> Outcome<Option<Spooler>> {
        let Some(program) = find("tsp") else { return Ok(None) };
        std::fs::create_dir_all(folder)?;
        let tsp = Spooler { program, folder: folder.to_owned() };
        tsp.call(&["-S", &slots.to_string()])?;
        Ok(Some(tsp))
    }

    fn call(&self, args: &[&str]) -> Outcome<String> {
        run(Command::new(&self.program)
            .args(args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TMPDIR", &self.folder)
            .env("TS_SOCKET", self.folder.join("socket"))
            .env("TS_MAXFINISHED", "100000"))
    }

    /// From the first `tsp` to the last end.
    fn batch(&self, count: usize) -> Outcome<f64> {
        let begin = Instant::now();
        for _ in 0..count {
            self.call(&["-n", "true"])?;
        }
        loop {
            let listed = self.call(&[])?;
            let ended = listed.lines().filter(|it| it.contains(" finished ")).count();
            if ended >= count {
                break;
            }
            if begin.elapsed() > PATIENCE {
                return Err("task-spooler does not come to an end".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let rate = count as f64 / begin.elapsed().as_secs_f64();
        self.call(&["-C"])?;
        Ok(rate)
    }
}

impl Drop for Spooler {
    fn drop(&mut self) {
        // The last word to a server that may be gone.
        let _ = self.call(&["-K"]);
    }
}
