//! G22: no path of a request leaves the root.

use serde_json::json;

use crate::support::{Bench, Call, shell};

const CANARY: &str = "canary-outside-81c2";

/// Names that must lead nowhere. `%` escapes are of the query; in a body they are plain text.
const ATTACKS: &[&str] = &[
    "../outside.md",
    "../../etc/passwd",
    "docs/../../outside.md",
    "docs/../guide.md",
    "./guide.md",
    "/etc/passwd",
    "//etc/passwd",
    "guide.md/",
    "guide.md/.",
    "docs//deep.md",
    "..",
    ".",
    "",
    "guide.md\u{0}.md",
    "guide.md\n",
    "..\\outside.md",
    "docs\\deep.md",
    "C:guide.md",
    ".git/config",
    ".git/HEAD.md",
    ".GIT/config.md",
    ".git\u{200c}/config.md",
    "git~1/config.md",
    "data/wiki.db",
    "data/operator.token",
    "link.md",
    "linked/outside.md",
    "loop.md",
    "up/../guide.md",
    "GUIDE.MD",
    "Guide.md",
    "guide.md ",
    "guide.md.",
    "guide\u{202e}.md",
    "gu\u{ef}de.md",
    "%2e%2e/outside.md",
    "..%2foutside.md",
    "fifo.md",
    "untracked.md",
    "wiki-browser.lua",
    "sub/inner.md",
];

fn attacked() -> Bench {
    let bench = Bench::new();
    std::fs::write(bench.base.join("outside.md"), CANARY).unwrap();
    shell(&format!(
        "cd {}; ln -s ../outside.md link.md; ln -s .. linked; ln -s loop.md loop.md; mkfifo fifo.md;
         echo {CANARY} > untracked.md; mkdir sub; git -C sub init -q; echo {CANARY} > sub/inner.md;
         git add link.md linked loop.md",
        bench.top
    ));
    bench.git(&["commit", "-qm", "links"]);
    bench.topic_kind(
        "better",
        "timeout = \"20s\", produces = \"proposal\"",
        "printf 'new\\n' | propose",
    );
    bench.lua(
        "wb.kind \"plain\" { about = \"A test\", engine = \"better\", timeout = \"5s\",\n\
         inputs = { source_path = wb.input.source() }, prompt = \"x\" }\n",
    );
    bench
}

/// Returns a query's value with all but letters and digits escaped.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn g22_no_path_of_a_request_leaves_the_root() {
    let bench = attacked();
    let server = bench.serve();
    for path in ATTACKS.iter().copied().chain([&*"a/".repeat(2_000), &*"x".repeat(5_000)]) {
        let query = escaped(path);
        let body = json!({"source_path": path, "global": true, "body": "x"});
        let quoted = json!({"source_path": path, "selection": {"quote": CANARY}, "body": "x"});
        let job = json!({"kind": "plain", "source_path": path});
        for call in [
            Call::get(&format!("/api/source?path={query}")),
            Call::get(&format!("/api/source/history?path={query}")),
            Call::post("/api/topics", body),
            Call::post("/api/topics", quoted),
            Call::post("/api/agent/jobs", job),
        ] {
            let answer = bench.send(&call.clone().token(&bench.operator()));
            // The past of a name that a glob allows tells of commits of this repository only.
            let is_history = format!("{call:?}").contains("history") && path.ends_with(".md");
            let is_history = is_history && answer.status == 200;
            let is_refused = [400, 404, 409, 413, 414, 431].contains(&answer.status);
            assert!(is_refused || is_history, "{path:?} {call:?}: {answer:?}");
            assert!(!format!("{answer:?}").contains(CANARY), "{path:?}: {answer:?}");
        }
    }
    assert_eq!(bench.get("/api/topics").ok()["items"], json!([]));
    assert_eq!(bench.get("/api/agent/jobs").ok()["items"], json!([]));
    let listed = bench.get("/api/sources").ok();
    let listed = listed["items"].as_array().unwrap().iter().filter(|it| it["tracked"] == true);
    let listed: Vec<&str> = listed.map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(listed, ["docs/deep.md", "guide.md", "notes.md"]);
    server.stop();
}

