//! G31, if a job leaves a FIFO where git opens a file: git would wait there, with its locks; and
//! what a killed server leaves of its own git.

use serde_json::json;

use crate::guarantees::git_folder::{declare_proposes, proposal, refused};
use crate::guarantees::looks::{declare, is_held, told};
use crate::support::{Bench, Call, shell, until};

#[track_caller]
fn is_blocked(bench: &Bench, approval: &Call, name: &str) -> String {
    let answer = bench.send(approval);
    assert_eq!(answer.refusal(), (503, "special_file"), "{answer:?}");
    let said = answer.body.to_string();
    let ways = ["is a FIFO", "leads to a FIFO", "names a FIFO"];
    assert!(ways.iter().any(|it| said.contains(&format!("{name} {it}"))), "{said}");
    said
}

/// Fails with `WB_WITHOUT=special_files`.
#[test]
fn g31_a_fifo_where_git_opens_a_file_is_named_and_removed() {
    let bench = Bench::new();
    declare_proposes(&bench);
    let names = [
        ".git/logs/HEAD",
        ".git/logs/refs/heads/main",
        ".git/info/exclude",
        ".git/packed-refs",
        ".gitattributes",
        "deep/er/.gitignore",
    ];
    bench.git(&["pack-refs", "--all"]);
    for (at, name) in names.iter().enumerate() {
        let makes = format!("mkdir -p deep/er && rm -f '{name}' && mkfifo '{name}'");
        declare(&bench, &format!("makes{at}"), &format!("{makes}\necho edited >> notes.md"));
    }
    declare(&bench, "next", "exit 0");
    let server = bench.serve();
    let approval = proposal(&bench, "guide.md", "The first line.");
    let (notes, tip) = (bench.read("notes.md"), bench.git(&["rev-parse", "HEAD"]));
    for (at, name) in names.iter().enumerate() {
        let job = bench.job(&format!("makes{at}"), json!({}));
        let warnings = told(&bench.ended(&job));
        let is_told = warnings.contains("touched_git") && warnings.contains(name);
        assert!(is_told, "{name}: {warnings}");
        let next = bench.job("next", json!({}));
        is_held(&bench, &next, &job);
        assert!(is_blocked(&bench, &approval, name).contains(&format!("job restore {job}")));
        let status = bench.json(&["status"]);
        assert!(status["warnings"].to_string().contains(name), "{status:#}");
        let plan = bench.json(&["job", "restore", &job, "--dry-run"]);
        assert_eq!(plan["items"][0]["name"], *name, "{plan:#}");
        assert!(bench.top.join(name).symlink_metadata().is_ok());
        let done = bench.json(&["job", "restore", &job]);
        assert_eq!(done["restored"], true, "{done:#}");
        assert_eq!((bench.read("notes.md"), bench.status()), (notes.clone(), String::new()));
        assert_eq!(bench.git(&["rev-parse", "HEAD"]), tip, "{name}");
        assert_eq!(bench.ended(&next)["status"], "succeeded");
    }
    bench.send(&approval).ok();
    server.stop();
}

/// What is elsewhere may be somebody's: the way there is named, and nothing there is removed.
#[test]
fn g31_a_fifo_elsewhere_is_never_removed() {
    let bench = Bench::new();
    declare_proposes(&bench);
    let run = bench.out.join("run");
    shell(&format!("mkdir -p '{run}/refs/heads' && mkfifo '{run}/HEAD' '{run}/refs/heads/main'"));
    let (folder, unset) = ("rm -r nested", "git config --unset-all");
    let cases = [
        (format!("mkdir nested && echo 'gitdir: {run}' > nested/.git"), "nested/.git", folder),
        (format!("mkdir nested && ln -s '{run}' nested/.git"), "nested/.git", folder),
        (
            format!("mkdir -p nested/.git && echo '{run}' > nested/.git/commondir"),
            "nested/.git",
            folder,
        ),
        (
            format!("mkdir -p nested/.git && ln -s '{run}/refs' nested/.git/refs"),
            "nested/.git/refs",
            folder,
        ),
        (format!("git config core.excludesFile '{run}/HEAD'"), "core.excludesFile", unset),
        (format!("git config core.attributesFile '{run}/HEAD'"), "core.attributesFile", unset),
        (format!("ln -s '{run}' .git/rebase-merge"), ".git/rebase-merge", ""),
    ];
    for (at, (makes, ..)) in cases.iter().enumerate() {
        declare(&bench, &format!("leads{at}"), makes);
    }
    let server = bench.serve();
    let approval = proposal(&bench, "guide.md", "The first line.");
    for (at, (makes, name, mends)) in cases.iter().enumerate() {
        let job = bench.job(&format!("leads{at}"), json!({}));
        let warnings = told(&bench.ended(&job));
        assert!(warnings.contains(&format!("{name} ")), "{makes}: {warnings}");
        let said = is_blocked(&bench, &approval, name);
        assert!(said.contains(&format!("job restore {job}")), "{said}");
        let by_hand = if *mends == folder { "`rm '" } else { *mends };
        assert!(said.contains(by_hand), "{said}");
        if !mends.is_empty() {
            let plan = bench.json(&["job", "restore", &job, "--dry-run"]);
            assert_eq!(plan["items"][0]["outcome"], "not_kept", "{plan:#}");
            assert_eq!(plan["restorable"], false, "{plan:#}");
            let (code, _, said) = bench.cli(&["job", "restore", &job]);
            assert_eq!(code, 6, "{said}");
            assert!(said.contains(by_hand), "{said}");
            let mends = if *mends == unset { format!("{mends} {name}") } else { folder.to_owned() };
            shell(&format!("cd '{}' && {mends}", bench.top));
        }
        let done = bench.json(&["job", "restore", &job]);
        assert_eq!(done["restored"], true, "{makes}: {done:#}");
        assert!(bench.top.join(name).symlink_metadata().is_err());
        assert!(run.join("HEAD").exists() && run.join("refs/heads/main").exists());
    }
    bench.send(&approval).ok();
    server.stop();
}

