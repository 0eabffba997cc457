//! An operator's tasks: old files, metrics, the log, a damaged database.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use camino::Utf8Path;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::desk::{ADDS_A_LINE, PROPOSES, operator, refused, said, text};
use crate::support::{Bench, Call, until};

const DAY_MS: i64 = 24 * 3_600_000;

fn bench() -> Bench {
    let bench = Bench::new();
    bench.topic_kind("incorporate", PROPOSES, ADDS_A_LINE);
    bench.word_kind("note", "timeout = \"20s\", lane = \"word\"", "echo \"said $word\"");
    bench.word_kind("long", "timeout = \"1h\", lane = \"word\"", "exec sleep 600");
    bench
}

/// Makes a job look as if it had ended so many days ago.
fn age(bench: &Bench, job: &str, days: i64) {
    let connection = Connection::open(bench.data.join("wiki.db")).unwrap();
    let changed = connection
        .execute(
            "UPDATE agent_jobs SET completed_ms = completed_ms - ?1 WHERE id = ?2",
            (days * DAY_MS, job),
        )
        .unwrap();
    assert_eq!(changed, 1);
}

#[test]
fn old_folders_of_jobs_go_and_nothing_else_does() {
    let bench = bench();
    let server = bench.serve();
    let [old, young, late] = [1, 2, 3].map(|n| {
        let job = bench.job("note", json!({"word": format!("w{n}")}));
        bench.ended(&job);
        job
    });
    let running = bench.job("long", json!({"word": "busy"}));
    bench.wait_status(&running, "running");
    let waiting = bench.job("note", json!({"word": "busy"}));
    let folder = |job: &str| bench.data.join("jobs").join(job);
    // What an agent may leave: links out, folders that may not be entered.
    let kept = bench.base.join("precious");
    std::fs::write(&kept, "mine").unwrap();
    symlink(&kept, folder(&old).join("link")).unwrap();
    symlink(&bench.base, folder(&old).join("folder")).unwrap();
    std::fs::create_dir_all(folder(&old).join("a/b/c")).unwrap();
    std::fs::create_dir(bench.data.join("jobs/not-a-job")).unwrap();
    age(&bench, &old, 31);
    age(&bench, &late, 29);
    let dry = bench.json(&["cleanup", "--dry-run"]);
    assert_eq!(dry["jobs"]["removed"][0]["job_id"], json!(old), "{dry:#}");
    assert_eq!(
        (&dry["jobs"]["removed_count"], &dry["jobs"]["removed"][0]["why"]),
        (&json!(1), &json!("age"))
    );
    assert!(folder(&old).exists());
    assert!(said(&bench, &["cleanup", "--dry-run"]).contains("1 job folders would be removed"));
    bench.json(&["cleanup"]);
    assert!(!folder(&old).exists() && folder(&young).exists() && folder(&late).exists());
    assert!(folder(&running).exists() && bench.data.join("jobs/not-a-job").exists());
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "mine");
    assert_eq!(bench.show(&waiting)["status"], "queued");
    // The row stays, and says what became of its log.
    assert_eq!(bench.show(&old)["status"], "succeeded");
    for part in ["log", "stream", "prompt"] {
        let gone = bench.get(&format!("/api/agent/jobs/{old}/{part}"));
        assert_eq!(gone.refusal(), (404, "log_expired"), "{part}");
        assert!(gone.body["error"]["message"].as_str().unwrap().contains("were removed on 20"));
        bench.get(&format!("/api/agent/jobs/{young}/{part}")).ok();
    }
    bench.get(&format!("/jobs/{old}")).ok();
    refused(&bench, &["job", "log", &old], 4, "log_expired");
    assert_eq!(bench.json(&["cleanup"])["jobs"]["removed_count"], 0);
    server.stop();
}

