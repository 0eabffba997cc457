//! The index of a worktree: what is staged is kept, and what a sparse checkout leaves out is not
//! deleted.

use camino::{Utf8Path, Utf8PathBuf};
use wiki_browser::documents::workspace::Discard;

use crate::git::support::{git, try_git, write};
use crate::git::workspaces::{Bench, Tree, copy};

/// Git's folder of a worktree.
fn own(bench: &Bench, tree: &Tree) -> Utf8PathBuf {
    bench.top.join(".git/worktrees").join(tree.path.file_name().unwrap())
}

#[allow(clippy::disallowed_methods, reason = "a test plays the agent")]
fn shell(folder: &Utf8Path, script: &str) {
    let ran = std::process::Command::new("/bin/sh")
        .args(["-ec", script])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .status();
    assert!(ran.unwrap().success(), "{script}");
}

fn has(bench: &Bench, kept: &str, text: &str) -> bool {
    try_git(&bench.top, &["grep", "-q", text, kept]).0 == 0
}

fn parents(bench: &Bench, kept: &str) -> String {
    git(&bench.top, &["log", "-1", "--format=%P", kept])
}

/// The last parent of a saved commit.
fn staged(bench: &Bench, kept: &str) -> String {
    parents(bench, kept).split(' ').next_back().unwrap().to_owned()
}

/// What is staged and in no file is in a parent of the saved commit, as `git stash` does it.
#[tokio::test]
async fn g36_what_is_only_staged_is_kept() {
    let bench = Bench::new(&[("a.md", "one\n"), (".gitignore", "ignored\n")]).await;
    // A file that was removed again; another text than the file's; what git ignores otherwise.
    let tree = bench.make().await;
    write(&tree.path, "new.md", "new and staged\n");
    write(&tree.path, "a.md", "two and staged\n");
    write(&tree.path, "ignored", "ignored and staged\n");
    git(&tree.path, &["add", "-f", "new.md", "a.md", "ignored"]);
    std::fs::remove_file(tree.path.join("new.md")).unwrap();
    write(&tree.path, "a.md", "three\n");
    // A process that was killed left its lock.
    write(&own(&bench, &tree), "index.lock", "");
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    let index = staged(&bench, &kept);
    for text in ["new and staged", "two and staged", "ignored and staged"] {
        assert!(has(&bench, &index, text) && !has(&bench, &kept, text), "{text}");
    }
    assert!(has(&bench, &kept, "three"));
    assert_eq!(parents(&bench, &index), tree.base.as_str());
    // Only the index differs, also half of it in another file.
    let tree = bench.make().await;
    git(&tree.path, &["update-index", "--split-index"]);
    write(&tree.path, "new.md", "once staged\n");
    git(&tree.path, &["add", "new.md"]);
    std::fs::remove_file(tree.path.join("new.md")).unwrap();
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    assert!(has(&bench, &staged(&bench, &kept), "once staged"));
    assert_eq!(git(&bench.top, &["diff", "--stat", tree.base.as_str(), &kept]), "");
    // The folder is gone, and what was staged is not; asked again, it is kept once.
    let tree = bench.make().await;
    write(&tree.path, "new.md", "staged in a lost folder\n");
    git(&tree.path, &["add", "new.md"]);
    std::fs::remove_dir_all(&tree.path).unwrap();
    let own = own(&bench, &tree);
    let aside = bench.below.join("own");
    copy(&own, &aside);
    let kept = bench.remove(&tree, Discard::Missing).await.unwrap().unwrap();
    assert!(has(&bench, &kept, "staged in a lost folder"));
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::rename(&aside, &own).unwrap();
    assert_eq!(bench.remove(&tree, Discard::Missing).await, Ok(Some(kept.clone())));
    let refs = git(&bench.top, &["for-each-ref", "--format=%(refname)", "refs/wiki-browser"]);
    assert_eq!(refs.lines().filter(|it| it.starts_with(&kept)).count(), 1, "{refs}");
    // Too much.
    let tree = bench.make().await;
    let large = "head -c 67108865 /dev/zero > large; git -c core.compression=0 add large; rm large";
    shell(&tree.path, large);
    assert_eq!(bench.remove(&tree, Discard::Nothing).await, Err("not_kept".to_owned()));
    assert_eq!(bench.remove(&tree, Discard::Unkept).await, Ok(None));
    assert_eq!(bench.left(), (0, false));
}

