//! A site of 10,000 documents and 50,000 Topics: time until it serves, the first indexing and its
//! cost, search times, and how soon a commit is found.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::Asked;
use crate::report::{Aim, Report, median, percentile};
use crate::site::{Outcome, Server, Site, progress};
use crate::wire::Line;

const DOCUMENTS: usize = 10_000;
const TOPICS: usize = 50_000;
/// Different words of the texts.
const WORDS: usize = 20_000;
/// Longest wait for the index.
const PATIENCE: Duration = Duration::from_secs(600);

/// The searches: what they are like, and how many times each is asked in a round. `{n}` is another
/// word each time.
const SEARCHES: [(&str, &str); 12] = [
    ("a rare word", "query={rare}"),
    ("a usual word", "query={usual}"),
    ("the commonest word", "query={common}"),
    ("two of the commonest words", "query={common}+{second}"),
    ("a phrase of common words", "query=%22{common}+{second}%22"),
    ("a beginning of three letters", "query={three}*"),
    ("a beginning of two letters", "query={two}*"),
    ("a common word without another", "query={common}+-{second}"),
    ("a common word, below a folder", "query={common}&path=docs/d07/"),
    ("a common word, by nobody", "query={common}&author=system"),
    ("a common word, in discarded Topics", "query={common}&status=discarded"),
    ("the commonest word, page 40", "query={common}&after=780"),
];

/// Words that are made of syllables, the first ones far more common than the last ones.
pub(crate) struct Vocabulary {
    words: Vec<String>,
    sums: Vec<f64>,
    seed: u64,
}

impl Vocabulary {
    pub(crate) fn new() -> Vocabulary {
        let mut made =
            Vocabulary { words: Vec::new(), sums: Vec::new(), seed: 0x9e37_79b9_7f4a_7c15 };
        let mut seen = std::collections::HashSet::new();
        while made.words.len() < WORDS {
            let mut word = String::new();
            for _ in 0..2 + made.below(3) {
                word.push(char::from(b"bcdfghjklmnprstvw"[made.below(17)]));
                word.push(char::from(b"aeiou"[made.below(5)]));
            }
            if seen.insert(word.clone()) {
                made.words.push(word);
            }
        }
        let mut sum = 0.0;
        for place in 0..WORDS {
            sum += 1.0 / (place + 1) as f64;
            made.sums.push(sum);
        }
        made
    }

    /// Returns a word by its place; the first ones are the most common.
    pub(crate) fn word(&self, place: usize) -> &str {
        &self.words[place % WORDS]
    }

    /// Returns a number below another: the same ones in each run.
    fn below(&mut self, end: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as usize % end
    }

    pub(crate) fn text(&mut self, words: usize) -> String {
        let mut text = String::new();
        for count in 1..=words {
            let at = self.below(1 << 30) as f64 / f64::from(1 << 30);
            let at = at * self.sums.last().copied().unwrap_or(1.0);
            let place = self.sums.partition_point(|it| *it < at).min(WORDS - 1);
            text.push_str(&self.words[place]);
            text.push_str(if count % 90 == 0 { ".\n\n" } else { " " });
        }
        text
    }
}

/// Measures all of it.
pub(crate) async fn measure(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    let mut words = Vocabulary::new();
    let site = make(base, &mut words).await?;
    first_indexing(&site, report).await?;
    let mut starts = Vec::new();
    for _ in 0..asked.rounds {
        let (server, took) = site.serve().await?;
        starts.push(took.as_secs_f64() * 1_000.0);
        wait_ready(&server).await?;
        server.stop()?;
    }
    let about = format!("to the first answer; the slowest {:.0} ms", percentile(&starts, 100));
    report.figure("search", "start-up", median(&starts), "ms", Aim::AtMost(1_000.0), about);
    let (server, _) = site.serve().await?;
    let begin = Instant::now();
    wait_ready(&server).await?;
    let took = begin.elapsed().as_secs_f64() * 1_000.0;
    let name = "start-up: until nothing is left to compare";
    report.figure("search", name, took, "ms", Aim::None, "in the background");
    searches(asked, &server, &words, report).await?;
    let (resident, own, peak) = memory(&server)?;
    let about = format!("{own:.0} MB of it its own; at most {peak:.0} MB in this life");
    report.figure("search", "memory after it", resident, "MB", Aim::AtMost(150.0), about);
    noticed(&site, &server, report).await?;
    server.stop()
}