#[test]
fn a_kill_while_folders_are_removed_is_made_good() {
    for point in ["retention_noted", "retention_step"] {
        let bench = bench();
        let server = bench.serve();
        let job = bench.job("note", json!({"word": "w"}));
        bench.ended(&job);
        server.stop();
        age(&bench, &job, 31);
        let folder = bench.data.join("jobs").join(&job);
        for n in 0..2_500 {
            std::fs::write(folder.join(format!("f{n}")), "").unwrap();
        }
        let mut server = bench.start(&[("WB_CRASH_AT", point)]);
        assert!(!server.wait().0.success(), "{point} is never passed");
        let server = bench.serve();
        until("nothing of it is left", || {
            let names = bench.data.join("jobs").read_dir_utf8().unwrap();
            names.map(|it| it.unwrap().file_name().to_owned()).all(|it| !it.contains(&job))
        });
        let gone = bench.get(&format!("/api/agent/jobs/{job}/log"));
        assert_eq!(gone.refusal(), (404, "log_expired"));
        server.stop();
    }
}

#[test]
fn commands_find_the_data_folder_that_the_script_names() {
    let mut bench = bench();
    // A site that was moved out of `data`, whose server was killed there.
    bench.serve().kill();
    bench.data = bench.base.join("elsewhere");
    let server = bench.serve();
    assert!(said(&bench, &["status"]).contains("ready"));
    for command in [&["login"][..], &["reload"], &["job", "list"], &["workspace", "list"]] {
        said(&bench, command);
    }
    let named = bench.top.join("wiki-browser.lua").to_string();
    operator(&bench, &["status", "--config", &named]).current_dir("/").assert().success();
    let backup = bench.json(&["backup"])["path"].as_str().unwrap().to_owned();
    assert!(backup.starts_with(bench.data.as_str()), "{backup}");
    // A script with an error names no folder; who knows it can.
    bench.write("wiki-browser.lua", bench.read("wiki-browser.lua") + "\nwb.kind(");
    let error = refused(&bench, &["status"], 6, "no_server");
    assert!(error["hint"].as_str().unwrap().contains("--data DIR"), "{error}");
    said(&bench, &["status", "--data", bench.data.as_str()]);
    bench.write_script();
    server.stop();
    let error = refused(&bench, &["status"], 6, "no_server");
    assert!(error["message"].as_str().unwrap().contains(bench.data.as_str()), "{error}");
    // The copy is made without the server too.
    assert!(bench.json(&["backup"])["path"].as_str().unwrap().starts_with(bench.data.as_str()));
}

/// One measure: its type, and its values by their labels.
#[derive(Default)]
struct Family {
    kind: String,
    samples: BTreeMap<String, f64>,
}

/// Reads the text form strictly: every sample belongs to the family before it, every family has a
/// help and a type, no sample stands twice, and histograms add up.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut name = String::new();
    assert!(text.ends_with('\n'));
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (of, words) = help.split_once(' ').unwrap();
            assert!(!words.is_empty());
            let kind = lines.next().unwrap().strip_prefix("# TYPE ").unwrap();
            let (same, kind) = kind.split_once(' ').unwrap();
            assert!(same == of && ["counter", "gauge", "histogram"].contains(&kind), "{line}");
            name = of.to_owned();
            let family = Family { kind: kind.to_owned(), ..Family::default() };
            assert!(families.insert(name.clone(), family).is_none(), "{name} stands twice");
            continue;
        }
        let (labeled, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        let (of, labels) = labeled.split_once('{').unwrap_or((labeled, ""));
        let family = families.get_mut(&name).unwrap();
        let plain = of.trim_end_matches("_bucket").trim_end_matches("_sum");
        let plain = plain.trim_end_matches("_count");
        let own = if family.kind == "histogram" { plain } else { of };
        assert_eq!(own, name, "{line}");
        let is_name = |it: &str| it.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        assert!(is_name(of) && (labels.is_empty() || labels.ends_with("\"}")), "{line}");
        assert!(value.is_finite() && (value >= 0.0), "{line}");
        assert!(family.kind != "counter" || of.ends_with("_total"), "{line}");
        assert!(family.samples.insert(labeled.to_owned(), value).is_none(), "{line} twice");
    }
    for (name, family) in families.iter().filter(|(_, it)| it.kind == "histogram") {
        let end = |it: &&String| it.contains("le=\"+Inf\"");
        let all: f64 = family.samples.keys().filter(end).map(|it| family.samples[it]).sum();
        let counts =
            family.samples.iter().filter(|(it, _)| it.starts_with(&format!("{name}_count")));
        assert!((all - counts.map(|(_, count)| count).sum::<f64>()).abs() < 0.5, "{name}");
    }
    families
}

