//! Kinds of repositories: those that work, each on a server of its own, and those that a server
//! refuses.

use crate::git::table::{Stand, bench, user};
use crate::support::shell;

/// What is made of the usual repository in `$TOP` before the server starts.
const WORKS: &[(&str, &str)] = &[
    (
        "a linked worktree",
        "cd ..; mv wiki main; mkdir -p wiki/data; git -C main worktree add -qf -b side ../w
         cp -a w/. wiki/; rm -rf w; git -C main worktree repair ../wiki",
    ),
    (
        "a submodule",
        "cd ..; mv wiki origin; git init -q -b main .; git -c protocol.file.allow=always \
           submodule --quiet add ./origin wiki; git commit -qm outer; git -C wiki switch -q main",
    ),
    (
        "a folder of a repository",
        "cd ..; rm -rf wiki/.git; say outer > guide.md; git init -q -b main .
         git add wiki guide.md; git commit -qm outer",
    ),
    (
        "a folder that is ignored, its files tracked all the same",
        "cd ..; rm -rf wiki/.git; git init -q -b main .; say 'wiki/' > .gitignore
         git add -f wiki/guide.md wiki/notes.md .gitignore; git commit -qm outer",
    ),
    (
        "SHA-256",
        "rm -rf .git; git init -q -b main --object-format=sha256; git add -A; git commit -qm x",
    ),
    (
        "refs in tables, if this git has them",
        "rm -rf .git; git init -q -b main --ref-format=reftable || git init -q -b main
         git add -A; git commit -qm x",
    ),
    (
        "a shallow clone",
        "cd ..; mv wiki origin; cd origin; say x > notes.md; git commit -qam x; cd ..
         git clone -q --depth 1 file://$BASE/origin wiki",
    ),
    (
        "a partial clone",
        "cd ..; mv wiki origin; cd origin; say x > notes.md; git commit -qam x
         git config uploadpack.allowFilter true; cd ..
         git clone -q --no-checkout --filter=blob:none file://$BASE/origin wiki; cd wiki
         git sparse-checkout set --no-cone '/*' '!/docs/'; git checkout -q main; rm -rf ../origin",
    ),
    ("the git folder behind a file", "mv .git ../g; say 'gitdir: ../g' > .git"),
    ("the git folder behind a link", "mv .git ../g; ln -s ../g .git"),
    ("the refs behind a link", "mv .git/refs ../r; ln -s ../../r .git/refs"),
    (
        "an index of version 4",
        "git config feature.manyFiles true; git update-index \
        --index-version 4 --untracked-cache --split-index",
    ),
];

#[test]
fn every_kind_of_repository_with_a_working_tree_works() {
    std::thread::scope(|scope| {
        // Two at a time: most of it is waiting for starts and ends.
        let half = WORKS.len().div_ceil(2);
        for cases in WORKS.chunks(half) {
            scope.spawn(move || {
                for (what, setup) in cases {
                    let bench = bench();
                    user(&bench, setup);
                    let mut stand = Stand::on(bench);
                    stand.works(what);
                    stand.stop();
                }
            });
        }
    });
}

/// With which repository or git a server does not start, and what it says.
const REFUSED: &[(&str, &str, &str)] = &[
    ("no repository", "rm -rf .git", "is not in a git repository"),
    ("a bare one", "git clone -q --bare . ../b; rm -rf .git; cp -a ../b/. .", "is bare"),
    (
        "one of another user",
        "mkdir ../bin; printf '#!/bin/sh\\nexport GIT_TEST_ASSUME_DIFFERENT_OWNER=1
exec /usr/bin/git \"$@\"\\n' > ../bin/git; chmod +x ../bin/git",
        "belongs to another user",
    ),
    (
        "an unknown format",
        "git config core.repositoryFormatVersion 1; git config extensions.future true",
        "does not support the repository's format",
    ),
    ("configuration of nonsense", "say '[core' >> .git/config", "cannot read its configuration"),
    (
        "an old git",
        "mkdir ../bin; printf '#!/bin/sh\\necho git version 2.20.1\\n' > ../bin/git
         chmod +x ../bin/git",
        "too old",
    ),
    ("no git", "mkdir ../bin; ln -s /bin/sh ../bin/sh", "git"),
];

#[test]
fn a_server_does_not_start_on_what_it_cannot_serve() {
    for (what, setup, message) in REFUSED {
        let bench = bench();
        user(&bench, setup);
        let tree = || {
            shell(&format!(
                "cd {}; find . ! -name data ! -name wiki-browser.lua -printf '%p %y %m %l\\n' \
                   | sort; find . -type f ! -name wiki-browser.lua -print0 | sort -z \
                   | xargs -0 sha256sum",
                bench.top
            ))
        };
        let before = tree();
        let bin = bench.base.join("bin");
        let path = match (*what, bin.exists()) {
            ("no git", _) => bin.to_string(),
            (_, true) => format!("{bin}:/usr/bin:/bin"),
            (_, false) => "/usr/bin:/bin".to_owned(),
        };
        let mut server = bench.start(&[("PATH", &path)]);
        let (status, _) = server.wait();
        let log = server.log();
        assert_eq!(status.code(), Some(6), "{what}: {log}");
        assert!(log.contains(message) && log.contains("hint: "), "{what}: {log}");
        assert_eq!(before, tree(), "{what}");
        assert!(!bench.data.join("wiki.db").exists(), "{what}");
    }
}

/// The program may go while the server runs: an update of the system takes a moment.
#[test]
fn a_git_that_is_gone_is_named() {
    let bench = bench();
    user(&bench, "mkdir ../bin; ln -s /usr/bin/git ../bin/git");
    let path = format!("{}/bin:/usr/bin:/bin", bench.base);
    let mut stand = Stand::with(bench, &[("PATH", &path)]);
    stand.user("rm ../bin/git");
    stand.refuses("no git", "git_missing", "install git");
    stand.user("ln -s /usr/bin/git ../bin/git");
    stand.works("git is back");
    stand.stop();
}

/// Some file systems cannot exchange two files: then it is done as git does it.
#[cfg(feature = "faults")]
#[test]
fn a_file_system_that_cannot_exchange_works_too() {
    let mut stand = Stand::with(bench(), &[("WB_ABSENT", "rename_exchange")]);
    stand.keep();
    stand.user("printf x >> guide.md");
    stand.refuses("edited", "source_dirty", "commit, stash");
    stand.put_back();
    stand.works("without an exchange");
    stand.stop();
}
