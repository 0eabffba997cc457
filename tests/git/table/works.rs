//! States in which an approval works, and leaves the rest as it is.

use crate::git::table::Stand;

/// The state, and what the user did.
type Case = (&'static str, &'static str);

const STATES: &[Case] = &[
    ("refs packed", "git pack-refs --all"),
    ("objects packed", "git repack -qad; git pack-refs --all"),
    ("the branch moved elsewhere", "say mine >> notes.md; git commit -qam x"),
    (
        "changed and changed back",
        "cp guide.md ../g; say x >> guide.md; git commit -qam x
         cp ../g guide.md; git commit -qam y",
    ),
    ("another branch", "git switch -q -c other/deep"),
    ("executable, committed", "chmod +x guide.md; git commit -qam x"),
    ("touched", "touch -d 2001-01-01 guide.md"),
    ("replaced by the same", "cp guide.md ../g; rm guide.md; cat ../g > guide.md"),
    (
        "hooks",
        "for h in pre-commit commit-msg post-commit reference-transaction post-index-change \
           post-checkout pre-auto-gc prepare-commit-msg; do
           printf '#!/bin/sh\\ntouch ../ran; exit 1\\n' > .git/hooks/$h; chmod +x .git/hooks/$h
         done; mkdir ../hooks; cp .git/hooks/* ../hooks/; git config core.hooksPath ../hooks",
    ),
    (
        "signed commits, templates, monitors",
        "git config commit.gpgSign true; git config gpg.program false; git config tag.gpgSign true
         git config commit.template /nonexistent; git config core.fsmonitor 'touch ../ran'
         git config user.signingKey none; git config gpg.format ssh
         git config core.editor 'touch ../ran'; git config commit.cleanup scissors
         git config core.untrackedCache true; git config core.preloadIndex true",
    ),
    (
        "a filter for others",
        "git config filter.x.clean 'touch ../ran; cat'; git config filter.x.required true
         git config filter.x.smudge 'touch ../ran; cat'; git config filter.x.process 'touch ../ran'
         say 'notes.md filter=x' > .git/info/attributes; touch notes.md",
    ),
    (
        "line ends of other files",
        "git config core.safecrlf true; say 'notes.md text eol=crlf' > .git/info/attributes",
    ),
    ("text=auto", "say '* text=auto' > .git/info/attributes"),
    ("core.autocrlf=input", "git config core.autocrlf input"),
    (
        "core.worktree elsewhere",
        "mkdir ../victim; cp -a guide.md ../victim/; git config core.worktree $BASE/victim
         git config extensions.worktreeConfig true; git config core.worktree $TOP",
    ),
    (
        "a replaced object",
        "git replace $(git rev-parse HEAD:guide.md) $(git rev-parse HEAD:notes.md); git status -s",
    ),
    (
        "alternates",
        "mv .git/objects ../objects; mkdir -p .git/objects/info
         say $BASE/objects > .git/objects/info/alternates; mkdir .git/objects/pack",
    ),
    (
        "an index of version 4, split, with extras",
        "git update-index --index-version 4; git config feature.manyFiles true
         git update-index --untracked-cache; git status -s",
    ),
    ("a split index", "git update-index --split-index; git config core.splitIndex true"),
    ("a sparse checkout", "git sparse-checkout set --no-cone '/*' '!/docs/'"),
    ("a cone", "git sparse-checkout set --cone; git config index.sparse true; git status -s"),
    (
        "unwatched others",
        "git update-index --assume-unchanged notes.md; say mine >> notes.md
         git update-index --skip-worktree docs/deep.md; say mine >> docs/deep.md",
    ),
    (
        "every sort of change elsewhere",
        "say mine >> notes.md; git add notes.md; say more >> notes.md; git rm -q docs/deep.md
         say new > new.md; say later > later.md; git add -N later.md; git add new.md
         say loose > loose.md; mkdir dir; say x > dir/x; say '*.z' > .git/info/exclude; say > a.z
         ln -s guide.md link.md; mkfifo pipe",
    ),
    (
        "a stash, tags and notes",
        "say mine >> notes.md; git stash -q; git tag -a -m t t; git notes add -m n HEAD",
    ),
    (
        "a lost blob of another file",
        "b=$(git rev-parse HEAD:notes.md); rm -f .git/objects/$(echo $b | sed 's,^..,&/,')",
    ),
    (
        "case clashes",
        "say other > GUIDE.md; mkdir Docs; say other > Docs/deep.md; git add -A; git commit -qm x",
    ),
    (
        "case clashes where git does not tell case apart",
        "say other > GUIDE.md; mkdir Docs; say other > Docs/deep.md; git add -A; git commit -qm x
         git config core.ignoreCase true",
    ),
    ("grafts", "git rev-parse HEAD > .git/info/grafts"),
    (
        "names of every sort",
        "for n in 'a b.md' \"q'\\\"q.md\" '-v.md' ':(glob)x.md' 'new\nline.md' 'tab\t.md' '*.md' \
           \"$(printf 'caf\\303\\251.md')\" \"$(printf 'cafe\\314\\201.md')\" \
           \"$(printf 'not-\\377-utf8.md')\"; do say x > \"./$n\"; done
         git add -A; git commit -qm x
         say more >> ./-v.md",
    ),
    (
        "a submodule",
        "git init -q sub; git -C sub commit -q --allow-empty -m x
        git -c advice.addEmbeddedRepo=false add sub; git commit -qm x; say x > sub/x",
    ),
    ("a nested repository", "git init -q nested; say x > nested/x.md"),
    (
        "another worktree on another branch",
        "git worktree add -q ../linked -b linked; say x > ../linked/x.md",
    ),
    ("nobody's language", "git config i18n.commitEncoding latin1; git config core.quotePath false"),
    ("private files", "chmod 600 guide.md"),
];

/// One server for all; a new proposal for each.
#[test]
fn an_approval_works_and_leaves_the_rest() {
    let mut stand = Stand::new();
    let mut failed = Vec::new();
    for (what, setup) in STATES {
        stand.user(setup);
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stand.works(what)));
        let is_done = stand.bench.proposal_status(&stand.shown) != "open";
        if let Err(cause) = told {
            let said = cause.downcast_ref::<String>().cloned().unwrap_or_default();
            failed.push(format!("{what}: {said}"));
        }
        stand.put_back();
        stand.user("rm -rf ../hooks ../elsewhere ../linked ../objects ../victim");
        if is_done {
            stand.again();
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(!stand.bench.base.join("ran").exists(), "a program of the configuration was run");
    stand.stop();
}
