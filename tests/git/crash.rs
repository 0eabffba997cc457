//! G19 with real crashes: the program aborts at each point of an approval, or is killed while git
//! runs for it, at each call; then it recovers.

use std::os::unix::process::ExitStatusExt;

use camino::{Utf8Path, Utf8PathBuf};
use wiki_browser::documents::commit::{Outcome, recover};

use crate::git::support::{
    folder, init, open_site, program, read, settle, site_at, write, write_program,
};
use crate::guarantees::approve_crash::POINTS;

/// Runs in a process of its own, started by the test below; does nothing otherwise.
#[tokio::test]
async fn g19_the_one_that_crashes() {
    let Ok(base) = std::env::var("WB_TEST_CRASH_SITE") else { return };
    let folder = tempfile::Builder::new().prefix("unused").tempdir().unwrap();
    let base = Utf8PathBuf::from(base);
    let (top, data) = (base.join("wiki"), base.join("data"));
    let site = site_at(folder, &top, &top, &data).await;
    let approval = site.propose("a.md", "new\n").await;
    site.approve(&approval).await.unwrap();
    panic!("it did not crash");
}

/// Starts the test above on a site in `base`; returns the signal that ended it.
#[allow(clippy::disallowed_methods, reason = "a test starts itself again")]
fn crash(base: &Utf8Path, env: &[(&str, &str)]) -> Option<i32> {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "git::crash::g19_the_one_that_crashes"]);
    command.env("WB_TEST_CRASH_SITE", base.as_str()).envs(env.iter().copied());
    // What is temporary and cannot be removed by a process that is killed goes with the site.
    command.env("TMPDIR", base.as_str());
    command.output().unwrap().status.signal()
}

/// Recovers, and asserts that there is one commit or none, and that the rows agree; returns which.
async fn recovered(folder: tempfile::TempDir, base: &Utf8Path, what: &str) -> bool {
    let top = base.join("wiki");
    let site = open_site(folder, &top, &top, &base.join("data")).await;
    let recovered = recover(&site.repo, &site.store, settle()).await.unwrap();
    let is_decided = recovered.iter().all(|it| !matches!(it.outcome, Outcome::Waiting { .. }));
    assert!(is_decided, "{what}: {recovered:?}");
    let is_committed = site.git(&["rev-list", "--count", "HEAD"]) == "2";
    let text = if is_committed { "new\n" } else { "old\n" };
    assert_eq!((site.status(), read(&top, "a.md")), (String::new(), text.into()), "{what}");
    let approved = site
        .store
        .read(|it| {
            let sql = "SELECT COUNT(*) FROM incorporation_proposals WHERE status = 'approved'";
            Ok(it.query_row(sql, [], |row| row.get::<_, i64>(0))?)
        })
        .await
        .unwrap();
    assert_eq!(approved, i64::from(is_committed), "{what}");
    assert_eq!(site.git(&["fsck", "--strict", "--no-dangling"]), "", "{what}");
    is_committed
}

#[tokio::test]
async fn g19_after_a_crash_at_any_point_there_is_one_commit_or_none() {
    for (point, is_committed) in POINTS {
        let (folder, base) = folder();
        init(&base.join("wiki"), &[("a.md", "old\n"), ("b.md", "b\n")]);
        assert_eq!(crash(&base, &[("WB_CRASH_AT", point)]), Some(6), "{point}");
        assert_eq!(recovered(folder, &base, point).await, is_committed, "{point}");
    }
}

/// Calls of git that open a repository; nothing is under way yet.
const CALLS_TO_OPEN: usize = 5;
/// Calls of git that an approval may make: each takes a millisecond or two. Two of them read all
/// trees of the base, and one asks which files settings name.
const CALLS_MAX: usize = 20;

/// A git that counts its calls, and at one of them kills who called it, while it goes on itself.
const KILLER: &str = "#!/bin/sh
cd=$PWD; cd \"$BASE\"; n=$(($(cat count) + 1)); echo $n > count; cd \"$cd\"
if [ $n = $AT ]; then
  exec 3<&0; /usr/bin/env -u BASE -u AT \"$GIT\" \"$@\" <&3 >/dev/null 2>&1 &
  kill -9 $PPID; wait; echo > \"$BASE/over\"; exit
fi
exec \"$GIT\" \"$@\"
";

/// Whatever git has done of its own renames by then, and whether its input was whole.
#[tokio::test]
async fn g19_killed_at_any_call_of_git_there_is_one_commit_or_none() {
    let real = program();
    let mut commits = Vec::new();
    for at in CALLS_TO_OPEN + 1.. {
        let (folder, base) = folder();
        init(&base.join("wiki"), &[("a.md", "old\n"), ("b.md", "b\n")]);
        let killer = KILLER.replace("$BASE", base.as_str()).replace("$GIT", real.as_str());
        std::fs::create_dir(base.join("bin")).unwrap();
        write_program(&base.join("bin/git"), &killer.replace("$AT", &at.to_string()));
        write(&base, "count", "0");
        let path = format!("{}/bin:/usr/bin:/bin", base);
        match crash(&base, &[("PATH", &path)]) {
            Some(9) => {}
            other => {
                assert_eq!(other, None);
                let calls: usize = read(&base, "count").trim().parse().unwrap();
                assert!(calls < at && calls - CALLS_TO_OPEN <= CALLS_MAX, "{calls} calls");
                break;
            }
        }
        let over = base.join("over");
        crate::support::until("git has ended", || over.exists());
        commits.push(recovered(folder, &base, &format!("at call {at}")).await);
    }
    // First none, then one: never the other way round.
    assert!(commits.is_sorted() && commits.contains(&false) && commits.contains(&true));
}
