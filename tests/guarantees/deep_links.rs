//! G31 and G22: links that a job made deep in git's own folders, and where a restore puts things
//! aside.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;

use crate::guarantees::git_folder::{declare_proposes, head, proposal, refused};
use crate::guarantees::looks::{declare, is_held, told};
use crate::support::Bench;

/// Returns the name of a folder of objects that is not there.
fn absent_objects(git: &Utf8Path) -> String {
    let mut names = (0..256).map(|it| format!("objects/{it:02x}"));
    names.rfind(|it| !git.join(it).exists()).unwrap()
}

fn kind_of(name: &str) -> String {
    name.replace('/', "-").to_lowercase()
}

/// Fails with `WB_WITHOUT=git_folder`.
#[test]
fn g31_a_link_deep_in_gits_folders_is_written_through_by_nobody() {
    let bench = Bench::new();
    declare_proposes(&bench);
    let git = bench.top.join(".git");
    let objects = absent_objects(&git);
    let names = [
        "refs/wiki-browser",
        "refs/heads/main",
        &objects,
        "logs/refs",
        "logs/HEAD",
        "logs/refs/x/y",
    ];
    let place = |name: &str| -> Utf8PathBuf { bench.out.join(name.replace('/', "-")) };
    for name in names {
        let to = place(name);
        let link = format!(
            "if [ -e .git/{name} ]; then mv .git/{name} '{to}'; else mkdir '{to}'; fi; \
             mkdir -p $(dirname .git/{name}) && ln -s '{to}' .git/{name}"
        );
        declare(&bench, &kind_of(name), &link);
    }
    declare(&bench, "next", "exit 0");
    let server = bench.serve();
    let approval = proposal(&bench, "guide.md", "The first line.");
    let was = head(&git);
    for name in names {
        let to = place(name);
        let was_there = git.join(name).exists();
        let job = bench.job(&kind_of(name), json!({}));
        let named = told(&bench.ended(&job));
        assert!(named.contains(&format!("touched_git: .git/{name} (a link since)")), "{named}");
        assert!(named.contains(&format!("agent_files: .git/{name} can control")), "{named}");
        let next = bench.job("next", json!({}));
        is_held(&bench, &next, &job);
        refused(&bench, &approval);
        let written = std::fs::read(&to).ok();
        if !name.starts_with("logs/") {
            let (code, out, err) = bench.cli(&["job", "restore", &job]);
            assert!(code != 0 && err.contains("by hand"), "{name}: {code} {out}{err}");
            std::fs::remove_file(git.join(name)).unwrap();
            if was_there {
                std::fs::rename(&to, git.join(name)).unwrap();
            }
        }
        let (code, out, err) = bench.cli(&["job", "restore", &job]);
        assert_eq!(code, 0, "{name}: {out}{err}");
        assert!(!git.join(name).is_symlink(), "{name}");
        if name.starts_with("logs/") {
            assert_eq!(std::fs::read(&to).ok(), written, "{name}");
        }
        bench.ended(&next);
    }
    assert_eq!(head(&git), was);
    bench.send(&approval).ok();
    assert_ne!(head(&git), was);
    let empty = std::fs::read_dir(place(&objects)).unwrap().count();
    assert_eq!(empty, 0, "no object is outside");
    server.stop();
}

#[test]
fn g22_nothing_is_put_aside_through_a_link() {
    let bench = Bench::new();
    let (git, away) = (bench.top.join(".git"), bench.out.join("away"));
    let precious = away.join("hooks-pre-push");
    std::fs::create_dir(&away).unwrap();
    std::fs::write(&precious, "PRECIOUS").unwrap();
    let hook = "printf '#!/bin/sh\n' > .git/hooks/pre-push";
    let own = format!("mkdir .git/wiki-browser; ln -s '{away}' .git/wiki-browser/$WB_JOB_ID");
    declare(&bench, "own", &format!("{own}; {hook}"));
    let all = format!("rm -rf .git/wiki-browser; ln -s '{away}' .git/wiki-browser");
    declare(&bench, "all", &format!("{all}; {hook}"));
    let mine = "mkdir -p .git/wiki-browser/$WB_JOB_ID; \
                echo mine > .git/wiki-browser/$WB_JOB_ID/hooks-pre-push";
    declare(&bench, "hook", &format!("{mine}; {hook}"));
    let server = bench.serve();
    for kind in ["own", "all", "hook"] {
        let job = bench.job(kind, json!({}));
        let named = told(&bench.ended(&job));
        let link = match kind {
            "own" => format!("wiki-browser/{job}"),
            _ => "wiki-browser".to_owned(),
        };
        if kind == "hook" {
            // Made later, by somebody else.
            std::fs::rename(git.join(&link), bench.out.join("was")).unwrap();
            std::os::unix::fs::symlink(&away, git.join(&link)).unwrap();
        } else {
            assert!(named.contains(&format!(".git/{link} (a link since)")), "{named}");
        }
        let (code, out, err) = bench.cli(&["job", "restore", &job, ".git/hooks/pre-push"]);
        assert!(code != 0 && err.contains(&format!("{link} is a link")), "{code} {out}{err}");
        assert!(git.join("hooks/pre-push").exists(), "nothing was changed");
        if kind == "hook" {
            std::fs::remove_file(git.join(&link)).unwrap();
            std::fs::rename(bench.out.join("was"), git.join(&link)).unwrap();
        }
        let (code, out, err) = bench.cli(&["job", "restore", &job]);
        assert_eq!(code, 0, "{kind}: {out}{err}");
        assert!(!git.join("hooks/pre-push").exists() && !git.join(&link).is_symlink(), "{kind}");
        let aside = git.join("wiki-browser").join(&job);
        let name = if kind == "hook" { "hooks-pre-push.2" } else { "hooks-pre-push" };
        assert_eq!(std::fs::read_to_string(aside.join(name)).unwrap(), "#!/bin/sh\n");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "PRECIOUS");
        assert_eq!(std::fs::read_dir(&away).unwrap().count(), 1, "{kind}");
    }
    server.stop();
}
