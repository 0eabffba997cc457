//! The assistant: what it adds to a token's latency, what a question costs, memory, and how long
//! its pages and searches take once there are many messages.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;

use crate::Asked;
use crate::model::{self, Model};
use crate::report::{Aim, Report, median, percentile};
use crate::search::{memory, timed};
use crate::site::{Outcome, Server, Site, progress};
use crate::wire::Line;

/// Answers that are streamed at once, and tokens of each per second.
const STREAMS: usize = 100;
const PER_SECOND: usize = 50;
/// Streams of one credential, of which a server allows 64.
const PER_TOKEN: usize = 50;
/// Conversations that are open and idle.
const OPEN: usize = 1_000;
/// Messages of the long conversation, and of all together.
const LONG: usize = 10_000;
const MESSAGES: usize = 100_000;
/// Items of the long stream.
const ITEMS: usize = 100_000;
/// Longest wait for the index.
const PATIENCE: Duration = Duration::from_secs(300);

/// All of it.
pub(crate) async fn measure(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    let model = Model::start().await?;
    let site = site(base, &model)?;
    let (server, _) = site.serve().await?;
    let tokens = tokens(&server).await?;
    latency(asked, (&server, &model), &tokens, report).await?;
    questions(asked, &server, report).await?;
    let run = ask(&server, &tokens[0], &model::words(1, 1_000)).await?;
    server.stop()?;
    let long = fill(&site, &run)?;
    let (server, _) = site.serve().await?;
    many(asked, &server, (&long, &run), report).await?;
    server.stop()
}

fn site(base: &Path, model: &Model) -> Outcome<Site> {
    let site = Site::new(base, "chat", 2)?;
    let key = site.top.join("key");
    std::fs::write(&key, "a-key-of-nobody")?;
    let path = site.top.join("wiki-browser.lua");
    let more = format!(
        r#"
wb.engine "model" {{
  type = "anthropic", model = "m", base_url = "http://{}", key = wb.secret.file "{key}",
}}
wb.assistant {{
  runtimes = {{ anthropic_api_key = "model" }}, tools = {{}},
  limits = {{ running = 200, running_person = 200 }},
}}
"#,
        model.address
    );
    std::fs::write(&path, std::fs::read_to_string(&path)? + &more)?;
    Ok(site)
}

/// Makes as many tokens as the streams need.
async fn tokens(server: &Server) -> Outcome<Vec<String>> {
    let mut tokens = Vec::new();
    for number in 0..STREAMS / PER_TOKEN {
        let body = json!({"name": format!("bench-{number}"), "scopes": ["read", "write"]});
        let made = server.post("/api/tokens", &body.to_string()).await?;
        tokens.push(made["token"].as_str().ok_or("no token")?.to_owned());
    }
    Ok(tokens)
}