async fn make(base: &Path, words: &mut Vocabulary) -> Outcome<Site> {
    progress(&format!("making {DOCUMENTS} documents and {TOPICS} Topics"));
    let site = Site::new(base, "wiki", 2)?;
    let mut bytes = 0;
    for number in 0..DOCUMENTS {
        let folder = site.top.join(format!("docs/d{:02}", number % 100));
        std::fs::create_dir_all(&folder)?;
        let length = 200 + words.below(800);
        let text = format!("# {}\n\n{}\n", words.text(4), words.text(length));
        bytes += text.len();
        std::fs::write(folder.join(format!("page-{number:05}.md")), text)?;
    }
    commit(&site, "many")?;
    site.serve().await?.0.stop()?;
    let database = Connection::open(site.data.join("wiki.db"))?;
    database.execute_batch("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; BEGIN")?;
    let by: String =
        database.query_row("SELECT 'person:' || id FROM persons LIMIT 1", [], |row| row.get(0))?;
    let mut topic = database.prepare(
        "INSERT INTO topics (id, source_path, is_global, title, status, created_by, created_ms,
            closed_ms) VALUES (?1, ?2, 1, ?3, ?4, ?5, 1700000000000, ?6)",
    )?;
    let mut message = database.prepare(
        "INSERT INTO topic_messages (id, topic_id, sequence, author, body, created_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, 1700000000000)",
    )?;
    for number in 0..TOPICS {
        let id = format!("018bcfe5-6800-7000-9000-{number:012x}");
        let page = number % DOCUMENTS;
        let path = format!("docs/d{:02}/page-{page:05}.md", page % 100);
        let is_open = number % 4 == 0;
        let (status, closed) =
            if is_open { ("open", None) } else { ("incorporated", Some(1_700_000_000_000_i64)) };
        topic.execute((&id, path, words.text(5), status, &by, closed))?;
        for sequence in 1..=2 {
            let own = format!("018bcfe5-6800-7000-a000-{:012x}", number * 2 + sequence);
            let body = words.text(30);
            bytes += body.len();
            message.execute((own, &id, i64::try_from(sequence)?, &by, body))?;
        }
    }
    // As a database of before the search: nothing is taken in.
    database.execute("UPDATE search_state SET is_damaged = 1", [])?;
    database.execute_batch("COMMIT")?;
    progress(&format!("they have {} MB of text", bytes / 1_000_000));
    Ok(site)
}

fn commit(site: &Site, message: &str) -> Outcome<()> {
    let name = ["-c", "user.name=B", "-c", "user.email=b@example.org"];
    for args in [&["add", "-A"][..], &[&name[..], &["commit", "-q", "-m", message]].concat()] {
        let done = Command::new("git").args(args).current_dir(&site.top).status()?;
        if !done.success() {
            return Err(format!("git {args:?} failed").into());
        }
    }
    Ok(())
}