fn measures(bench: &Bench) -> BTreeMap<String, Family> {
    let answer = bench.get("/metrics");
    assert!(answer.head.contains("text/plain; version=0.0.4"), "{}", answer.head);
    parse(answer.ok().as_str().unwrap())
}

#[test]
fn measures_are_documented_and_true() {
    let bench = bench();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The second line.", "x");
    bench.proposal("incorporate", &topic);
    let running = bench.job("long", json!({"word": "busy"}));
    bench.wait_status(&running, "running");
    bench.job("note", json!({"word": "busy"}));
    said(&bench, &["backup"]);
    assert_eq!(bench.get("/api/nothing").status, 404);
    assert_eq!(bench.get("/api/topics?limit=9999").status, 400);
    let families = measures(&bench);
    let value = |sample: &str| {
        let name = sample.split('{').next().unwrap();
        let family = families.get(name).unwrap_or_else(|| panic!("no {name}"));
        *family.samples.get(sample).unwrap_or_else(|| panic!("{:?}", family.samples))
    };
    for (sample, expected) in [
        ("wb_jobs_queued{kind=\"note\"}", 1.0),
        ("wb_jobs_running{kind=\"long\"}", 1.0),
        ("wb_jobs_running{kind=\"note\"}", 0.0),
        ("wb_jobs_accepted_total{kind=\"incorporate\"}", 1.0),
        ("wb_jobs_finished_total{kind=\"incorporate\",status=\"succeeded\",reason=\"none\"}", 1.0),
        ("wb_http_refused_total{code=\"no_route\"}", 1.0),
        ("wb_scrape_problems", 0.0),
        ("wb_script_stuck", 0.0),
        ("wb_event_streams", 0.0),
    ] {
        assert!((value(sample) - expected).abs() < 1e-9, "{sample}: {}", value(sample));
    }
    for sample in ["wb_db_size_bytes", "wb_disk_free_bytes", "process_resident_memory_bytes"] {
        assert!(value(sample) > 4_000.0, "{sample}");
    }
    assert!(value("wb_backup_age_seconds") < 300.0);
    // The list in the documentation is the list.
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let documented: BTreeSet<(String, String)> = docs
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let name = cells.next()?.trim_end_matches('`').to_owned();
            let kind = cells.next()?.to_owned();
            ["counter", "gauge", "histogram"].contains(&kind.as_str()).then_some((name, kind))
        })
        .collect();
    let real: BTreeSet<(String, String)> =
        families.iter().map(|(name, it)| (name.clone(), it.kind.clone())).collect();
    assert_eq!(documented, real);
    server.stop();
}

