//! Full disks and read-only folders, in one mount namespace that ends with the process that created
//! it.

use std::process::Command;

use crate::git::table::{Stand, bench, user};

/// Says that this process is the one with mounts of its own.
const INSIDE: &str = "WB_TEST_OWN_MOUNTS";

/// Every part of a site on a small disk of its own, but the data.
const DISKS: &str = "
disk() { mv \"$1\" \"$BASE/kept\"; mkdir \"$1\"; mount -t tmpfs -o size=$2 none \"$1\"
  cp -a \"$BASE/kept/.\" \"$1\"; rm -rf \"$BASE/kept\"; }
mkdir $BASE/data; cd /; disk $TOP 4m; mkdir -p $TOP/data; mount --bind $BASE/data $TOP/data
disk $TOP/.git 2m; disk $TOP/.git/objects 2m; disk $TOP/.git/refs 1m";

/// Where there is no room, or no right to write, and the code.
const CASES: &[(&str, &str, &str)] = &[
    ("objects", "full .git/objects", "disk_full"),
    ("the branch", "full .git/refs", "disk_full"),
    ("the index", "full .git", "disk_full"),
    ("the working tree", "full .", "disk_full"),
    ("objects", "mount -o remount,ro .git/objects", "read_only"),
    ("the branch", "mount -o remount,ro .git/refs", "read_only"),
    ("the git folder", "mount -o remount,ro .git", "read_only"),
    ("the working tree", "mount -o remount,ro .", "read_only"),
];

/// As root it needs `CAP_SYS_ADMIN`, as anyone else a system that lets users make namespaces.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test starts itself again, with mounts of its own")]
fn g20_without_room_or_rights_an_approval_is_refused_with_all_as_it_was() {
    if std::env::var_os(INSIDE).is_some() {
        return refused();
    }
    let name =
        "git::table::storage::g20_without_room_or_rights_an_approval_is_refused_with_all_as_it_was";
    let flags = if wiki_browser::process::is_root() { "-m" } else { "-rm" };
    let output = Command::new("unshare")
        .args([flags, "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = told + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

fn refused() {
    let bench = bench();
    user(&bench, DISKS);
    let mut stand = Stand::on(bench);
    for (what, setup, code) in CASES {
        let full = "full() { dd if=/dev/zero of=$1/fill bs=1k 2>/dev/null || :
            while printf 1234567890123456 >> $1/fill2 2>/dev/null; do :; done; }";
        stand.user(&format!("{full}\n{setup}"));
        let hint = if *code == "disk_full" { "free some space" } else { "write access" };
        stand.refuses(&format!("{code}: {what}"), code, hint);
        stand.user(
            "for it in . .git .git/objects .git/refs; do
               mount -o remount,rw $it; rm -f $it/fill $it/fill2; done",
        );
    }
    stand.works("room again");
    stand.stop();
}
