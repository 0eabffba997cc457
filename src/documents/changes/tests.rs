//! Which changes are found between two snapshots, and how they are described.

use super::*;
use crate::documents::snapshot::Staged;

fn blob(letter: char) -> BlobId {
    letter.to_string().repeat(40).parse().unwrap()
}

fn spot(letter: char) -> Spot {
    Spot { mode: "100644".to_owned(), blob: blob(letter) }
}

fn file(letter: char) -> Work {
    Work::File { blob: blob(letter), mode: 0o644 }
}

/// A tracked path with `a` in commit and index, and another text in the working tree.
fn edited(letter: char) -> Unclean {
    let staged = Staged { spot: spot('a'), stage: 0, flag: None };
    let state = PathState { index: vec![staged], work: file(letter) };
    Unclean { head: Some(spot('a')), state, is_ignored: false }
}

fn loose(letter: char) -> Unclean {
    let state = PathState { index: Vec::new(), work: file(letter) };
    Unclean { head: None, state, is_ignored: false }
}

fn snapshot(paths: &[(&str, Unclean)]) -> Snapshot {
    let paths = paths.iter().map(|(path, it)| ((*path).to_owned(), it.clone())).collect();
    let branch = Some("refs/heads/main".to_owned());
    let tip = Tip { branch, commit: Some(blob('1')) };
    Snapshot { tip, paths, ..Snapshot::default() }
}

fn told(before: &Snapshot, after: &Snapshot) -> Vec<(String, String)> {
    let found = files(before, after, &Between::new());
    found.into_iter().map(|it| (it.path, it.how)).collect()
}

#[test]
fn only_what_became_different_is_named() {
    let before = snapshot(&[("mine", edited('b')), ("both", edited('b')), ("notes", loose('e'))]);
    assert_eq!(told(&before, &before), []);
    let after = snapshot(&[
        ("both", edited('c')),
        ("mine", edited('b')),
        ("new", loose('d')),
        ("notes", loose('e')),
    ]);
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(told(&before, &after), [pair("both", "edited"), pair("new", "created")]);
    // Everything uncommitted is gone, as after `git reset --hard` and `git clean`.
    let gone = [pair("both", "edited"), pair("mine", "edited"), pair("notes", "deleted")];
    assert_eq!(told(&before, &snapshot(&[])), gone);
}

#[test]
fn what_was_clean_before_is_known_from_the_commits() {
    let found = files(&snapshot(&[]), &snapshot(&[("x", edited('b'))]), &Between::new());
    assert_eq!(found[0].before, PathState::clean(Some(&spot('a'))));
    let mut between = Between::new();
    between.insert("moved".to_owned(), (Some(spot('a')), Some(spot('b'))));
    between.insert("made".to_owned(), (None, Some(spot('b'))));
    let found = files(&snapshot(&[]), &snapshot(&[]), &between);
    assert_eq!(found[0].before, PathState::clean(None));
    assert_eq!(found[1].before.staged().unwrap().spot, spot('a'));
    assert_eq!(found[1].after.staged().unwrap().spot, spot('b'));
    assert_eq!((found[0].how.as_str(), found[1].how.as_str()), ("created", "edited"));
}

#[test]
fn many_names_are_bounded() {
    let many: Vec<(String, Unclean)> = (0..30).map(|it| (format!("{it:02}"), loose('f'))).collect();
    let many: Vec<(&str, Unclean)> = many.iter().map(|it| (it.0.as_str(), it.1.clone())).collect();
    let files = files(&snapshot(&[]), &snapshot(&many), &Between::new());
    let told = Changes { files, ..Changes::default() }.sentences();
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("touched_tree: 00 (created), 01 (created), "), "{told:?}");
    assert!(told[0].ends_with("19 (created) and 10 more changed while the job ran"), "{told:?}");
}