fn question(token: &str, message: &str) -> Vec<u8> {
    let body = json!({"message": message}).to_string();
    format!(
        "POST /api/agent/chat-stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \
         {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Asks, reads to the end, and returns the run.
async fn ask(server: &Server, token: &str, message: &str) -> Outcome<String> {
    let mut stream = UnixStream::connect(&server.socket).await?;
    stream.write_all(&question(token, message)).await?;
    let mut lines = BufReader::new(stream).lines();
    while let Some(line) = lines.next_line().await? {
        if line.starts_with(r#"{"type":"done""#) {
            let done: Value = serde_json::from_str(&line)?;
            return match done["reason"].as_str() {
                Some("ok") => Ok(done["run_id"].as_str().unwrap_or_default().to_owned()),
                other => Err(format!("an answer ended with {other:?}").into()),
            };
        }
    }
    Err("an answer has no end".into())
}

/// How much later a token arrives through the server than straight from the model.
async fn latency(
    asked: &Asked,
    (server, model): (&Server, &Model),
    tokens: &[String],
    report: &mut Report,
) -> Outcome<()> {
    let count = (asked.seconds * 4.0 * PER_SECOND as f64) as usize;
    let words = model::words(count, PER_SECOND);
    let (idle, ..) = memory(server)?;
    let (mut medians, mut tails, mut largest) = (Vec::new(), Vec::new(), 0.0_f64);
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for _ in 0..asked.rounds {
        let theirs = all(model, |_| Ok((None, model.request(&words)))).await?;
        let socket = server.socket.clone();
        let watch = tokio::time::sleep(Duration::from_secs_f64(asked.seconds * 3.0));
        let of = |number: usize| {
            let token = &tokens[number / PER_TOKEN % tokens.len()];
            Ok((Some(socket.clone()), question(token, &words)))
        };
        let (ours, ()) = tokio::join!(all(model, of), watch_memory(server, watch, &mut largest));
        let ours = ours?;
        medians.push(median(&ours) - median(&theirs));
        tails.push(percentile(&ours, 99) - percentile(&theirs, 99));
        direct.push(median(&theirs));
        through.push(median(&ours));
    }
    let about = format!(
        "{STREAMS} streams of {PER_SECOND} tokens per second; median {:.2} ms, straight from the \
         model {:.2} ms",
        median(&through),
        median(&direct)
    );
    let name = "what a token takes longer, p50";
    report.figure("chat", name, median(&medians), "ms", Aim::AtMost(0.2), about);
    let name = "what a token takes longer, p99";
    report.figure("chat", name, median(&tails), "ms", Aim::AtMost(1.0), "");
    let about = format!("{largest:.1} MB, {idle:.1} MB before");
    let name = format!("memory of {STREAMS} streams");
    report.figure("chat", name, largest - idle, "MB", Aim::AtMost(60.0), about);
    Ok(())
}

async fn watch_memory(server: &Server, until: tokio::time::Sleep, largest: &mut f64) {
    until.await;
    if let Ok((resident, ..)) = memory(server) {
        *largest = largest.max(resident);
    }
}

/// Reads all streams at once; returns how long each token took, in milliseconds.
async fn all(
    model: &Model,
    of: impl Fn(usize) -> Outcome<(Option<camino::Utf8PathBuf>, Vec<u8>)>,
) -> Outcome<Vec<f64>> {
    let mut tasks = JoinSet::new();
    for number in 0..STREAMS {
        let (socket, request) = of(number)?;
        let (address, base) = (model.address, model.base);
        tasks.spawn(async move {
            match socket {
                None => read(TcpStream::connect(address).await?, &request, base).await,
                Some(socket) => read(UnixStream::connect(&socket).await?, &request, base).await,
            }
        });
    }
    let mut took = Vec::new();
    while let Some(done) = tasks.join_next().await {
        took.extend(done??);
    }
    Ok(took)
}

async fn read(
    mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    request: &[u8],
    base: Instant,
) -> Outcome<Vec<f64>> {
    stream.write_all(request).await?;
    let mut lines = BufReader::new(stream).lines();
    let mut took = Vec::new();
    while let Some(line) = lines.next_line().await? {
        if line.contains(r#""type":"done""#) || line.contains("message_stop") {
            return Ok(took);
        }
        if line.contains(r#""type":"error""#) {
            return Err(line.into());
        }
        if let Some(at) = model::stamp(&line) {
            took.push((base.elapsed().as_nanos() as f64 - at) / 1e6);
        }
    }
    Err("a stream has no end".into())
}

/// From the `POST` of a question to its `start`, against a request that only commits.
async fn questions(asked: &Asked, server: &Server, report: &mut Report) -> Outcome<()> {
    let commit =
        server.request("POST", "/api/agent/config", Some(r#"{"mode":"anthropic_api_key"}"#));
    let question = question(&server.token, &model::words(1, 1_000));
    let mut line = Line::connect(&server.socket).await?;
    let count = (asked.seconds * 50.0) as usize;
    let mut pairs = Vec::new();
    for _ in 0..asked.rounds {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..count {
            theirs.push(timed(&mut line, &commit).await?);
            ours.push(started(server, &question).await?);
        }
        pairs.push((median(&ours), median(&theirs)));
    }
    let name = "POST of a question until `start` / a commit";
    report.ratio("chat", name, &pairs, Aim::AtMost(3.0), |ours, theirs| {
        format!("{ours:.2} ms; a request that commits one row {theirs:.2} ms")
    });
    Ok(())
}

async fn started(server: &Server, question: &[u8]) -> Outcome<f64> {
    let mut stream = UnixStream::connect(&server.socket).await?;
    let begin = Instant::now();
    stream.write_all(question).await?;
    let mut lines = BufReader::new(stream).lines();
    let mut took = None;
    while let Some(line) = lines.next_line().await? {
        if line.starts_with(r#"{"type":"start""#) {
            took = Some(begin.elapsed().as_secs_f64() * 1_000.0);
        }
        if line.starts_with(r#"{"type":"done""#) {
            break;
        }
    }
    took.ok_or_else(|| "an answer does not start".into())
}

/// Fills the database behind the server's back; returns the long conversation. The stream of the
/// run gets many items.
fn fill(site: &Site, run: &str) -> Outcome<String> {
    progress(&format!("writing {MESSAGES} messages and {ITEMS} items"));
    let mut database = Connection::open(site.data.join("wiki.db"))?;
    let person: String = database.query_row(
        "SELECT person_id FROM chat_sessions ORDER BY created_ms LIMIT 1",
        [],
        |row| row.get(0),
    )?;
    database.execute_batch("PRAGMA synchronous = OFF")?;
    let tx = database.transaction()?;
    let mut words = crate::search::Vocabulary::new();
    let chats = OPEN - 1;
    let short = (MESSAGES - LONG) / chats;
    let mut first = String::new();
    for chat in 0..OPEN {
        let id = format!("018bcfe5-6800-7000-9000-{chat:012x}");
        let count = if chat == 0 { LONG } else { short };
        let last = format!("018bcfe5-6800-7000-a000-{:06x}{:06x}", chat, count - 1);
        tx.execute(
            "INSERT INTO chat_sessions (id, person_id, title, head_id, messages, created_ms, \
             touched_ms) VALUES (?1, ?2, ?3, ?4, ?5, 1700000000000, 1700000000000)",
            (&id, &person, words.text(5), &last, i64::try_from(count)?),
        )?;
        let mut insert = tx.prepare_cached(
            "INSERT INTO chat_messages (id, session_id, parent_id, role, state, body, created_ms) \
             VALUES (?1, ?2, ?3, ?4, 'whole', ?5, 1700000000000)",
        )?;
        let mut parent: Option<String> = None;
        for number in 0..count {
            let own = format!("018bcfe5-6800-7000-a000-{chat:06x}{number:06x}");
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            insert.execute((&own, &id, &parent, role, words.text(40)))?;
            parent = Some(own);
        }
        if chat == 0 {
            first = id;
        }
    }
    // As if none of them was in the index.
    tx.execute("DELETE FROM search_chat_state", [])?;
    tx.execute("UPDATE search_state SET is_damaged = 1", [])?;
    tx.commit()?;
    let file = site.data.join("jobs").join(run).join("chat.ndjson");
    let kept = std::fs::read_to_string(&file)?;
    let mut text = format!("{}\n", kept.lines().next().ok_or("an empty stream")?);
    for seq in 2..=ITEMS {
        text += &format!(
            "{{\"type\":\"text\",\"seq\":{seq},\"ts\":\"2026-01-01T00:00:00.000Z\",\"run_id\":\
             \"{run}\",\"step\":1,\"delta\":\"word \"}}\n"
        );
    }
    std::fs::write(&file, text)?;
    Ok(first)
}

async fn many(
    asked: &Asked,
    server: &Server,
    (long, run): (&str, &str),
    report: &mut Report,
) -> Outcome<()> {
    let get = |target: &str| server.request("GET", target, None);
    let begin = Instant::now();
    while server.get("/api/agent/sessions?query=anything").await?["is_building"] == true {
        if begin.elapsed() > PATIENCE {
            return Err("the messages are never in the index".into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = begin.elapsed().as_secs_f64();
    let name = format!("first indexing of {MESSAGES} messages");
    report.figure("chat", name, took, "s", Aim::None, "in the background");
    // The server closes a connection that is idle for long.
    let mut line = Line::connect(&server.socket).await?;
    let (idle, ..) = memory(server)?;
    for number in 0..OPEN {
        let id = format!("018bcfe5-6800-7000-9000-{number:012x}");
        let target = format!("/api/agent/session/history?session_id={id}");
        timed(&mut line, &get(&target)).await?;
    }
    let (resident, ..) = memory(server)?;
    let about = format!("{resident:.1} MB, {idle:.1} MB before");
    let name = format!("memory after {OPEN} conversations were opened");
    report.figure("chat", name, resident - idle, "MB", Aim::AtMost(40.0), about);
    let words = Arc::new(crate::search::Vocabulary::new());
    let count = asked.rounds * 20;
    let (mut searches, mut common) = (Vec::new(), Vec::new());
    for number in 0..count {
        let of = |place: usize| format!("/api/agent/sessions?query={}", words.word(place));
        searches.push(timed(&mut line, &get(&of(100 + number * 7))).await?);
        common.push(timed(&mut line, &get(&of(number % 3))).await?);
    }
    for (name, times) in [("a word", &searches), ("the most common words", &common)] {
        let about =
            format!("median {:.1} ms, slowest {:.1} ms", median(times), percentile(times, 100));
        let name = format!("search of {MESSAGES} messages: {name}, p99");
        report.figure("chat", name, percentile(times, 99), "ms", Aim::AtMost(50.0), about);
    }
    for (name, target, wanted, most) in [
        (
            format!("page of a conversation of {LONG} messages"),
            format!("/assistant/{long}"),
            "chat-thread".to_owned(),
            100.0,
        ),
        (
            format!("re-attaching after {ITEMS} items"),
            format!("/api/agent/runs/{run}/events?after={}&follow=false", ITEMS - 10),
            format!("\"seq\":{ITEMS},"),
            20.0,
        ),
    ] {
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(whole(server, &target, &wanted).await?);
        }
        let (p99, slowest) = (percentile(&times, 99), percentile(&times, 100));
        let about = format!("p99 {p99:.1} ms, slowest {slowest:.1} ms");
        report.figure("chat", name, median(&times), "ms", Aim::AtMost(most), about);
    }
    Ok(())
}

/// Returns how long an answer takes to its last byte, in milliseconds; it must contain a text.
async fn whole(server: &Server, target: &str, wanted: &str) -> Outcome<f64> {
    let request = String::from_utf8(server.request("GET", target, None))?;
    let request = request.replace("\r\nHost:", "\r\nConnection: close\r\nHost:");
    let mut stream = UnixStream::connect(&server.socket).await?;
    let begin = Instant::now();
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut bytes).await?;
    let took = begin.elapsed().as_secs_f64() * 1_000.0;
    let text = String::from_utf8_lossy(&bytes);
    match text.starts_with("HTTP/1.1 200") && text.contains(wanted) {
        true => Ok(took),
        false => Err(format!("no {wanted} in {}", &text[..text.floor_char_boundary(400)]).into()),
    }
}
