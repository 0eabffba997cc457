//! Messages to agents in terminals: how long until a hook proves that one has arrived.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Asked;
use crate::instances::{end, site, until_all};
use crate::report::{Aim, Report, percentile};
use crate::site::Outcome;
use crate::wire::Line;

/// Agents in terminals.
const COUNT: usize = 20;
/// Length of a message.
const TEXT_BYTES: usize = 4 * 1024;
/// How long a message may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// All of it.
pub(crate) async fn measure(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    if Command::new("tmux").arg("-V").output().is_err() {
        report.note("Terminals were not measured: tmux is not installed.");
        return Ok(());
    }
    let this = std::env::current_exe()?;
    let mut more = format!(
        "wb.engine \"t\" {{ type = \"terminal\", command = {{ \"{}\", \"__terminal\" }},\n\
         hooks = {{ \"{{{{hooks_file}}}}\" }}, input = \"❯\" }}\n",
        this.display()
    );
    for number in 0..COUNT {
        let fields = "about = \"Waits\", engine = \"t\", autostart = \"always\"";
        more += &format!("wb.agent \"a{number}\" {{ {fields} }}\n");
    }
    let site = site(base, "terminals", (2, &more))?;
    let (server, _) = site.serve().await?;
    until_all(&server, COUNT).await?;
    let (mut sent, mut arrived) = (Vec::new(), Vec::new());
    for _ in 0..asked.rounds {
        let mut tasks = JoinSet::new();
        for number in 0..COUNT {
            let body = json!({"to": format!("agent:a{number}"), "payload": "x".repeat(TEXT_BYTES)});
            let post = server.request("POST", "/api/messages", Some(&body.to_string()));
            let mut line = Line::connect(&server.socket).await?;
            let get = |id: &str| server.request("GET", &format!("/api/messages/{id}"), None);
            let begin = Instant::now();
            let (status, made) = line.ask(&post).await?;
            let took = begin.elapsed();
            if status != 202 {
                return Err(format!("{status}: {}", String::from_utf8_lossy(made)).into());
            }
            let made: Value = serde_json::from_slice(made)?;
            let get = get(made["message_id"].as_str().ok_or("no message was made")?);
            sent.push(took.as_secs_f64() * 1_000.0);
            tasks.spawn(async move { proven(line, &get, begin).await });
        }
        while let Some(done) = tasks.join_next().await {
            arrived.push(done??);
        }
        until_all(&server, COUNT).await?;
    }
    let name = format!("4 KiB to {COUNT} terminals at once: until a hook proves it, p95");
    let about = format!("p50 {:.0} ms", percentile(&arrived, 50));
    report.figure("instances", name, percentile(&arrived, 95), "ms", Aim::AtMost(300.0), about);
    let name = "the same: what the sender waits, p95";
    report.figure("instances", name, percentile(&sent, 95), "ms", Aim::AtMost(10.0), "");
    end(server).await
}

/// Waits until a message has arrived; returns the milliseconds since it was sent.
async fn proven(mut line: Line, get: &[u8], begin: Instant) -> Outcome<f64> {
    loop {
        let (_, body) = line.ask(get).await?;
        let shown: Value = serde_json::from_slice(body)?;
        if shown["deliveries"][0]["state"] == "confirmed" {
            return Ok(begin.elapsed().as_secs_f64() * 1_000.0);
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("a message does not arrive: {shown}").into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Is the program in the terminal: takes a paste in brackets, shows it, and tells its hooks.
pub(crate) fn program(hooks_file: &str) -> ExitCode {
    match run(hooks_file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            eprintln!("{cause}");
            ExitCode::FAILURE
        }
    }
}

fn run(hooks_file: &str) -> Outcome<()> {
    let hooks: Value = serde_json::from_slice(&fs::read(hooks_file)?)?;
    Command::new("stty").args(["raw", "-echo"]).status()?;
    draw("\x1b[?2004h", "")?;
    hook(&hooks, "SessionStart", &json!({"session_id": "s", "source": "startup"}))?;
    let (mut input, mut buffer, mut turn) = (Vec::new(), [0; 4096], 0);
    loop {
        let count = std::io::stdin().read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&input).into_owned();
        let Some((pasted, behind)) =
            text.split_once("\x1b[200~").and_then(|it| it.1.split_once("\x1b[201~"))
        else {
            continue;
        };
        draw("", "[Pasted text #1]")?;
        if !behind.contains('\r') {
            continue;
        }
        input.clear();
        turn += 1;
        let id = format!("p{turn}");
        hook(&hooks, "UserPromptSubmit", &json!({"prompt": pasted, "prompt_id": id}))?;
        draw("", "")?;
        hook(&hooks, "Stop", &json!({"prompt_id": id, "last_assistant_message": "x"}))?;
    }
}

fn draw(before: &str, line: &str) -> Outcome<()> {
    print!("{before}\x1b[2J\x1b[H────\r\n❯ {line}\r\n────\r\n");
    std::io::stdout().flush()?;
    Ok(())
}

fn hook(hooks: &Value, event: &str, given: &Value) -> Outcome<()> {
    let command = hooks["hooks"][event][0]["hooks"][0]["command"].as_str().ok_or("no hook")?;
    let line = format!("exec {command}");
    let mut hook = Command::new("/bin/sh").args(["-c", &line]).stdin(Stdio::piped()).spawn()?;
    hook.stdin.take().ok_or("no pipe")?.write_all(given.to_string().as_bytes())?;
    hook.wait()?;
    Ok(())
}
