//! Channels: posting, waking agents, the step from one turn to the next, and long conversations.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, named_params};
use serde_json::Value;

use crate::Asked;
use crate::instances::{end, site, until_all};
use crate::report::{Aim, Report, median, percentile};
use crate::site::{Outcome, Server, Site, progress};
use crate::wire::{Events, Line};

/// Agents in the room.
const AGENTS: usize = 20;
/// Turns of one sample in a long conversation.
const TURNS: usize = 5;
/// How long a room may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// An agent that records when a message arrives and when its turn ends, in microseconds.
const STAMP: &str = concat!(
    r#"while read -r l; do echo "got ${EPOCHREALTIME/./}" >> "$STAMPS"; "#,
    r#"printf '%s\n' "$l" >> "$STAMPS.text"; "#,
    r#"id=${l#*'"id":"'}; id=${id%%'"'*}; printf '{"turn":"began","id":"%s"}\n' "$id"; "#,
    r#"sleep 0.3; echo "end ${EPOCHREALTIME/./}" >> "$STAMPS"; "#,
    r#"printf '{"turn":"ended","id":"%s","text":"x"}\n' "$id"; done"#
);
/// An agent that answers at once.
const ECHO: &str = concat!(
    r#"while read -r l; do id=${l#*'"id":"'}; id=${id%%'"'*}; "#,
    r#"printf '{"turn":"ended","id":"%s","text":"x"}\n' "$id"; done"#
);

/// All of it.
pub(crate) async fn measure(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    let stamps = base.join("stamps");
    let bench = talking(base, "channels", &stamps.to_string_lossy())?;
    let (server, _) = bench.serve().await?;
    until_all(&server, AGENTS + 2).await?;
    posts(asked, &server, report).await?;
    woken(asked, &server, report).await?;
    steps(asked, &server, &stamps, report).await?;
    end(server).await?;
    long(asked, base, report).await
}

/// A site with the agents, and with limits that the measurements do not reach.
fn talking(base: &Path, name: &str, stamps: &str) -> Outcome<Site> {
    let bench = site(base, name, (2, &declared(stamps)))?;
    let path = bench.top.join("wiki-browser.lua");
    let limits = "grace = \"2s\", channels = { hops = 16, without_person = 100, per_root = 8, \
                  pair = 30, channel = 120, members = 50 }";
    let text = std::fs::read_to_string(&path)?.replace("grace = \"2s\"", limits);
    std::fs::write(path, text)?;
    std::fs::write(bench.top.join("quiet.md"), "Nobody answers here.\n")?;
    Ok(bench)
}

fn declared(stamps: &str) -> String {
    let engine = |name: &str, program: &str, more: &str| {
        let command = format!("{{ \"/bin/bash\", \"-c\", [[{program}]] }}");
        format!(
            "wb.engine \"{name}\" {{ type = \"stream\", speaks = \"lines\", command = {command}, \
             {more} }}\n"
        )
    };
    let mut text = engine("echo", ECHO, "") + &engine("stamps", STAMP, &env(stamps));
    text += concat!(
        "wb.channel_type \"quiet\" { about = \"Wakes nobody\", intent = \"quiet.md\", ",
        "wakes = \"nothing\" }\n",
    );
    for number in 0..=AGENTS {
        let fields = "about = \"Answers\", engine = \"echo\", autostart = \"always\"";
        text += &format!("wb.agent \"a{number}\" {{ {fields} }}\n");
    }
    text + "wb.agent \"slow\" { about = \"Stamps\", engine = \"stamps\", autostart = \"always\" }\n"
}

fn env(stamps: &str) -> String {
    format!("env = {{ STAMPS = \"{stamps}\" }}")
}

/// Creates a channel with agents; returns its slug.
async fn room(server: &Server, name: &str, kind: &str, agents: &[String]) -> Outcome<String> {
    let members: Vec<Value> =
        agents.iter().map(|agent| serde_json::json!({"agent": agent})).collect();
    let body = serde_json::json!({"name": name, "type": kind, "members": members}).to_string();
    let made = server.post("/api/channels", &body).await?;
    Ok(made["slug"].as_str().ok_or("no channel was made")?.to_owned())
}

