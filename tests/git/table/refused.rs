//! States in which an approval is refused.

use crate::git::table::Stand;

/// The state, what the user did, the code, and a word of the hint.
type Case = (&'static str, &'static str, &'static str, &'static str);

const HEADS: &[Case] = &[
    ("unborn", "git checkout -q --orphan new", "unborn_head", "first commit"),
    ("the branch deleted", "git update-ref -d refs/heads/main", "unborn_head", "first commit"),
    ("detached", "git checkout -q --detach", "detached_head", "git switch"),
    (
        "HEAD is a tag's name",
        "git tag t; echo 'ref: refs/tags/t' > .git/HEAD",
        "detached_head",
        "git switch",
    ),
    ("a merge", "both; git merge side || :", "merge_in_progress", "git status"),
    ("a cherry-pick", "both; git cherry-pick side || :", "merge_in_progress", "git status"),
    (
        "a revert",
        "both; say more > notes.md; git commit -qam more; git revert --no-edit HEAD~1 || :",
        "merge_in_progress",
        "git status",
    ),
    ("a rebase", "both; git rebase side || :", "merge_in_progress", "git status"),
    ("a rebase --apply", "both; git rebase --apply side || :", "merge_in_progress", "git status"),
    ("a bisect", "both; git bisect start HEAD HEAD~1", "merge_in_progress", "git status"),
    (
        "git am",
        "both; git format-patch -q --stdout main..side > ../p; git am -q ../p || :",
        "merge_in_progress",
        "git status",
    ),
    (
        "a stash that did not fit",
        "both; say x > notes.md; git stash -q; say y > notes.md; git commit -qam y
         git stash pop || :",
        "merge_in_progress",
        "esolve",
    ),
    ("the index locked", "touch .git/index.lock", "index_locked", "remove that file"),
    ("HEAD locked", "touch .git/HEAD.lock", "index_locked", "remove that file"),
    ("the branch locked", "touch .git/refs/heads/main.lock", "index_locked", "remove that file"),
];

const SOURCES: &[Case] = &[
    ("edited", "say mine >> guide.md", "source_dirty", "commit, stash"),
    ("emptied", ": > guide.md", "source_dirty", "commit, stash"),
    ("staged", "say mine >> guide.md; git add guide.md", "source_dirty", "commit, stash"),
    (
        "staged and edited again",
        "say mine >> guide.md; git add guide.md; say more >> guide.md",
        "source_dirty",
        "commit, stash",
    ),
    (
        "staged and put back",
        "say mine >> guide.md; git add guide.md; git show HEAD:guide.md > guide.md",
        "source_dirty",
        "commit, stash",
    ),
    (
        "the very text, not committed",
        "sed -i 's/first/best/' guide.md",
        "source_dirty",
        "commit, stash",
    ),
    (
        "same size and times",
        "touch -r guide.md ../t; sed -i 's/first/First/' guide.md; touch -r ../t guide.md
         git config core.trustctime false; git config core.checkStat minimal",
        "source_dirty",
        "commit, stash",
    ),
    (
        "in conflict, though nothing is in progress",
        "b=$(git rev-parse HEAD:guide.md); n=$(git rev-parse HEAD:notes.md)
         printf '0 %040d\\tguide.md\\n100644 %s 1\\tguide.md\\n100644 %s 2\\tguide.md\\n' \
           0 $b $n | git update-index --index-info",
        "merge_in_progress",
        "esolve",
    ),
    ("taken from the index", "git rm -q --cached guide.md", "source_gone", "bring it back"),
    (
        "an intention to add",
        "git rm -q --cached guide.md; git add -N guide.md",
        "source_dirty",
        "commit, stash",
    ),
    (
        "assume-unchanged",
        "git update-index --assume-unchanged guide.md; say mine >> guide.md",
        "source_dirty",
        "--no-assume-unchanged",
    ),
    (
        "skip-worktree",
        "git update-index --skip-worktree guide.md; say mine >> guide.md",
        "source_dirty",
        "--no-skip-worktree",
    ),
    ("deleted", "rm guide.md", "source_gone", "bring it back"),
    ("deleted and committed", "git rm -q guide.md; git commit -qm x", "source_gone", "reject"),
    ("renamed", "git mv guide.md moved.md", "source_gone", "reject"),
    (
        "renamed and committed",
        "git mv guide.md moved.md; git commit -qm x",
        "source_gone",
        "reject",
    ),
    ("made executable", "chmod +x guide.md", "source_dirty", "commit, stash"),
    ("a link", "mv guide.md ../g; ln -s ../g guide.md", "path_is_link", "links are not followed"),
    (
        "a link, committed",
        "mv guide.md g.md; ln -s g.md guide.md; git add -A; git commit -qm x",
        "path_is_link",
        "links are not followed",
    ),
    ("a link to nowhere", "rm guide.md; ln -s none guide.md", "path_is_link", "links"),
    ("a folder", "rm guide.md; mkdir guide.md; say x > guide.md/x", "not_a_file", "regular file"),
    (
        "a folder, committed",
        "git rm -q guide.md; mkdir guide.md; say x > guide.md/x.md; git add -A; git commit -qm x",
        "source_gone",
        "reject",
    ),
    ("a pipe", "rm guide.md; mkfifo guide.md", "not_a_file", "regular file"),
    ("a second name", "ln guide.md ../second", "hard_link", "copy"),
    (
        "a submodule",
        "git rm -q guide.md; git init -q guide.md
        git -C guide.md commit -q --allow-empty -m x
        git -c advice.addEmbeddedRepo=false add guide.md; git commit -qm x",
        "source_gone",
        "reject",
    ),
    (
        "changed and committed",
        "say mine >> guide.md; git commit -qam x",
        "stale_base",
        "approve that",
    ),
    (
        "another branch with another text",
        "git switch -q -c other; say mine >> guide.md; git commit -qam x",
        "stale_base",
        "approve that",
    ),
    (
        "the branch set back",
        "say mine > guide.md; git commit -qam x; git update-ref refs/heads/main \
           $(git commit-tree -m y HEAD^{tree}); git checkout -q -f",
        "stale_base",
        "request changes",
    ),
    (
        "outside of a sparse checkout",
        "git sparse-checkout set --no-cone '/*' '!/guide.md'",
        "source_gone",
        "sparse-checkout",
    ),
];