/// A Source that becomes a second name or a link after it was proposed for is neither read nor
/// written. Fails with `WB_WITHOUT=beneath`; the table above stands on git's index as well.
#[test]
fn g22_an_approval_writes_through_no_link() {
    let bench = attacked();
    let server = bench.serve();
    let outside = bench.base.join("outside.md");
    for (path, quote, swap, code) in [
        ("guide.md", "The first line.", "ln guide.md ../second.md", "hard_link"),
        ("notes.md", "Keep this.", "rm notes.md; ln -s ../outside.md notes.md", "source_dirty"),
        ("docs/deep.md", "Far below.", "mv docs ../docs; ln -s ../docs docs", "source_dirty"),
    ] {
        let topic = bench.topic(path, quote, "Say it better.");
        let shown = bench.proposal("better", &topic);
        shell(&format!("cd {}; {swap}", bench.top));
        if code != "hard_link" {
            let read = bench.get(&format!("/api/source?path={path}"));
            assert_eq!(read.refusal(), (400, "path_is_link"), "{path}: {read:?}");
        }
        let answer = bench.send(&bench.approval(&shown));
        let codes = [code, "path_is_link", "source_gone"];
        assert!(codes.contains(&answer.code()), "{path}: {answer:?}");
        assert!((400..500).contains(&answer.status), "{answer:?}");
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), CANARY);
    let second = std::fs::read_to_string(bench.base.join("second.md")).unwrap();
    assert!(second.contains("The first line."), "{second}");
    let deep = std::fs::read_to_string(bench.base.join("docs/deep.md")).unwrap();
    assert!(deep.contains("Far below."), "{deep}");
    assert_eq!(bench.commits().len(), 2);
    server.stop();
}

/// An agent that puts a link in the place of its job's folder, or of all of them, makes the server
/// neither read nor write behind it. Fails with `WB_WITHOUT=job_folder`.
#[test]
fn g22_a_job_folder_that_became_a_link_is_not_followed() {
    let bench = Bench::new();
    let swap = "cd \"$OUT/../wiki/data/$word\" && n=\"$WB_JOB_ID\"; \
                [ \"$word\" = jobs ] || n=jobs; mv \"$n\" \"moved.$n\"; \
                ln -s \"$BASE/outside\" \"$n\"; echo said";
    bench.word_kind("swap", "timeout = \"20s\"", swap);
    bench.word_kind("plain", "timeout = \"20s\"", "echo said");
    let outside = bench.base.join("outside");
    std::fs::create_dir(&outside).unwrap();
    let files = ["stdout.log", "stderr.log", "prompt", "stream.ndjson", "exit.json"];
    files.iter().for_each(|name| std::fs::write(outside.join(name), CANARY).unwrap());
    let names = || {
        let mut names: Vec<String> =
            outside.read_dir_utf8().unwrap().map(|it| it.unwrap().file_name().to_owned()).collect();
        names.sort();
        names
    };
    let before = names();
    let server = bench.serve();
    for word in ["jobs", "."] {
        let job = bench.job("swap", json!({"word": word}));
        bench.ended(&job);
        let page = bench.get(&format!("/jobs/{job}"));
        assert_eq!(page.status, 200, "{word}: what an agent did to its folder hides no job");
        for part in ["log?stream=stdout", "log?stream=stderr", "prompt", "stream"] {
            let answer = bench.get(&format!("/api/agent/jobs/{job}/{part}"));
            assert!(!answer.body.to_string().contains(CANARY), "{word} {part}: {answer:?}");
        }
        if word == "." {
            // The next job's folder cannot be made: it fails, and nothing is made elsewhere.
            let next = bench.ended(&bench.job("plain", json!({})));
            assert_eq!(next["status"], "failed", "{next}");
        }
        assert_eq!(names(), before, "{word}");
        for name in files {
            assert_eq!(std::fs::read_to_string(outside.join(name)).unwrap(), CANARY, "{word}");
        }
    }
    shell(&format!("cd {}; rm jobs; mv moved.jobs jobs", bench.data));
    let after = bench.ended(&bench.job("plain", json!({})));
    assert_eq!(after["status"], "succeeded", "{after}");
    server.stop();
}

/// Without the kernel's own confinement there is no weaker one: the site does not start.
#[cfg(feature = "faults")]
#[test]
fn g22_a_kernel_without_openat2_serves_nothing() {
    let bench = Bench::new();
    let mut server = bench.start(&[("WB_ABSENT", "openat2")]);
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(6), "{}", server.log());
    assert!(server.log().contains("this system has no openat2"), "{}", server.log());
    assert!(server.log().contains("hint: "), "{}", server.log());
    assert!(!bench.data.join("wiki.db").exists());
}

/// What an agent puts in the place of a file of the site is neither followed nor waited for.
#[test]
fn a_fifo_or_a_device_in_the_data_folder_is_refused_at_once() {
    for name in ["server.json", "wiki.db.commits"] {
        for device in [true, false] {
            let bench = Bench::new();
            bench.serve().stop();
            let path = bench.data.join(name);
            if path.exists() {
                std::fs::remove_file(&path).unwrap();
            }
            match device {
                true => std::os::unix::fs::symlink("/dev/zero", &path).unwrap(),
                false => {
                    let mode = nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR;
                    nix::unistd::mkfifo(path.as_std_path(), mode).unwrap();
                }
            }
            let mut server = bench.start(&[]);
            let (status, _) = server.wait();
            let log = server.log();
            assert!(!status.success(), "{name}");
            assert!(log.contains(name), "{name}: {log}");
        }
    }
}