#[test]
fn measures_are_for_admins_and_for_tokens_that_measure() {
    let bench = bench();
    let server = bench.serve();
    let address = server.address();
    assert_eq!(Call::get("/metrics").tcp(address).status, 401);
    let secret = |scope: &str| {
        let made = bench.json(&["token", "create", scope, "--scope", scope]);
        made["token"].as_str().unwrap().to_owned()
    };
    let (measures, reads) = (secret("metrics"), secret("read"));
    assert_eq!(Call::get("/metrics").token(&reads).tcp(address).refusal(), (403, "scope"));
    let scraped = Call::get("/metrics").token(&measures).tcp(address);
    parse(scraped.ok().as_str().unwrap());
    let cross = Call::get("/metrics").token(&measures).header("Sec-Fetch-Site", "cross-site");
    assert_eq!(cross.tcp(address).status, 403);
    for target in ["/api/me", "/api/topics", "/", "/api/events", "/api/config"] {
        let answer = Call::get(target).token(&measures).tcp(address);
        assert_eq!(answer.status, 403, "{target}: {answer:?}");
    }
    server.stop();
}

#[test]
fn the_log_is_text_or_json_and_names_every_request() {
    let bench = bench();
    // The first start writes the script.
    bench.serve_with(&[("WB_LOG", "debug")]).stop();
    let log = bench.base.join("json.log");
    #[allow(clippy::disallowed_methods, reason = "a test plays the operator in a terminal")]
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wiki-browser"));
    command.args(["serve", "--log-format", "json", "--daily-backups", "0"]);
    command.current_dir(&bench.top).env("WB_LOG", "debug").env("WB_ABSENT", "backup_wait");
    command.env("WB_TESTING", "1");
    command.stdout(std::process::Stdio::null());
    command.stderr(std::fs::File::create(&log).unwrap());
    #[allow(clippy::disallowed_methods, reason = "a test plays the operator in a terminal")]
    let mut child = command.spawn().unwrap();
    until("it serves", || bench.cli(&["status"]).0 == 0);
    let job = bench.job("note", json!({"word": "w"}));
    bench.ended(&job);
    // The row comes first, its line after it.
    until("the end is in the log", || {
        std::fs::read_to_string(&log).unwrap().contains("\"succeeded\"")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let printed = std::fs::read_to_string(&log).unwrap();
    let entries: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for entry in &entries {
        assert!(entry["timestamp"].is_string() && entry["level"].is_string(), "{entry}");
        assert!(entry["message"].is_string(), "{entry}");
    }
    assert!(entries.iter().any(|it| it["job_id"] == json!(job) && it["status"] == "succeeded"));
    assert!(entries.iter().any(|it| it["route"] == "/api/agent/jobs" && it["status"] == 202));
    let copies = bench.data.join("backups").read_dir_utf8().unwrap().count();
    assert_eq!(copies, 0, "no daily backup was asked for");
    // One with a name of the future, from a clock that was wrong, does not stand in for the others.
    let ahead = bench.data.join("backups/daily-20990101T000000Z.db");
    std::fs::write(&ahead, "from a clock that was wrong").unwrap();

    let server = bench.serve_with(&[("WB_LOG", "debug"), ("WB_ABSENT", "backup_wait")]);
    bench.get("/api/me").ok();
    let line = server.log();
    let line = line.lines().find(|it| it.contains("/api/me")).unwrap();
    for part in
        ["DEBUG GET /api/me 200", "request_id=", "method=GET", "status=200", "actor=\"person:"]
    {
        assert!(line.contains(part), "{line}");
    }
    until("there is a daily backup", || {
        let all = bench.json(&["backup", "--list"]);
        let newest = &all["items"][0];
        newest["daily"] == true && newest["path"] != ahead.as_str()
    });
    assert!(measures(&bench)["wb_backup_size_bytes"].samples["wb_backup_size_bytes"] > 4_000.0);
    server.stop();
}

#[test]
fn a_damaged_database_is_saved_as_far_as_it_can_be_read() {
    let bench = bench();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The second line.", "first");
    bench.proposal("incorporate", &topic);
    server.stop();
    let database = bench.data.join("wiki.db");
    let mut connection = Connection::open(&database).unwrap();
    let transaction = connection.transaction().unwrap();
    for n in 0..600 {
        let insert = "INSERT INTO topic_messages (id, topic_id, sequence, author, body, created_ms)
             VALUES (?1, ?2, ?3, 'system', ?4, 0)";
        let id = format!("018bcfe5-6800-7000-8000-{n:012}");
        let body = format!("message {n} {}", "x".repeat(400));
        transaction.execute(insert, (id, &topic.id, n + 10, body)).unwrap();
    }
    transaction.commit().unwrap();
    drop(connection);
    assert!(said(&bench, &["recover"]).contains("the database is intact"));
    // Some pages of messages become garbage.
    let mut bytes = std::fs::read(&database).unwrap();
    let needle = b"message 300 xxxx";
    let at = bytes.windows(needle.len()).position(|it| it == needle).unwrap();
    let page = at / 4096 * 4096;
    bytes[page..page + 3 * 4096].fill(0x5a);
    std::fs::write(&database, &bytes).unwrap();
    let assert = operator(&bench, &["recover", "--dry-run"]).assert().code(1);
    let told = text(&assert.get_output().stdout);
    assert!(told.contains("damaged") && told.contains("topic_messages"), "{told}");
    assert!(told.contains("\ndamage ") && !told.contains("\\n"), "{told}");
    assert_eq!(std::fs::read(&database).unwrap(), bytes, "a dry run changes nothing");
    let report = bench.json(&["recover"]);
    let table = |name: &str| {
        let tables = report["tables"].as_array().unwrap();
        tables.iter().find(|it| it["table"] == name).unwrap().clone()
    };
    let saved = table("topic_messages")["rows"].as_u64().unwrap();
    assert!((500..602).contains(&saved), "{report:#}");
    assert_eq!(table("agent_jobs")["rows"], 1);
    assert_eq!(table("incorporation_proposals")["rows"], 1);
    let kept = report["kept"][0].as_str().unwrap();
    assert!(kept.contains("damaged-"), "{kept}");
    assert_eq!(database.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read(kept).unwrap(), bytes);
    let server = bench.serve();
    assert_eq!(bench.get("/api/topics").ok()["items"].as_array().unwrap().len(), 1);
    bench.get(&format!("/api/topics/{}", topic.id)).ok();
    server.stop();
    assert!(said(&bench, &["recover"]).contains("the database is intact"));
    what_cannot_be_read_at_all_is_told_with_a_backup(&bench, &database);
}

/// A database that has lost its list of tables, or its beginning.
fn what_cannot_be_read_at_all_is_told_with_a_backup(bench: &Bench, database: &Utf8Path) {
    let made = bench.json(&["backup"]);
    let backup = made["path"].as_str().unwrap();
    let mut bytes = std::fs::read(database).unwrap();
    bytes[100..4096].fill(0x5a);
    std::fs::write(database, &bytes).unwrap();
    let assert = operator(bench, &["recover", "--dry-run"]).assert().code(1);
    let told = text(&assert.get_output().stdout);
    assert!(told.contains(backup) && told.contains("\nlost        nothing of "), "{told}");
    assert!(!told.contains("\\n"), "{told}");
    let error = refused(bench, &["recover"], 6, "database_corrupt");
    assert!(error["message"].as_str().unwrap().matches("damaged").count() < 2, "{error}");
    assert!(error["hint"].as_str().unwrap().contains(backup), "{error}");
    let (_, told, _) = bench.cli(&["doctor"]);
    assert!(told.contains(&format!("wiki-browser restore {backup}")), "{told}");
    let mut file = std::fs::OpenOptions::new().write(true).open(database).unwrap();
    file.write_all(&[0x5a; 4096]).unwrap();
    let error = refused(bench, &["recover"], 6, "database_corrupt");
    assert!(error["hint"].as_str().unwrap().contains(made["path"].as_str().unwrap()), "{error}");
    said(bench, &["restore", made["path"].as_str().unwrap()]);
    std::fs::remove_file(database).unwrap();
    refused(bench, &["recover"], 4, "no_database");
}
