//! G31 and G19, if a job leads git elsewhere: another repository at `.git`, or a link in the place
//! of git's own folders; and what it does with refs that are neither branches nor tags.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;

use crate::guarantees::looks::{WAITS, declare, is_held, told};
use crate::support::{Bench, Call, shell};

/// A kind that proposes another text of a document.
pub(super) fn declare_proposes(bench: &Bench) {
    let agent = "{ cat \"$root/$path\"; echo more; } | propose --summary more";
    bench.topic_kind("proposes", "timeout = \"30s\", produces = \"proposal\"", agent);
}

/// Makes such a proposal; returns the request that approves it.
pub(super) fn proposal(bench: &Bench, path: &str, quote: &str) -> Call {
    bench.approval(&bench.proposal("proposes", &bench.topic(path, quote, "more")))
}

#[track_caller]
pub(super) fn refused(bench: &Bench, approval: &Call) {
    let answer = bench.send(approval);
    assert_eq!(answer.refusal(), (409, "planted_repository"), "{answer:?}");
}

pub(super) fn head(git_dir: &Utf8Path) -> String {
    shell(&format!("git --git-dir='{git_dir}' rev-parse refs/heads/main"))
}

#[track_caller]
fn cannot_restore(bench: &Bench, job: &str) -> String {
    let (code, out, err) = bench.cli(&["job", "restore", job]);
    assert!(code != 0 && err.contains("by hand"), "{code} {out}{err}");
    err
}

/// Git looks there for branches, whatever its environment says.
#[test]
fn g31_nothing_is_approved_into_a_repository_to_which_a_commondir_leads() {
    let bench = Bench::new();
    declare_proposes(&bench);
    let copy = bench.out.join("copy");
    declare(&bench, "leads", &format!("cp -r .git '{copy}' && echo '{copy}' > .git/commondir"));
    let server = bench.serve();
    let approval = proposal(&bench, "guide.md", "first");
    let before = head(&bench.top.join(".git"));
    let job = bench.job("leads", json!({}));
    bench.ended(&job);
    refused(&bench, &approval);
    assert_eq!(head(&copy), before);
    let (code, out, err) = bench.cli(&["job", "restore", &job]);
    assert_eq!(code, 0, "{out}{err}");
    bench.send(&approval).ok();
    assert_ne!(head(&bench.top.join(".git")), before);
    assert_eq!(head(&copy), before);
    server.stop();
}

