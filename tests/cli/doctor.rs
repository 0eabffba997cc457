//! `wiki-browser doctor`: every finding that a test can force.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use super::wiki_browser;
use crate::support::{Bench, shell};

/// A kind that names an engine, so that the doctor looks at it.
fn with_engine(program: &str) -> Bench {
    let bench = Bench::new();
    bench.lua(&format!(
        "wb.engine \"helper\" {{ type = \"process\", command = {{ \"{program}\" }},\n\
         prompt = \"stdin\" }}\n\
         wb.kind \"asks\" {{ about = \"A test\", engine = \"helper\", timeout = \"60s\",\n\
         prompt = \"x\", inputs = {{}} }}\n"
    ));
    bench
}

/// Runs the doctor; returns its exit code and what it found: level and words of each.
fn examine(folder: &Path, env: &[(&str, &str)]) -> (i32, BTreeMap<String, (String, String)>) {
    let mut command = wiki_browser(folder);
    command.args(["doctor", "--json"]).envs(env.iter().copied());
    let output = command.output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let code = output.status.code().unwrap();
    assert_eq!(value["ok"], code == 0, "{value:#}");
    let findings = value["findings"].as_array().unwrap();
    let mut found = BTreeMap::new();
    for finding in findings {
        let word = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
        // What is not well comes with what to do.
        assert_eq!(finding["level"] == "OK", finding["advice"].is_null(), "{finding}");
        assert!(!word("says").is_empty(), "{finding}");
        let known = found.insert(word("what"), (word("level"), word("says")));
        assert!(known.is_none(), "{finding} comes twice");
    }
    let worst = findings
        .iter()
        .map(|it| it["level"].as_str().unwrap())
        .max_by_key(|level| ["OK", "WARN", "ERROR"].iter().position(|it| it == level));
    assert_eq!(value["worst"].as_str(), worst);
    (code, found)
}

#[track_caller]
fn assert_found(found: &BTreeMap<String, (String, String)>, wanted: &[(&str, &str, &str)]) {
    for (what, level, word) in wanted {
        let (is, says) = found.get(*what).unwrap_or_else(|| panic!("no {what}: {found:#?}"));
        assert!(is == level && says.contains(word), "{what}: {is} {says}");
    }
}

#[test]
fn a_site_that_is_well_is_told_so_with_a_server_and_without() {
    let bench = with_engine("/bin/true");
    let server = bench.serve();
    let folder = bench.top.as_std_path();
    let (code, found) = examine(folder, &[]);
    assert_eq!(code, 0, "{found:#?}");
    let pid = format!("pid {} serves at 127.0.0.1:", server.pid());
    let wanted = [
        ("script", "OK", "is valid"),
        ("guard", "OK", "swept"),
        ("second subreaper", "OK", "an orphan was reparented"),
        ("mark", "OK", ""),
        ("pidfd", "OK", ""),
        ("openat2", "OK", ""),
        ("kernel", "OK", "Linux"),
        ("memory", "OK", "MiB"),
        ("git", "OK", "git version"),
        ("repository", "OK", "3 sources"),
        ("engine", "OK", "\"helper\" runs /bin/true"),
        ("data folder", "OK", "is private"),
        ("private files", "OK", ""),
        ("database", "OK", "can be read"),
        ("disk", "OK", "are free"),
        ("clock", "OK", "20"),
        ("server", "OK", &pid),
    ];
    assert_found(&found, &wanted);
    for layer in ["user", "cgroup v2", "landlock", "descriptors", "file system"] {
        assert!(found.contains_key(layer), "{layer}: {found:#?}");
    }
    server.kill();
    let (code, found) = examine(folder, &[]);
    assert_found(&found, &[("server", "OK", "was killed")]);
    assert_eq!(code, 0);
    let words = wiki_browser(folder).arg("doctor").assert().success();
    let text = String::from_utf8_lossy(&words.get_output().stdout).into_owned();
    assert!(text.starts_with("OK     script            "), "{text}");
    assert!(text.lines().last().unwrap().contains("a site works here") || text.contains("all is"));
}

