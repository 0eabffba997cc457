//! G19 with real crashes: the program aborts at each point of an approval, then recovers.

use std::os::unix::process::ExitStatusExt;

use camino::Utf8PathBuf;
use wiki_browser::documents::commit::{Outcome, recover};

use crate::git::support::{folder, init, open_site, read, settle, site_at};

const POINTS: [(&str, bool); 9] = [
    ("approve_built", false),
    ("approve_dry", false),
    ("approve_prepared", true),
    ("replace_spare", true),
    ("replace_exchanged", true),
    ("approve_file", true),
    ("approve_tree", true),
    ("approve_ref", true),
    ("approve_committed", true),
];

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

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "a test starts itself again")]
async fn g19_after_a_crash_at_any_point_there_is_one_commit_or_none() {
    for (point, is_committed) in POINTS {
        let (folder, base) = folder();
        let top = base.join("wiki");
        init(&top, &[("a.md", "old\n"), ("b.md", "b\n")]);
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "git::crash::g19_the_one_that_crashes"])
            .env("WB_TEST_CRASH_SITE", base.as_str())
            .env("WB_CRASH_AT", point)
            .output()
            .unwrap()
            .status;
        assert_eq!(status.signal(), Some(6), "{point}");
        let site = open_site(folder, &top, &top, &base.join("data")).await;
        let recovered = recover(&site.repo, &site.store, settle()).await.unwrap();
        let is_settled = recovered.iter().all(|it| matches!(it.outcome, Outcome::Settled(_)));
        assert!(is_settled, "{point}: {recovered:?}");
        let count = if is_committed { ("2", "new\n") } else { ("1", "old\n") };
        assert_eq!(site.git(&["rev-list", "--count", "HEAD"]), count.0, "{point}");
        assert_eq!((site.status(), read(&top, "a.md")), (String::new(), count.1.into()), "{point}");
        let approved = site
            .store
            .read(|it| {
                let sql = "SELECT COUNT(*) FROM incorporation_proposals WHERE status = 'approved'";
                Ok(it.query_row(sql, [], |row| row.get::<_, i64>(0))?)
            })
            .await
            .unwrap();
        assert_eq!(approved, i64::from(is_committed), "{point}");
    }
}