const CONVERSIONS: &[Case] = &[
    ("a filter", "say '*.md filter=x' > .gitattributes", "content_filter", ".gitattributes"),
    (
        "a filter that is required, as LFS has it",
        "git config filter.lfs.clean 'touch ../ran; cat'; git config filter.lfs.required true
         git config filter.lfs.smudge 'touch ../ran; cat'; git config filter.lfs.process ../ran
         say '*.md filter=lfs -text' > .git/info/attributes; touch guide.md",
        "content_filter",
        ".gitattributes",
    ),
    ("ident", "say '*.md ident' > .gitattributes", "content_filter", ".gitattributes"),
    ("eol=crlf", "say '*.md text eol=crlf' > .gitattributes", "content_filter", "by hand"),
    (
        "an encoding of the working tree",
        "say '*.md working-tree-encoding=UTF-16LE' > .gitattributes",
        "content_filter",
        "by hand",
    ),
    ("core.autocrlf", "git config core.autocrlf true", "content_filter", "by hand"),
    (
        "core.eol and text",
        "git config core.eol crlf; say '*.md text' > .gitattributes",
        "content_filter",
        "by hand",
    ),
];

const DAMAGE: &[Case] = &[
    (
        "an index cut short",
        "head -c 9 .git/index > ../i; cat ../i > .git/index",
        "repository_damaged",
        "git fsck",
    ),
    ("an index of nonsense", "say nonsense > .git/index", "repository_damaged", "git fsck"),
    (
        "a tree that is missing",
        "t=$(git rev-parse HEAD^{tree}); rm -f .git/objects/$(echo $t | sed 's,^..,&/,')",
        "repository_damaged",
        "git fsck",
    ),
    (
        "a commit that is missing",
        "t=$(git rev-parse HEAD); rm -f .git/objects/$(echo $t | sed 's,^..,&/,')",
        "repository_damaged",
        "git fsck",
    ),
    (
        "a commit of nonsense",
        "t=$(git rev-parse HEAD); f=.git/objects/$(echo $t | sed 's,^..,&/,')
         chmod u+w $f; say nonsense > $f",
        "repository_damaged",
        "git fsck",
    ),
    ("a branch of nothing", ": > .git/refs/heads/main", "repository_damaged", "git fsck"),
    (
        "an unknown extension",
        "git config core.repositoryFormatVersion 1; git config extensions.future true",
        "not_a_repository",
        "git",
    ),
    ("configuration of nonsense", "say '[core' >> .git/config", "not_a_repository", "git"),
    ("no repository any more", "mv .git ../gone", "not_a_repository", "git"),
];

/// One server for each table: the repository is put back after each case.
fn run(cases: &[Case]) {
    let mut stand = Stand::new();
    let mut failed = Vec::new();
    for (what, setup, code, hint) in cases {
        stand.user(setup);
        if let Some(why) = stand.complaint(code, hint) {
            failed.push(format!("{what}: {why}"));
        }
        stand.put_back();
        if *code == "stale_base" && stand.bench.proposal_status(&stand.shown) != "open" {
            stand.again();
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(!stand.bench.base.join("ran").exists(), "a filter was run");
    assert_eq!(stand.bench.proposal_status(&stand.shown), "open");
    stand.works("after all refusals");
    stand.stop();
}

#[test]
fn g20_a_head_that_cannot_take_a_commit_refuses_it() {
    run(HEADS);
}

#[test]
fn g20_a_source_that_is_not_as_it_was_refuses_it() {
    run(SOURCES);
}

#[test]
fn g18_a_source_that_git_converts_refuses_it() {
    run(CONVERSIONS);
}

#[test]
fn a_damaged_repository_refuses_it() {
    run(DAMAGE);
}