#[test]
fn a_folder_without_a_site_is_looked_at_too() {
    let folder = tempfile::tempdir().unwrap();
    let (code, found) = examine(folder.path(), &[]);
    assert_eq!(code, 1);
    let wanted = [("script", "ERROR", "no site in"), ("guard", "OK", "swept")];
    assert_found(&found, &wanted);
    assert!(!found.contains_key("repository") && found.contains_key("disk"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_broken_script_is_one_finding_among_the_others() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("wiki-browser.lua"), "local wb = require \"wb\"\nwb.sight {}\n")
        .unwrap();
    let (code, found) = examine(folder.path(), &[]);
    assert_eq!(code, 1);
    assert_found(&found, &[("script", "ERROR", "error"), ("openat2", "OK", "")]);
    let words = wiki_browser(folder.path()).arg("doctor").assert().code(1);
    let errors = String::from_utf8_lossy(&words.get_output().stderr).into_owned();
    assert!(errors.contains("wiki-browser.lua:2"), "{errors}");
}

#[test]
fn what_git_was_told_not_to_look_at_is_named() {
    let bench = Bench::new();
    bench.write_script();
    let folder = bench.top.as_std_path();
    for (flag, no) in
        [("assume-unchanged", "no-assume-unchanged"), ("skip-worktree", "no-skip-worktree")]
    {
        bench.git(&["update-index", &format!("--{flag}"), "guide.md"]);
        let words = format!("changes of guide.md go unnoticed: git was told {flag}");
        assert_found(&examine(folder, &[]).1, &[("repository", "WARN", &words)]);
        bench.git(&["update-index", &format!("--{no}"), "guide.md"]);
    }
    // What a sparse checkout leaves out is not there to be edited.
    bench.git(&["update-index", "--skip-worktree", "notes.md"]);
    fs::remove_file(bench.top.join("notes.md")).unwrap();
    assert_found(&examine(folder, &[]).1, &[("repository", "OK", "2 sources")]);
    bench.write("two\nlines.md", "# A name\n");
    bench.git(&["add", "two\nlines.md"]);
    let words = "`two\\nlines.md` cannot be a source for its name";
    assert_found(&examine(folder, &[]).1, &[("repository", "WARN", words)]);
}

fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A program for the `PATH` that does what a test needs.
fn program(bench: &Bench, name: &str, script: &str) {
    let folder = bench.base.join("bin");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
    open_to_all(folder.join(name).as_std_path(), 0o755);
}

#[test]
fn what_others_could_read_and_what_comes_from_the_future_is_warned_of() {
    let bench = with_engine("claude");
    program(&bench, "claude", "echo '2.1.0 (Claude Code)'");
    let path = format!("{}/bin:/usr/bin:/bin", bench.base);
    bench.serve_with(&[("PATH", &path)]).stop();
    let data = bench.data.as_std_path();
    open_to_all(data, 0o755);
    open_to_all(&data.join("operator.token"), 0o644);
    // Not the last number, as a clock that was set back would leave it.
    bench.sql(
        "INSERT INTO events (at_ms, kind, subject, actor, scope, audit, data_json)
         VALUES (9999999999999, 'job.queued', 'x', 'system', 'site', 0, '{}')",
    );
    let (code, found) = examine(bench.top.as_std_path(), &[("PATH", &path), ("WB_JOB_ID", "x")]);
    assert_eq!(code, 0, "{found:#?}");
    let wanted = [
        ("data folder", "WARN", "mode 755"),
        ("private files", "WARN", "operator.token is readable by others (mode 644)"),
        ("clock", "WARN", "2286"),
        ("mark", "WARN", "belongs to a job"),
        ("server", "OK", "not running"),
    ];
    assert_found(&found, &wanted);
    assert_found(&found, &[("engine", "OK", "version 2.1.0 (Claude Code)")]);
    // An engine that does not answer costs a bounded time.
    program(&bench, "claude", "sleep 60");
    let (_, found) = examine(bench.top.as_std_path(), &[("PATH", &path)]);
    assert_found(&found, &[("engine", "WARN", "did not end within 5s")]);
}

#[test]
fn what_a_site_cannot_work_without_is_an_error() {
    let bench = with_engine("helper-that-is-not-there");
    program(&bench, "helper-that-is-not-there", "exit 0");
    let with_it = format!("{}/bin:/usr/bin:/bin", bench.base);
    bench.serve_with(&[("PATH", &with_it)]).stop();
    let folder = bench.top.as_std_path();
    let (code, found) = examine(folder, &[("PATH", "/nowhere")]);
    assert_eq!(code, 1);
    let wanted = [
        ("git", "ERROR", "not on the PATH"),
        ("repository", "ERROR", "git is missing"),
        ("engine", "ERROR", "helper-that-is-not-there"),
    ];
    assert_found(&found, &wanted);
    // An old git, and a database that is none.
    program(&bench, "git", "echo git version 2.20.1");
    // The last one that closes it leaves no second file, from which it could be mended.
    bench.sql("UPDATE site SET epoch = epoch");
    let database = fs::read(bench.data.join("wiki.db")).unwrap();
    fs::write(bench.data.join("wiki.db"), "no database, and long enough to be one").unwrap();
    let (code, found) = examine(folder, &[("PATH", &with_it)]);
    assert_eq!(code, 1);
    let wanted = [("git", "ERROR", "2.20.1 is too old"), ("database", "ERROR", "damaged")];
    assert_found(&found, &wanted);
    // A database of a later program.
    fs::write(bench.data.join("wiki.db"), database).unwrap();
    shell(&format!(
        "printf '\\000\\000\\003\\347' | dd of={}/wiki.db bs=1 seek=60 conv=notrunc 2>/dev/null",
        bench.data
    ));
    program(&bench, "git", "exec /usr/bin/git \"$@\"");
    let (code, found) = examine(folder, &[("PATH", &with_it)]);
    assert_eq!(code, 1);
    assert_found(&found, &[("database", "ERROR", "version 999"), ("git", "OK", "git version")]);
}

/// With its log beside it, it can be read all the same, and no server could work with it.
#[test]
fn a_database_that_may_not_be_written_is_not_called_damaged() {
    let bench = Bench::new();
    bench.serve().kill();
    let (data, base) = (&bench.data, &bench.base);
    let folder = bench.top.as_std_path();
    let mut says = Vec::new();
    for has_log in [true, false] {
        if !has_log {
            // Whoever is the last to close it takes its log away.
            let all = "SELECT count(*) FROM events";
            let database = rusqlite::Connection::open(data.join("wiki.db")).unwrap();
            database.query_row(all, [], |it| it.get::<_, i64>(0)).unwrap();
        }
        assert_eq!(data.join("wiki.db-wal").exists(), has_log);
        let mut command = wiki_browser(folder);
        // Root may write whatever its mode says.
        if shell("id -u") == "0" {
            shell(&format!("chown -R 65534:65534 {base}"));
            let program = command.get_program().to_owned();
            let mut other = assert_cmd::Command::new("setpriv");
            other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
            other.current_dir(folder).env("HOME", base);
            command = other;
        }
        shell(&format!("chmod 400 {data}/wiki.db* && chmod 500 {data}"));
        let output = command.args(["doctor", "--json"]).output().unwrap();
        shell(&format!("chmod 700 {data} && chmod 600 {data}/wiki.db*"));
        let value: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        let findings = value["findings"].as_array().unwrap();
        let found = findings.iter().find(|it| it["what"] == "database").unwrap();
        assert_eq!(found["level"], "ERROR", "{found}");
        let advice = found["advice"].as_str().unwrap();
        assert!(advice.contains("chmod u+w"), "{advice}");
        for wrong in ["recover", "restore"] {
            assert!(!advice.contains(wrong), "{advice}");
        }
        says.push(found["says"].as_str().unwrap().to_owned());
    }
    assert!(says[0].contains("can be read; "), "{says:?}");
    assert!(!says[1].contains("can be read"), "{says:?}");
}

/// A file that this user may not read is neither missing nor damaged.
#[test]
fn what_another_user_may_not_see_is_not_called_missing_or_damaged() {
    let bench = Bench::new();
    let server = bench.serve();
    let program = wiki_browser(bench.top.as_std_path()).get_program().to_owned();
    let mut command = assert_cmd::Command::new("setpriv");
    if shell("id -u") == "0" {
        shell(&format!("chmod 755 {0} {0}/wiki", bench.base));
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    } else {
        shell(&format!("chmod 000 {}", bench.data));
    }
    command.arg(program).current_dir(&bench.top).env("HOME", &bench.base);
    let output = command.args(["doctor", "--json"]).output().unwrap();
    shell(&format!("chmod 700 {}", bench.data));
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let findings = value["findings"].as_array().unwrap();
    let found = |what: &str| findings.iter().find(|it| it["what"] == what).unwrap();
    let says = found("server")["says"].as_str().unwrap();
    assert!(says.starts_with("unknown whether one runs: "), "{says}");
    let database = found("database");
    assert_eq!(database["level"], "WARN", "{database}");
    let words = database.to_string();
    assert!(words.contains("Permission denied") && !words.contains("remove"), "{words}");
    server.stop();
}

#[test]
fn a_limit_of_descriptors_that_is_too_low_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let text = shell(&format!(
        "cd {} && ulimit -n 128 && {} doctor --json || true",
        folder.path().display(),
        env!("CARGO_BIN_EXE_wiki-browser")
    ));
    let value: Value = serde_json::from_str(&text).unwrap();
    let findings = value["findings"].as_array().unwrap();
    let found = findings.iter().find(|it| it["what"] == "descriptors").unwrap();
    assert_eq!(found["level"], "WARN", "{found}");
}

/// Layers that this machine has, taken away.
#[cfg(feature = "faults")]
#[test]
fn a_layer_that_is_missing_is_named() {
    let bench = Bench::new();
    bench.serve().stop();
    let script = bench.read("wiki-browser.lua");
    let script = script.replace("wb.site {", "wb.site { wb_agent = \"/bin/true\",");
    bench.write("wiki-browser.lua", script);
    let absent = [("WB_ABSENT", "cgroup,landlock,openat2"), ("WB_WITHOUT", "server_subreaper")];
    let (code, found) = examine(bench.top.as_std_path(), &absent);
    assert_eq!(code, 1);
    let wanted = [
        ("guard", "ERROR", "guard of the trial job was lost"),
        ("second subreaper", "WARN", "was not reparented"),
        ("openat2", "ERROR", ""),
        ("cgroup v2", "WARN", "not available"),
        ("landlock", "WARN", "not offered"),
        ("engine", "WARN", "no kind"),
    ];
    assert_found(&found, &wanted);
}