/// Fails with `WB_WITHOUT=git_folder`.
#[test]
fn g31_nothing_is_approved_into_another_repository() {
    let bench = Bench::new();
    declare_proposes(&bench);
    let (git, old, copy) = (bench.top.join(".git"), bench.out.join("old"), bench.out.join("copy"));
    declare(&bench, "next", "exit 0");
    let exchange = format!("cp -r .git '{copy}' && mv .git '{old}' && mv '{copy}' .git");
    declare(&bench, "copies", &format!("{exchange}\n{WAITS}"));
    let link = format!("cp -r .git '{copy}' && mv .git '{old}' && ln -s '{copy}' .git");
    declare(&bench, "links", &link);
    let edit = format!("git config --file '{copy}/config' core.fsmonitor evil");
    declare(&bench, "edits", &edit);
    let server = bench.serve();
    let (one, two) = (
        proposal(&bench, "guide.md", "The first line."),
        proposal(&bench, "notes.md", "Keep this."),
    );
    let was = head(&git);
    let job = bench.job("copies", json!({}));
    bench.wait_left("ready");
    // While the job runs, and after the server was killed, which opens the copy.
    refused(&bench, &one);
    server.kill();
    let server = bench.serve();
    refused(&bench, &one);
    let ended = bench.ended(&job);
    assert!(told(&ended).contains("touched_git: .git is another repository"), "{ended:#}");
    assert!(told(&ended).contains("agent_files: .git can control agents"), "{ended:#}");
    let next = bench.job("next", json!({}));
    assert!(is_held(&bench, &next, &job).contains(".git"));
    let said = cannot_restore(&bench, &job);
    assert!(said.contains("planted_repository") || said.contains("another repository"), "{said}");
    // It holds across a restart without the job.
    server.stop();
    let server = bench.serve();
    refused(&bench, &one);
    is_held(&bench, &next, &job);
    assert_eq!((head(&git), head(&old)), (was.clone(), was.clone()));
    // Put back by hand, it is the known one again, without a restart.
    std::fs::rename(&git, bench.out.join("evil")).unwrap();
    std::fs::rename(&old, &git).unwrap();
    let (code, out, err) = bench.cli(&["job", "restore", &job]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    bench.send(&one).ok();
    assert_ne!(head(&git), was);
    // What a person keeps is the known one; what changes behind the link is seen from then on.
    let linked = bench.job("links", json!({}));
    assert!(told(&bench.ended(&linked)).contains("agent_files: .git can control"));
    refused(&bench, &two);
    assert_eq!(bench.cli(&["job", "keep", &linked]).0, 0);
    bench.send(&two).ok();
    assert_ne!(head(&copy), head(&old));
    for _ in 0..2 {
        bench.ended(&bench.job("next", json!({})));
    }
    let named = told(&bench.ended(&bench.job("edits", json!({}))));
    assert!(named.contains("agent_files: .git/config (core.fsmonitor) can control"), "{named}");
    server.stop();
}

/// Fails with `WB_WITHOUT=git_folder`.
#[test]
fn g31_nothing_is_written_through_a_link_that_a_job_made() {
    let bench = Bench::new();
    declare_proposes(&bench);
    let git = bench.top.join(".git");
    let place = |name: &str| -> Utf8PathBuf { bench.out.join(name.replace('/', "-")) };
    let links = ["refs/heads", "objects", "info", "index"];
    for name in links {
        let (kind, to) = (name.replace('/', "-"), place(name));
        let then = "git commit -q --allow-empty -m unasked --no-verify";
        let link = format!("mv .git/{name} '{to}' && ln -s '{to}' .git/{name} && {then}");
        declare(&bench, &kind, &link);
    }
    let rules = format!("echo mine.txt > '{}/exclude'", place("info"));
    declare(&bench, "rules", &rules);
    declare(&bench, "next", "exit 0");
    // Whoever has links there before has made them.
    std::fs::rename(git.join("logs"), place("logs")).unwrap();
    std::os::unix::fs::symlink(place("logs"), git.join("logs")).unwrap();
    let server = bench.serve();
    let approval = proposal(&bench, "guide.md", "The first line.");
    let was = bench.git(&["rev-parse", "HEAD"]);
    for name in links {
        let job = bench.job(&name.replace('/', "-"), json!({}));
        let named = told(&bench.ended(&job));
        assert!(named.contains(&format!("agent_files: .git/{name} can control")), "{named}");
        assert!(!named.contains("logs"), "{named}");
        let next = bench.job("next", json!({}));
        is_held(&bench, &next, &job);
        refused(&bench, &approval);
        let unasked = bench.git(&["rev-parse", "HEAD"]);
        assert_ne!(unasked, was);
        for asked in [vec![], vec!["main"]] {
            let words = [vec!["job", "restore", job.as_str()], asked].concat();
            let (code, out, err) = bench.cli(&words);
            assert!(code != 0 && err.contains("by hand"), "{code} {out}{err}");
        }
        assert_eq!(bench.git(&["rev-parse", "HEAD"]), unasked, "{name}: nothing was written");
        std::fs::remove_file(git.join(name)).unwrap();
        std::fs::rename(place(name), git.join(name)).unwrap();
        let (code, out, err) = bench.cli(&["job", "restore", &job, "--commits"]);
        assert_eq!(code, 0, "{name}: {out}{err}");
        assert_eq!(bench.git(&["rev-parse", "HEAD"]), was);
        bench.ended(&next);
    }
    // The rules behind a link that a person keeps are read.
    let job = bench.job("info", json!({}));
    bench.ended(&job);
    assert_eq!(bench.cli(&["job", "keep", &job]).0, 0);
    let named = told(&bench.ended(&bench.job("rules", json!({}))));
    assert!(named.contains("touched_git: .git/info/exclude (changed)"), "{named}");
    server.stop();
}

/// Fails with `WB_WITHOUT=behind_links`.
#[test]
fn g31_what_is_behind_a_link_that_was_there_before_is_read() {
    let bench = Bench::new();
    let (git, away) = (bench.top.join(".git"), bench.out.join("away"));
    std::fs::create_dir_all(&away).unwrap();
    std::fs::copy(git.join("config"), away.join("config")).unwrap();
    for name in ["hook", "exclude", "attributes"] {
        std::fs::write(away.join(name), "\n").unwrap();
    }
    // One of several links, and one whose target is made later.
    std::os::unix::fs::symlink(away.join("config"), away.join("hop")).unwrap();
    let links = [
        ("config", "hop"),
        ("hooks/pre-commit", "hook"),
        ("hooks/post-commit", "made"),
        ("info/exclude", "exclude"),
        ("info/attributes", "attributes"),
    ];
    for (name, target) in links {
        drop(std::fs::remove_file(git.join(name)));
        std::os::unix::fs::symlink(away.join(target), git.join(name)).unwrap();
        declare(&bench, target, &format!("echo '# obey' >> '{away}/{target}'"));
    }
    declare(&bench, "next", "exit 0");
    let config = format!("rm .git/config && cp '{away}/config' .git/config");
    declare(&bench, "replaces", &config);
    declare(&bench, "hides", &format!("{config}; echo '# obey' >> '{away}/config'"));
    let server = bench.serve();
    // Nothing has changed, and nothing is said.
    let named = told(&bench.ended(&bench.job("next", json!({}))));
    assert!(!named.contains("behind"), "{named}");
    for (name, target) in links {
        let file = if target == "hop" { "config" } else { target };
        let was = std::fs::read(away.join(file)).ok();
        let job = bench.job(target, json!({}));
        let named = told(&bench.ended(&job));
        let link = format!(".git/{name} (behind the link)");
        assert!(named.contains(&format!("touched_git: {link} (changed)")), "{named}");
        let steers = named.contains(&format!("agent_files: {link} can control"));
        assert_eq!(steers, !name.starts_with("info/"), "{named}");
        let next = bench.job("next", json!({}));
        if steers {
            is_held(&bench, &next, &job);
        }
        assert!(cannot_restore(&bench, &job).contains("was not kept"));
        match was {
            Some(was) => std::fs::write(away.join(file), was).unwrap(),
            None => std::fs::remove_file(away.join(file)).unwrap(),
        }
        assert_eq!(bench.cli(&["job", "restore", &job]).0, 0);
        bench.ended(&next);
    }
    // The link itself is put back, if what it leads to is as it was.
    let job = bench.job("replaces", json!({}));
    assert!(!told(&bench.ended(&job)).contains("behind"));
    let (code, out, err) = bench.cli(&["job", "restore", &job]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(git.join("config").is_symlink());
    let named = told(&bench.ended(&bench.job("hides", json!({}))));
    assert!(named.contains(".git/config (changed), .git/config (behind the link)"), "{named}");
    server.stop();
}

/// Fails with `WB_WITHOUT=git_folder`.
#[test]
fn g31_a_link_counts_while_the_job_that_made_it_runs() {
    let bench = Bench::new();
    bench.limits("jobs = 4");
    declare_proposes(&bench);
    let (refs, away) = (bench.top.join(".git/refs"), bench.out.join("refs"));
    let work = "echo mine > result.txt; pwd > \"$OUT/tree\"\n\
                until [ -e \"$OUT/end\" ]; do sleep 0.02; done";
    bench.word_kind("work", "timeout = \"30s\", workspace = \"worktree\"", work);
    declare(
        &bench,
        "links",
        &format!("mv .git/refs '{away}' && ln -s '{away}' .git/refs\n{WAITS}"),
    );
    let server = bench.serve();
    let (one, two) = (
        proposal(&bench, "guide.md", "The first line."),
        proposal(&bench, "notes.md", "Keep this."),
    );
    let work = bench.job("work", json!({}));
    let tree = Utf8PathBuf::from(bench.wait_left("tree"));
    let links = bench.job("links", json!({}));
    bench.wait_left("ready");
    refused(&bench, &one);
    // Neither the work in a worktree nor the states of a job are stored behind it.
    std::fs::write(bench.out.join("go"), "").unwrap();
    let named = told(&bench.ended(&links));
    assert!(named.contains("agent_files: .git/refs can") && named.contains("not_held"), "{named}");
    std::fs::write(bench.out.join("end"), "").unwrap();
    let named = told(&bench.ended(&work));
    assert!(named.contains("cleanup_failed") && named.contains("not_held"), "{named}");
    assert!(tree.join("result.txt").exists() && !away.join("wiki-browser").exists());
    std::fs::remove_file(&refs).unwrap();
    std::fs::rename(&away, &refs).unwrap();
    for job in [&work, &links] {
        let (code, out, err) = bench.cli(&["job", "restore", job]);
        assert_eq!(code, 0, "{out}{err}");
    }
    bench.send(&one).ok();
    // A person may want it, also before it has held anybody.
    for name in ["ready", "go"] {
        std::fs::remove_file(bench.out.join(name)).unwrap();
    }
    let links = bench.job("links", json!({}));
    bench.wait_left("ready");
    refused(&bench, &two);
    assert_eq!(bench.json(&["job", "keep", &links])["kept"], true);
    bench.send(&two).ok();
    std::fs::write(bench.out.join("go"), "").unwrap();
    let named = told(&bench.ended(&links));
    assert!(!named.contains("agent_files"), "{named}");
    server.stop();
}

#[test]
fn g31_a_fetch_while_a_job_runs_is_nothing_to_decide() {
    let bench = Bench::new();
    for name in ["remotes/origin/main", "remotes/origin/old", "keep/x", "notes/commits"] {
        bench.git(&["update-ref", &format!("refs/{name}"), "HEAD"]);
    }
    let new = "new=$(git commit-tree -m other HEAD^{tree}); ";
    declare(
        &bench,
        "fetches",
        &format!(
            "{new}git update-ref refs/remotes/origin/main $new; \
             git update-ref -d refs/remotes/origin/old; git update-ref refs/keep/x $new; \
             git update-ref refs/prefetch/a $new; git pack-refs --all"
        ),
    );
    declare(&bench, "notes", &format!("{new}git update-ref refs/notes/commits $new"));
    let server = bench.serve();
    let row = bench.ended(&bench.job("fetches", json!({})));
    assert_eq!((&row["warnings"], &row["changes"]), (&json!([]), &json!(null)), "{row:#}");
    // What git shows with commits counts.
    let notes = || bench.git(&["rev-parse", "refs/notes/commits"]);
    let was = notes();
    let job = bench.job("notes", json!({}));
    let named = told(&bench.ended(&job));
    assert!(named.contains("moved_head: refs/notes/commits was"), "{named}");
    assert_ne!(notes(), was);
    let (code, out, err) = bench.cli(&["job", "restore", &job]);
    assert_eq!((code, notes()), (0, was), "{out}{err}");
    server.stop();
}

/// Fails with `WB_WITHOUT=masking`.
#[test]
fn g28_a_secret_in_a_name_is_covered_in_warnings() {
    let bench = Bench::new();
    const SECRET: &str = "sup3rS3cretV4lue-9x7";
    declare(
        &bench,
        "names",
        "mkdir -p .claude; echo x > .claude/$MY_API_KEY.md; \
        echo x > n-$MY_API_KEY.txt; git branch b-$MY_API_KEY; git tag t-$MY_API_KEY; \
         git config alias.$MY_API_KEY '!x'",
    );
    declare(&bench, "next", "exit 0");
    let server = bench.serve_with(&[("MY_API_KEY", SECRET)]);
    let job = bench.job("names", json!({}));
    let ended = bench.ended(&job);
    let named = told(&ended);
    for part in ["refs/heads/b-****", "refs/tags/t-****", "n-****", ", .claude/****"] {
        assert!(named.contains(part), "{part}: {named}");
    }
    assert!(named.contains(".git/config (alias.****"), "{named}");
    assert!(!named.to_lowercase().contains(&SECRET.to_lowercase()), "{named}");
    let next = bench.job("next", json!({}));
    let message = is_held(&bench, &next, &job);
    assert!(message.contains("alias.****") && !message.contains(SECRET), "{message}");
    assert!(!server.log().contains(SECRET));
    // It is still the name by which a person restores it.
    let (code, out, err) = bench.cli(&["job", "restore", &job]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!bench.top.join(format!(".claude/{SECRET}.md")).exists());
    server.stop();
}
