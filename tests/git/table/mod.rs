//! The states that a repository can be in, each with what an approval makes of it, on the real
//! server: it works, and then commit, index and tree are right and nothing of the user's is
//! touched; or it is refused with its code and a hint, and then not a byte is different.

mod kinds;
mod refused;
mod snapshot;
mod storage;
mod works;

use camino::Utf8PathBuf;
use serde_json::Value;
use wiki_browser::base::digest_hex;

use crate::git::table::snapshot::{Picture, difference, picture};
use crate::support::{Bench, Server, Topic};

const FIELDS: &str = "timeout = \"20s\", produces = \"proposal\"";
const AGENT: &str = "sed 's/The first line/The best line/' \"$root/$path\" | propose";

/// What every setup of a state begins with: the user's identity, and words for what is done often.
const USER: &str = r#"set -e; cd "$TOP"
export GIT_CONFIG_NOSYSTEM=1 HOME=/nonexistent GIT_EDITOR=true
export GIT_AUTHOR_NAME=U GIT_AUTHOR_EMAIL=u@example.org
export GIT_COMMITTER_NAME=U GIT_COMMITTER_EMAIL=u@example.org
say() { printf '%s\n' "$*"; }
look() { # at the repository, without writing to it or starting what it names
  GIT_OPTIONAL_LOCKS=0 git -c core.hooksPath=/dev/null -c core.fsmonitor=false \
    -c filter.x.clean= -c filter.x.smudge= -c filter.x.process= -c filter.x.required=false "$@"; }
both() { # a branch `side` and `main` that disagree about notes.md
  git switch -q -c side; say side > notes.md; git commit -qam side
  git switch -q main; say main > notes.md; git commit -qam main; }
"#;

/// What a proposal whose base has moved leaves in the database.
const FOLLOWED: [&str; 6] = [
    "table events ",
    "table incorporation_proposals ",
    "table placements ",
    "table proposal_conflicts ",
    "table proposal_origins ",
    "table sqlite_sequence ",
];

/// A site with one proposal for `guide.md`, and a copy of the repository to return to.
pub(super) struct Stand {
    // Dropped before the folder that its log is in.
    pub(super) server: Option<Server>,
    pub(super) bench: Bench,
    pub(super) topic: Topic,
    pub(super) shown: Value,
    git_dirs: Vec<Utf8PathBuf>,
    copy: Utf8PathBuf,
}

pub(super) fn digest(bytes: &[u8]) -> String {
    digest_hex(bytes)
}

/// A bench whose kind proposes another first line.
pub(super) fn bench() -> Bench {
    let bench = Bench::new();
    bench.topic_kind("better", FIELDS, AGENT);
    bench
}

impl Stand {
    /// A stand on the usual repository.
    pub(super) fn new() -> Stand {
        let stand = Stand::on(bench());
        stand.keep();
        stand
    }

    /// Serves a repository that is made already, and has a proposal made.
    #[track_caller]
    pub(super) fn on(bench: Bench) -> Stand {
        Stand::with(bench, &[])
    }

    /// The same with variables for the server.
    #[track_caller]
    pub(super) fn with(bench: Bench, env: &[(&str, &str)]) -> Stand {
        // What is noticed on the side would change rows at any moment, also during a refusal.
        let absent = env.iter().find(|it| it.0 == "WB_ABSENT").map_or("", |it| it.1);
        let absent = format!("noticing,indexing,{absent}");
        let server = bench.serve_with(&[env, &[("WB_ABSENT", absent.as_str())]].concat());
        let topic = bench.topic("guide.md", "The first line.", "Say it better.");
        let shown = bench.proposal("better", &topic);
        let dirs = user(&bench, "git rev-parse --absolute-git-dir --git-common-dir");
        let mut git_dirs: Vec<Utf8PathBuf> = dirs.lines().map(|it| bench.top.join(it)).collect();
        git_dirs.dedup();
        let copy = bench.base.join("copy");
        Stand { bench, server: Some(server), topic, shown, git_dirs, copy }
    }

    /// Keeps the repository as it is for [`Stand::put_back`].
    pub(super) fn keep(&self) {
        self.user(&format!(
            "rm -rf '{copy}'; mkdir -p '{copy}'
             find . -mindepth 1 -maxdepth 1 ! -name data -exec cp -a {{}} '{copy}/' \\;",
            copy = self.copy
        ));
    }

    /// Puts the repository back, in the same folder: another one would be refused.
    pub(super) fn put_back(&self) {
        self.user(&format!(
            "find . -mindepth 1 -maxdepth 1 ! -name data ! -name .git -exec rm -rf {{}} +
             test ! -d ../gone || mv ../gone .git; find .git -mindepth 1 -delete; cp -a '{}'/. .
             git update-index -q --refresh",
            self.copy
        ));
    }