/// Whoever makes one while no job runs, it is named all the same, also by a server that finds it.
#[test]
fn g31_a_fifo_that_no_job_made_is_named_until_it_is_gone() {
    let bench = Bench::new();
    declare_proposes(&bench);
    let server = bench.serve();
    let approval = proposal(&bench, "guide.md", "The first line.");
    let place = bench.top.join(".git/logs/refs/heads/main");
    std::fs::remove_file(&place).unwrap();
    shell(&format!("mkfifo '{place}'"));
    is_blocked(&bench, &approval, ".git/logs/refs/heads/main");
    server.stop();
    let server = bench.serve();
    let said = is_blocked(&bench, &approval, ".git/logs/refs/heads/main");
    assert!(said.contains(&format!("rm '{place}'")), "{said}");
    let (_, out, err) = bench.cli(&["doctor"]);
    assert!(format!("{out}{err}").contains("main is a FIFO"), "{out}{err}");
    assert!(!bench.top.join(".git/HEAD.lock").exists());
    std::fs::remove_file(&place).unwrap();
    bench.send(&approval).ok();
    server.stop();
}

/// An approval would append to the file that has the other name.
#[test]
fn g22_nothing_is_appended_to_another_name_of_a_log() {
    let bench = Bench::new();
    declare_proposes(&bench);
    let precious = bench.out.join("precious");
    std::fs::write(&precious, "PRECIOUS\n").unwrap();
    declare(&bench, "links", &format!("ln -f '{precious}' .git/logs/HEAD"));
    let server = bench.serve();
    let approval = proposal(&bench, "guide.md", "The first line.");
    let job = bench.job("links", json!({}));
    let warnings = told(&bench.ended(&job));
    assert!(warnings.contains(".git/logs/HEAD (a link since)"), "{warnings}");
    refused(&bench, &approval);
    let done = bench.json(&["job", "restore", &job]);
    assert_eq!(done["restored"], true, "{done:#}");
    bench.send(&approval).ok();
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "PRECIOUS\n");
    server.stop();
}

/// The worktree is gone with the job, and with it what the job changed in git's folder for it.
#[test]
fn g31_what_was_changed_for_a_worktree_that_is_removed_holds_nobody_for_ever() {
    let bench = Bench::new();
    let diverts = "dir=$(git rev-parse --absolute-git-dir) && echo /nowhere > \"$dir/commondir\"";
    bench.word_kind("diverts", "timeout = \"30s\", workspace = \"worktree\"", diverts);
    declare(&bench, "next", "exit 0");
    let server = bench.serve();
    let job = bench.job("diverts", json!({}));
    let warnings = told(&bench.ended(&job));
    assert!(warnings.contains("/commondir"), "{warnings}");
    let next = bench.job("next", json!({}));
    is_held(&bench, &next, &job);
    let done = bench.json(&["job", "restore", &job]);
    assert_eq!(done["restored"], true, "{done:#}");
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    server.stop();
}

/// Fails with `WB_WITHOUT=mark`.
#[test]
fn g19_a_git_of_a_killed_server_does_not_go_on_beside_the_next() {
    let bench = Bench::new();
    declare_proposes(&bench);
    let (bin, pid) = (bench.base.join("slow"), bench.base.join("pid"));
    std::fs::create_dir(&bin).unwrap();
    let program = format!(
        "#!/bin/sh\ncase \" $* \" in *' update-ref '*) echo $$ > '{pid}.new'; \
         mv '{pid}.new' '{pid}'; exec sleep 600;; esac\nexec /usr/bin/git \"$@\"\n"
    );
    std::fs::write(bin.join("git"), program).unwrap();
    shell(&format!("chmod +x '{bin}/git'"));
    let server = bench.serve();
    let approval = proposal(&bench, "guide.md", "The first line.");
    server.stop();
    let path = format!("{bin}:/usr/local/bin:/usr/bin:/bin");
    let server = bench.serve_with(&[("PATH", &path)]);
    let socket = bench.socket();
    let (call, at) = (approval.clone(), socket.clone());
    let asked = std::thread::spawn(move || call.try_socket(&at).is_some());
    until("git begins", || pid.exists());
    let pid = std::fs::read_to_string(&pid).unwrap();
    let name = format!("/proc/{}/comm", pid.trim());
    let is_asleep = || std::fs::read_to_string(&name).is_ok_and(|it| it == "sleep\n");
    until("git waits", is_asleep);
    server.kill();
    assert!(!asked.join().unwrap());
    assert!(is_asleep(), "it outlives the server");
    let server = bench.serve();
    // A zombie is nobody's to reap here.
    let line = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(line.is_empty() || line.contains(") Z "), "{line}");
    bench.send(&approval).ok();
    server.stop();
}
