//! A file is replaced below its root or not at all, and nobody's work is lost (G20, G22).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wiki_browser::base::SourcePath;
use wiki_browser::process::{Replacement, Spare};

use super::place::Place;

const SPARE: &str = ".wb-test.tmp";

fn source() -> SourcePath {
    "docs/a.md".parse().unwrap()
}

impl Place {
    /// Replaces `old` by `new`; returns the code of a refusal.
    fn replace(&self, from: Option<&str>, to: &str) -> Result<(), String> {
        let (path, from) = (&source(), from.map(str::as_bytes));
        let to = to.as_bytes();
        let it = Replacement { path, spare: SPARE, from, to, keep: None, modified: None };
        self.root.replace(it).map(drop).map_err(|it| it.code_str().to_owned())
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path.join("docs/a.md")).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let all = fs::read_dir(self.path.join("docs")).unwrap().flatten();
        let mut names: Vec<String> = all.map(|it| it.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_file_is_replaced_in_one_step_and_keeps_its_permissions() {
    let place = Place::new("old");
    let file = place.path.join("docs/a.md");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let before = file.metadata().unwrap();
    place.replace(Some("old"), "new").unwrap();
    assert_eq!((place.text().as_str(), place.names()), ("new", vec!["a.md".to_owned()]));
    let after = file.metadata().unwrap();
    assert_eq!(after.mode(), before.mode());
    assert_ne!(after.ino(), before.ino());
}

#[test]
fn g20_what_is_not_as_expected_is_refused_and_left() {
    let place = Place::new("old");
    let file = place.path.join("docs/a.md");
    assert_eq!(place.replace(Some("other"), "new").unwrap_err(), "source_dirty");
    assert_eq!(place.replace(Some("ol"), "new").unwrap_err(), "source_dirty");
    assert_eq!(place.replace(Some("old and more"), "new").unwrap_err(), "source_dirty");
    assert_eq!(place.text(), "old");
    fs::hard_link(&file, place.outside.join("second")).unwrap();
    assert_eq!(place.replace(Some("old"), "new").unwrap_err(), "hard_link");
    fs::remove_file(&file).unwrap();
    assert_eq!(place.replace(Some("old"), "new").unwrap_err(), "source_gone");
    symlink("../../second", &file).unwrap();
    assert_eq!(place.replace(Some("old"), "new").unwrap_err(), "path_is_link");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(place.replace(Some("old"), "new").unwrap_err(), "source_dirty");
    assert_eq!(place.names(), ["a.md"]);
    assert_eq!(fs::read_to_string(place.outside.join("second")).unwrap(), "old");
}

/// Somebody saves the file just when ours is to take its place: what they saved is there in the
/// end, whoever was first. Fails with `WB_WITHOUT=swap_compare`.
#[test]
fn g20_what_is_saved_at_the_last_moment_is_not_lost() {
    for _ in 0..40 {
        let place = Place::new("old");
        let (spare, file) = (place.path.join("docs").join(SPARE), place.path.join("docs/a.md"));
        let mine = place.outside.join("mine");
        fs::write(&mine, "mine").unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&done);
        let editor = std::thread::spawn(move || {
            // The file beside it is written after the first look at the old one.
            while !spare.exists() && !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            fs::rename(&mine, &file).unwrap();
        });
        // So long that to write it takes a moment.
        let long = "new".repeat(300_000);
        let told = place.replace(Some("old"), &long);
        done.store(true, Ordering::Relaxed);
        editor.join().unwrap();
        assert_eq!(place.text(), "mine", "{told:?}");
        assert_eq!(place.names(), ["a.md"]);
    }
}

/// A folder on the way becomes a link to elsewhere and back, all the time. Fails with
/// `WB_WITHOUT=beneath`.
#[test]
fn g22_nothing_is_written_behind_a_link_that_comes_and_goes() {
    let place = Place::new("old");
    let (docs, aside) = (place.path.join("docs"), place.path.join("aside"));
    let elsewhere = place.outside.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("a.md"), "old").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, leads_to) = (Arc::clone(&stop), elsewhere.clone());
    let target = elsewhere.clone();
    let swapper = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            fs::rename(&docs, &aside).unwrap();
            symlink(&leads_to, &docs).unwrap();
            fs::remove_file(&docs).unwrap();
            fs::rename(&aside, &docs).unwrap();
        }
    });
    let (mut written, mut refused) = (0, 0);
    let is_untouched = || fs::read_to_string(target.join("a.md")).is_ok_and(|it| it == "old");
    crate::support::until("enough was written and refused", || {
        let (from, to) = if written % 2 == 0 { ("old", "new") } else { ("new", "old") };
        match place.replace(Some(from), to).as_ref().map_err(String::as_str) {
            Ok(()) => written += 1,
            Err("path_is_link") => refused += 1,
            Err(code) => assert!(["source_gone", "source_dirty"].contains(&code), "{code}"),
        }
        (written >= 20 && refused >= 20) || !is_untouched()
    });
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert_eq!(fs::read_to_string(elsewhere.join("a.md")).unwrap(), "old");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    assert_eq!(place.text(), if written % 2 == 0 { "old" } else { "new" });
}

#[test]
fn g19_a_file_that_a_crash_left_is_settled_by_what_it_holds() {
    let settle = |spare: &str, text: &str| {
        let place = Place::new("old");
        fs::write(place.path.join("docs").join(SPARE), spare).unwrap();
        fs::write(place.path.join("docs/a.md"), text).unwrap();
        let known: (&[u8], &[&[u8]]) = (b"new", &[b"old"]);
        let settled = place.root.settle_spare(&source(), SPARE, known).unwrap();
        (settled, place.text(), place.names().len())
    };
    // Before the exchange, also in the middle of writing, and after it.
    assert_eq!(settle("new", "old"), (Spare::Removed, "old".into(), 1));
    assert_eq!(settle("ne", "old"), (Spare::Removed, "old".into(), 1));
    assert_eq!(settle("", "old"), (Spare::Removed, "old".into(), 1));
    assert_eq!(settle("old", "new"), (Spare::Removed, "new".into(), 1));
    // Work that was taken out in the moment of the crash.
    assert_eq!(settle("mine", "new"), (Spare::PutBack, "mine".into(), 1));
    // Work on both sides: nothing is thrown away.
    assert_eq!(settle("mine", "theirs"), (Spare::Left, "theirs".into(), 2));
    let place = Place::new("old");
    let none = place.root.settle_spare(&source(), SPARE, (b"new", &[b"old"])).unwrap();
    assert_eq!(none, Spare::None);
}