async fn first_indexing(site: &Site, report: &mut Report) -> Outcome<()> {
    let (server, started) = site.serve().await?;
    let begin = Instant::now();
    let mut line = Line::connect(&server.socket).await?;
    let list = server.request("GET", "/api/topics?limit=20", None);
    let search = server.request("GET", "/api/search?query=anything", None);
    let (mut lists, mut searches, mut writes, mut peak) = (vec![], vec![], vec![], 0.0_f64);
    while !is_ready(&mut line, &server).await? {
        if begin.elapsed() > PATIENCE {
            return Err("the index is never ready".into());
        }
        lists.push(timed(&mut line, &list).await?);
        searches.push(timed(&mut line, &search).await?);
        let body = r#"{"source_path":"docs/page-00.md","global":true,"body":"Written meanwhile."}"#;
        let write = server.request("POST", "/api/topics", Some(body));
        let asked = Instant::now();
        let (status, said) = line.ask(&write).await?;
        // Topics of one Source are limited: beyond that nothing is written.
        if status == 201 {
            writes.push(asked.elapsed().as_secs_f64() * 1_000.0);
        } else if status != 409 {
            return Err(format!("{status}: {}", String::from_utf8_lossy(said)).into());
        }
        peak = peak.max(memory(&server)?.0);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let cpu = server.cpu_us()? / 1_000_000.0;
    let size = std::fs::metadata(site.data.join("wiki.db"))?.len() as f64 / 1e6;
    let about = format!("{cpu:.1} s of a processor; the database has {size:.0} MB then");
    report.figure("search", "first indexing", seconds, "s", Aim::None, about);
    let name = "first indexing: start-up";
    let ms = started.as_secs_f64() * 1_000.0;
    report.figure("search", name, ms, "ms", Aim::AtMost(1_000.0), "to the first answer");
    report.figure("search", "first indexing: memory", peak, "MB", Aim::AtMost(150.0), "the most");
    for (name, times) in
        [("a list", &lists), ("a search", &searches), ("a Topic is opened", &writes)]
    {
        let (p50, slowest) = (median(times), percentile(times, 100));
        let about = format!("median {p50:.1} ms, slowest {slowest:.1} ms of {}", times.len());
        let name = format!("first indexing: {name} meanwhile, p99");
        report.figure("search", name, percentile(times, 99), "ms", Aim::None, about);
    }
    server.stop()
}

async fn is_ready(line: &mut Line, server: &Server) -> Outcome<bool> {
    let ask = server.request("GET", "/api/search/index", None);
    let (_, body) = line.ask(&ask).await?;
    Ok(serde_json::from_slice::<serde_json::Value>(body)?["state"] == "ready")
}

async fn wait_ready(server: &Server) -> Outcome<()> {
    let begin = Instant::now();
    let mut line = Line::connect(&server.socket).await?;
    while !is_ready(&mut line, server).await? {
        if begin.elapsed() > PATIENCE {
            return Err("the index is never ready".into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

pub(crate) async fn timed(line: &mut Line, request: &[u8]) -> Outcome<f64> {
    let begin = Instant::now();
    let (status, body) = line.ask(request).await?;
    let took = begin.elapsed().as_secs_f64() * 1_000.0;
    match status {
        200 => Ok(took),
        _ => Err(format!("{status}: {}", String::from_utf8_lossy(body)).into()),
    }
}

async fn searches(
    asked: &Asked,
    server: &Server,
    words: &Vocabulary,
    report: &mut Report,
) -> Outcome<()> {
    let mut line = Line::connect(&server.socket).await?;
    let times = asked.rounds * 20;
    let mut all: Vec<Vec<f64>> = vec![Vec::new(); SEARCHES.len()];
    for time in 0..times {
        for (place, (_, query)) in SEARCHES.iter().enumerate() {
            let at = |place: usize| words.words[place % WORDS].as_str();
            let query = query
                .replace("{rare}", at(5_000 + time * 97))
                .replace("{usual}", at(100 + time))
                .replace("{common}", at(time % 3))
                .replace("{second}", at(3 + time % 5))
                .replace("{three}", &at(time)[..3])
                .replace("{two}", &at(time)[..2]);
            let target = format!("/api/search?{query}");
            all[place].push(timed(&mut line, &server.request("GET", &target, None)).await?);
        }
    }
    for ((name, _), times) in SEARCHES.iter().zip(&all) {
        let (p50, slowest) = (median(times), percentile(times, 100));
        let about = format!("median {p50:.1} ms, slowest {slowest:.1} ms");
        let name = format!("search: {name}, p99");
        report.figure("search", name, percentile(times, 99), "ms", Aim::AtMost(50.0), about);
    }
    let every: Vec<f64> = all.concat();
    let about = format!("median {:.1} ms of {} searches", median(&every), every.len());
    let p99 = percentile(&every, 99);
    report.figure("search", "all searches, p99", p99, "ms", Aim::AtMost(50.0), about);
    Ok(())
}

/// How soon a word of a new commit is found by somebody who asks for it again and again.
async fn noticed(site: &Site, server: &Server, report: &mut Report) -> Outcome<()> {
    let mut line = Line::connect(&server.socket).await?;
    let mut took = Vec::new();
    for round in 0..5 {
        let word = format!("noticed{round}");
        std::fs::write(site.top.join("docs/d07/page-00007.md"), format!("# Seven\n\n{word}\n"))?;
        commit(site, "one")?;
        let (begin, target) = (Instant::now(), format!("/api/search?query={word}&kind=source"));
        let ask = server.request("GET", &target, None);
        loop {
            let (_, body) = line.ask(&ask).await?;
            let found: serde_json::Value = serde_json::from_slice(body)?;
            if found["items"].as_array().is_some_and(|it| !it.is_empty()) {
                break;
            }
            if begin.elapsed() > PATIENCE {
                return Err("a commit is never found".into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        took.push(begin.elapsed().as_secs_f64() * 1_000.0);
    }
    let about = format!("median of five commits; the slowest {:.0} ms", percentile(&took, 100));
    let name = "a commit is found, once it is asked for";
    report.figure("search", name, median(&took), "ms", Aim::AtMost(2_000.0), about);
    Ok(())
}

/// Resident memory, what of it is the server's own, and the most there was, in MB.
pub(crate) fn memory(server: &Server) -> Outcome<(f64, f64, f64)> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.pid()))?;
    let field = |name: &str| -> f64 {
        let line = text.lines().find(|it| it.split(':').next() == Some(name));
        let word = line.and_then(|it| it.split_ascii_whitespace().nth(1));
        word.and_then(|it| it.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
    };
    Ok((field("VmRSS"), field("RssAnon"), field("VmHWM")))
}