#[tokio::test]
async fn what_the_files_or_a_saved_commit_have_needs_no_parent() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    let tree = bench.make().await;
    write(&tree.path, "a.md", "staged as it is\n");
    git(&tree.path, &["add", "a.md"]);
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    assert_eq!(parents(&bench, &kept), tree.base.as_str());
    let tree = bench.make().await;
    write(&tree.path, "a.md", "committed\n");
    git(&tree.path, &["commit", "-q", "-a", "-m", "mine"]);
    let mine = git(&tree.path, &["rev-parse", "HEAD"]);
    git(&tree.path, &["reset", "-q", "--soft", "HEAD~1"]);
    write(&tree.path, "a.md", "later\n");
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    assert_eq!(parents(&bench, &kept), format!("{} {mine}", tree.base));
    // A file that is to be added later, and a worktree without an index.
    let tree = bench.make().await;
    write(&tree.path, "later.md", "later\n");
    git(&tree.path, &["add", "-N", "later.md"]);
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    assert_eq!(parents(&bench, &kept), tree.base.as_str());
    let tree = bench.make().await;
    std::fs::remove_file(own(&bench, &tree).join("index")).unwrap();
    assert_eq!(bench.remove(&tree, Discard::Nothing).await, Ok(None));
}

/// An index with conflicts, damaged, or made up: it is kept as far as it can be, and the files in
/// any case.
#[tokio::test]
async fn g36_an_index_that_is_not_sound_keeps_nothing_from_being_kept() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    let show = |kept: &str, name: &str| git(&bench.top, &["show", &format!("{kept}:{name}")]);
    let names = |kept: &str| git(&bench.top, &["ls-tree", "-r", "--name-only", kept]);
    // Sides of a conflict that no commit has.
    let tree = bench.make().await;
    let blob = |text: &str| {
        write(&tree.path, "text", text);
        git(&tree.path, &["hash-object", "-w", "text"])
    };
    let (base, ours, theirs) = (blob("the base"), blob("our side"), blob("their side"));
    let nothing = "1".repeat(40);
    write(
        &tree.path,
        "text",
        format!(
            "0 {nothing}\ta.md\n100644 {base} 1\ta.md\n100644 {ours} 2\ta.md\n\
             100644 {theirs} 3\ta.md\n100644 {ours} 0\tb.md\n"
        ),
    );
    let text = tree.path.join("text");
    shell(&tree.path, &format!("git update-index --index-info < {text}; rm {text}"));
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    let index = staged(&bench, &kept);
    assert_eq!(names(&index), "base/a.md\nmerged/b.md\nours/a.md\ntheirs/a.md");
    assert_eq!((show(&index, "ours/a.md"), show(&kept, "a.md")), ("our side".into(), "one".into()));
    // An entry whose content is gone.
    let tree = bench.make().await;
    write(&tree.path, "b.md", "in the index alone\n");
    git(&tree.path, &["add", "b.md"]);
    std::fs::remove_file(tree.path.join("b.md")).unwrap();
    let missing = format!("100644,{nothing},c.md");
    git(&tree.path, &["update-index", "--add", "--cacheinfo", &missing]);
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    assert_eq!(names(&staged(&bench, &kept)), "a.md\nb.md");
    // What git cannot read, a FIFO in the place of the other half, a link, a folder.
    for (damage, is_kept) in [
        ("echo garbage > index", true),
        ("head -c 40 index > cut; mv cut index", true),
        ("rm -f index; mkfifo index", false),
        ("mkfifo sharedindex.1111111111111111111111111111111111111111", true),
        ("mv index ../../theirs; ln -s ../../theirs index", false),
        ("rm -f index; mkdir index", false),
        (": > index", false),
    ] {
        let tree = bench.make().await;
        write(&tree.path, "new.md", "precious\n");
        shell(&own(&bench, &tree), damage);
        let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
        assert_eq!(names(&kept), "a.md\nnew.md", "{damage}");
        let parents = if is_kept { "index" } else { "a.md" };
        assert_eq!(names(&staged(&bench, &kept)), parents, "{damage}");
    }
    assert_eq!(bench.left(), (0, false));
}

/// A file that a sparse checkout leaves out was not deleted.
#[tokio::test]
async fn what_a_sparse_checkout_leaves_out_is_unchanged() {
    let files = [("a.md", "one\n"), ("big/x.md", "x\n"), ("big/z.md", "z\n"), ("sub/y.md", "y\n")];
    let bench = Bench::new(&files).await;
    let narrow = [
        &["sparse-checkout", "set", "--no-cone", "/sub/"][..],
        &["sparse-checkout", "set", "--cone", "--sparse-index", "sub"],
    ];
    for args in narrow {
        let tree = bench.make().await;
        git(&tree.path, args);
        assert!(!tree.path.join("big/x.md").exists());
        write(&tree.path, "big/x.md", "written all the same\n");
        std::fs::remove_file(tree.path.join("sub/y.md")).unwrap();
        let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
        let changed = ["diff", "--no-renames", "--name-status", tree.base.as_str(), &kept];
        assert_eq!(git(&bench.top, &changed), "M\tbig/x.md\nD\tsub/y.md", "{args:?}");
    }
    let tree = bench.make().await;
    git(&tree.path, narrow[1]);
    assert_eq!(bench.remove(&tree, Discard::Nothing).await, Ok(None));
}