    /// Does what a person does in a terminal; returns what that printed.
    #[track_caller]
    pub(super) fn user(&self, script: &str) -> String {
        user(&self.bench, script)
    }

    pub(super) fn picture(&self) -> Picture {
        picture(&self.bench, &self.git_dirs)
    }

    /// Says what is wrong if the approval is not refused with a code, a hint, and no byte changed.
    pub(super) fn complaint(&self, code: &str, hint: &str) -> Option<String> {
        let before = self.picture();
        let answer = self.bench.send(&self.bench.approval(&self.shown));
        let (status, body) = (answer.status, &answer.body);
        let told = body["error"]["hint"].as_str().unwrap_or_default();
        if ![400, 404, 409, 503].contains(&status) || body["error"]["code"] != code {
            return Some(format!("{status} {body}"));
        }
        if hint.is_empty() || !told.contains(hint) {
            return Some(format!("the hint is not `{hint}`: {body}"));
        }
        let mut changed = difference(&before, &self.picture());
        if code == "stale_base" {
            // A base that moved is followed, by a new revision or a note of the conflict.
            changed.retain(|it| !FOLLOWED.iter().any(|table| it.starts_with(table)));
        }
        (!changed.is_empty()).then(|| format!("a refusal with {code} changed {changed:#?}"))
    }

    /// Asserts that the approval is refused with a code, a hint, and no byte changed.
    #[track_caller]
    pub(super) fn refuses(&self, what: &str, code: &str, hint: &str) {
        assert_eq!(self.complaint(code, hint), None, "{what}");
    }

    /// Asserts that the approval is committed, and that nothing else is different.
    #[track_caller]
    pub(super) fn works(&self, what: &str) {
        let git = |args: &[&str]| self.git(args);
        let (tip, theirs) = (git(&["rev-parse", "HEAD"]), self.theirs());
        let answer = self.bench.send(&self.bench.approval(&self.shown));
        assert_eq!(answer.status, 200, "{what}: {answer:?}");
        let text = self.shown["text"].as_str().unwrap();
        let commit = answer.body["commit"].as_str().unwrap();
        assert_eq!(git(&["rev-parse", "HEAD"]), commit, "{what}");
        assert_eq!(git(&["rev-parse", "HEAD^@"]), tip, "{what}");
        let changed = git(&["show", "--format=", "--name-only", "--relative", "HEAD"]);
        assert_eq!(changed, "guide.md", "{what}");
        let blob = self.shown["proposal"]["proposed_sha"].as_str().unwrap();
        assert_eq!(git(&["rev-parse", "HEAD:./guide.md"]), blob, "{what}");
        assert_eq!(self.bench.read("guide.md"), text, "{what}");
        assert_eq!(git(&["status", "--porcelain", "--", "guide.md"]), "", "{what}");
        assert_eq!(git(&["diff-files", "--", "guide.md"]), "", "{what}: git must look again");
        assert_eq!(self.theirs(), theirs, "{what}");
    }

    /// What git prints on its standard output, whatever it thinks of the configuration.
    fn git(&self, args: &[&str]) -> String {
        let words: Vec<String> = args.iter().map(|it| format!("'{it}'")).collect();
        self.user(&format!("look {} 2>/dev/null", words.join(" ")))
    }

    /// All that is not the Source: in the index, in the tree, in the stash.
    fn theirs(&self) -> String {
        self.user(
            "look status --porcelain=v1 -uall --ignored -- . ':!guide.md' ':!data'
             look ls-files -s -v -- . ':!guide.md'; look stash list; ls .git/*.lock 2>/dev/null || :
             find . \\( -name .git -o -path ./data -o -path ./guide.md \\) -prune \
               -o -printf '%P %y %m %T@ %l\\n' | grep -v '^ ' | sort
             find . \\( -name .git -o -path ./data -o -path ./guide.md \\) -prune \
               -o -type f -print0 | sort -z | xargs -0 sha256sum",
        )
    }

    /// Proposes again, after the proposal was approved and the repository put back.
    #[track_caller]
    pub(super) fn again(&mut self) {
        self.topic = self.bench.topic("guide.md", "The first line.", "Say it better.");
        self.shown = self.bench.proposal("better", &self.topic);
    }

    pub(super) fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

/// Does what a person does in a terminal; returns what that printed.
#[track_caller]
pub(super) fn user(bench: &Bench, script: &str) -> String {
    crate::support::shell(&format!("TOP='{}' BASE='{}'\n{USER}\n{script}", bench.top, bench.base))
}