fn names() -> Vec<String> {
    (0..AGENTS).map(|number| format!("a{number}")).collect()
}

/// Sends the same request so often; returns what each took, in milliseconds.
async fn timed(server: &Server, request: &[u8], count: usize) -> Outcome<Vec<f64>> {
    let mut line = Line::connect(&server.socket).await?;
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        let begin = Instant::now();
        let (status, body) = line.ask(request).await?;
        if !(200..300).contains(&status) {
            return Err(format!("{status}: {}", String::from_utf8_lossy(body)).into());
        }
        took.push(begin.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(took)
}

/// A message that 20 agents will read later, against one message to a person.
async fn posts(asked: &Asked, server: &Server, report: &mut Report) -> Outcome<()> {
    let slug = room(server, "quiet", "quiet", &names()).await?;
    let target = format!("/api/channels/{slug}/messages");
    let post = server.request("POST", &target, Some(r#"{"body":"What next?"}"#));
    let me = server.get("/api/me").await?;
    let name = me["person"]["name"].as_str().ok_or("nobody is signed in")?;
    let body = serde_json::json!({"to": format!("person:{name}"), "payload": "What next?"});
    let plain = server.request("POST", "/api/messages", Some(&body.to_string()));
    let count = (asked.seconds * 100.0) as usize;
    let (mut pairs, mut all) = (Vec::new(), Vec::new());
    for _ in 0..asked.rounds {
        let theirs = median(&timed(server, &plain, count).await?);
        let ours = timed(server, &post, count).await?;
        pairs.push((median(&ours), theirs));
        all.extend(ours);
    }
    let about = |ours, theirs| format!("{ours:.2} ms; one message {theirs:.2} ms");
    let title = "POST a message that 20 agents get / POST one message";
    report.ratio("channels", title, &pairs, Aim::AtMost(2.0), about);
    let p99 = percentile(&all, 99);
    report.figure("channels", "the same, p99", p99, "ms", Aim::AtMost(10.0), "one after the other");
    server.post(&format!("/api/channels/{slug}/complete"), "{}").await?;
    Ok(())
}

/// Posts, and waits for so many turns; returns when the last was over, in milliseconds.
async fn turns(server: &Server, slug: &str, (text, count): (&str, usize)) -> Outcome<f64> {
    let target = format!("/api/channels/{slug}/messages");
    let body = serde_json::json!({"body": text}).to_string();
    let mut events = Events::listen(server).await?;
    let begin = Instant::now();
    server.post(&target, &body).await?;
    let ended = events.until(b"event: turn_ended\n", count);
    tokio::time::timeout(PATIENCE, ended).await.map_err(|_| "the room does not answer")??;
    Ok(begin.elapsed().as_secs_f64() * 1_000.0)
}

/// 20 agents woken by one message, and each of them alone; and how many turns that costs.
async fn woken(asked: &Asked, server: &Server, report: &mut Report) -> Outcome<()> {
    let slug = room(server, "woken", "workshop", &names()).await?;
    let shown = format!("/api/channels/{slug}");
    let mut pairs = Vec::new();
    for round in 0..asked.rounds {
        let mut slowest: f64 = 0.0;
        for number in 0..4 {
            let text = format!("@a{} and you?", (round * 4 + number) % AGENTS);
            slowest = slowest.max(turns(server, &slug, (&text, 1)).await?);
        }
        let all = turns(server, &slug, ("What next?", AGENTS)).await?;
        pairs.push((all, slowest));
    }
    let title = "20 agents woken: the last turn / the slowest of single ones";
    let about = |ours, theirs| format!("{ours:.0} ms; one {theirs:.0} ms");
    report.ratio("channels", title, &pairs, Aim::AtMost(2.0), about);
    let last: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
    let title = "20 agents woken: until the last has answered";
    report.figure("channels", title, median(&last), "ms", Aim::AtMost(300.0), "");
    // Whatever the answers wake would be counted by now: each one ended a turn.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let turns = server.get(&shown).await?["spent"]["turns"].as_f64().ok_or("no turns")?;
    let wanted = (asked.rounds * (AGENTS + 4)) as f64;
    let about = format!("{turns:.0} turns of {wanted:.0}");
    let title = "turns that answers cause";
    report.figure("channels", title, turns - wanted, "turns", Aim::AtMost(0.0), about);
    server.post(&format!("{shown}/complete"), "{}").await?;
    Ok(())
}

/// From the end of a turn until the agent has the next block; and how long a block is.
async fn steps(asked: &Asked, server: &Server, stamps: &Path, report: &mut Report) -> Outcome<()> {
    let slug = room(server, "steps", "workshop", &["slow".to_owned()]).await?;
    let target = format!("/api/channels/{slug}/messages");
    for _ in 0..asked.rounds {
        server.post(&target, r#"{"body":"one?"}"#).await?;
        tokio::time::sleep(Duration::from_millis(150)).await;
        turns(server, &slug, ("two?", 2)).await?;
    }
    let text = std::fs::read_to_string(stamps)?;
    let mut gaps = Vec::new();
    let lines: Vec<(&str, f64)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(word, at)| Ok((word, at.parse::<f64>()?)))
        .collect::<Outcome<_>>()?;
    for pair in lines.chunks_exact(4) {
        if let [("got", _), ("end", end), ("got", next), _] = pair {
            gaps.push((next - end) / 1_000.0);
        }
    }
    let p95 = percentile(&gaps, 95);
    let about = format!("p50 {:.1} ms of {}", median(&gaps), gaps.len());
    let title = "end of a turn → the next block arrives, p95";
    report.figure("channels", title, p95, "ms", Aim::AtMost(30.0), about);
    let blocks = std::fs::read_to_string(format!("{}.text", stamps.display()))?;
    let mut lengths = Vec::new();
    for line in blocks.lines() {
        let block: Value = serde_json::from_str(line)?;
        lengths.push(block["text"].as_str().ok_or("a block without a text")?.len());
    }
    // Four bytes are about one token of English.
    let of = |at: usize| lengths.get(at).map_or(f64::NAN, |bytes| *bytes as f64 / 4.0);
    let title = "tokens of the first block: primer, intent, one message";
    report.figure("channels", title, of(0), "tokens", Aim::AtMost(425.0), "bytes / 4");
    let title = "tokens of a block with one message of four letters";
    report.figure("channels", title, of(1), "tokens", Aim::AtMost(25.0), "bytes / 4");
    Ok(())
}

const MESSAGES: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
    INSERT INTO messages (id, sort, sender, to_class, to_name, payload, thread, created_ms)
    SELECT printf('018bcfe5-6800-7000-a000-%012x', i), 'message', :by, 'channel', :slug,
        '\"A line of a long conversation, number ' || i || '.\"',
        printf('018bcfe5-6800-7000-a000-%012x', i), 1700000000000 + i FROM n";
const LINES: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
    INSERT INTO channel_messages (message_id, channel, sequence, type, author, root, hop,
        created_ms)
    SELECT printf('018bcfe5-6800-7000-a000-%012x', i), :channel, i, 'message', :by,
        printf('018bcfe5-6800-7000-a000-%012x', i), 0, 1700000000000 + i FROM n";
const DELIVERIES: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
    INSERT INTO deliveries (message_id, to_class, to_name, state, room, sent_ms, ended_ms)
    SELECT printf('018bcfe5-6800-7000-a000-%012x', i), 'agent', 'a0', 'confirmed', :channel,
        1700000000000 + i, 1700000000001 + i FROM n";
const LAST: &str = "
    UPDATE channels SET last_sequence = :count, status = 'active', active_ms = created_ms
    WHERE number = :channel";

/// A site with a conversation of so many messages and a tenth as many deliveries.
struct Long {
    server: Server,
    slug: String,
    _site: Site,
}

async fn filled(base: &Path, name: &str, count: u32) -> Outcome<Long> {
    progress(&format!("making a channel with {count} messages"));
    let bench = talking(base, name, "/dev/null")?;
    let (server, _) = bench.serve().await?;
    until_all(&server, AGENTS + 2).await?;
    let slug = room(&server, "long", "workshop", &["a0".to_owned()]).await?;
    let number = server.get(&format!("/api/channels/{slug}")).await?["number"].clone();
    let number = number.as_i64().ok_or("no number")?;
    server.stop()?;
    let (path, named) = (bench.data.join("wiki.db"), slug.clone());
    tokio::task::spawn_blocking(move || fill(&Connection::open(path)?, number, &named, count))
        .await??;
    let (server, _) = bench.serve().await?;
    until_all(&server, AGENTS + 2).await?;
    Ok(Long { server, slug, _site: bench })
}

fn fill(connection: &Connection, channel: i64, slug: &str, count: u32) -> Outcome<()> {
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; BEGIN")?;
    let by: String =
        connection
            .query_row("SELECT 'person:' || id FROM persons LIMIT 1", [], |row| row.get(0))?;
    // What its creation said is replaced.
    connection.execute_batch("DROP TRIGGER channel_messages_kept")?;
    connection.execute("DELETE FROM channel_messages WHERE channel = ?", [channel])?;
    let named = named_params! {":count": count, ":by": by, ":slug": slug};
    connection.execute(MESSAGES, named)?;
    let named = named_params! {":count": count, ":by": by, ":channel": channel};
    connection.execute(LINES, named)?;
    let named = named_params! {":count": (count / 10).max(100), ":channel": channel};
    connection.execute(DELIVERIES, named)?;
    connection.execute(LAST, named_params! {":count": count, ":channel": channel})?;
    connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(())
}

/// Returns what a turn takes, from a message to its answer, in milliseconds.
async fn answered(long: &Long) -> Outcome<f64> {
    let mut took = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        // A guard reports output at most every 50 ms, so turns in a row would measure that.
        tokio::time::sleep(Duration::from_millis(120)).await;
        took.push(turns(&long.server, &long.slug, ("@a0 and now?", 1)).await?);
    }
    Ok(median(&took))
}

/// Posting, a turn and the page in a long conversation, against a short one.
async fn long(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    let large = filled(base, "long", asked.rows).await?;
    let small = filled(base, "short", 1_000).await?;
    let (mut posts, mut answers, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..asked.rounds {
        let mut took = Vec::new();
        for long in [&large, &small] {
            let path = format!("/api/channels/{}/messages", long.slug);
            let body = format!(r#"{{"body":"@chair note {round}"}}"#);
            let post = long.server.request("POST", &path, Some(&body));
            let page = format!("/channels/{}", long.slug);
            let page = long.server.request("GET", &page, None);
            let posted = median(&timed(&long.server, &post, 30).await?);
            let answered = answered(long).await?;
            took.push((posted, answered, median(&timed(&long.server, &page, 20).await?)));
        }
        let [ours, theirs] = took[..] else { return Err("two sides are measured".into()) };
        posts.push((ours.0, theirs.0));
        answers.push((ours.1, theirs.1));
        pages.push((ours.2, theirs.2));
    }
    let about = |ours, theirs| format!("{ours:.2} ms; of 1,000 messages {theirs:.2} ms");
    for (title, pairs) in [
        ("POST in a long conversation / in a short one", &posts),
        ("a turn in a long conversation / in a short one", &answers),
        ("the page of a long conversation / of a short one", &pages),
    ] {
        report.ratio("channels", title, pairs, Aim::AtMost(1.3), about);
    }
    let page: Vec<f64> = pages.iter().map(|pair| pair.0).collect();
    let title = "the page of a long conversation";
    report.figure("channels", title, median(&page), "ms", Aim::AtMost(50.0), "60 messages");
    end(large.server).await?;
    end(small.server).await
}
