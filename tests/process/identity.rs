//! A pid alone gets no signal (G10).

use wiki_browser::process::{
    ExitCause, MARK, ProcessIdentity, Signal, carries_mark, descends_from, start_time,
};

use crate::process::rig::{Rig, agent_pid, recorded};

#[tokio::test]
async fn g10_a_forged_row_gets_no_signal() {
    let rig = Rig::new();
    let mut guard = rig.start(rig.launch("sleep 60")).await;
    let pid = agent_pid(&mut guard).await;
    let real = ProcessIdentity::of(pid).unwrap().unwrap();
    let job = rig.job.as_str();
    assert_eq!(carries_mark(pid, MARK).as_deref(), Some(job));
    assert_eq!(carries_mark(guard.identity().pid, MARK).as_deref(), Some(job));
    let other_boot = "00000000-0000-0000-0000-000000000000";
    let forged = [
        (ProcessIdentity { boot_id: other_boot.into(), ..real.clone() }, job),
        (ProcessIdentity { boot_id: String::new(), ..real.clone() }, job),
        (ProcessIdentity { start: real.start + 1, ..real.clone() }, job),
        (ProcessIdentity { start: 0, ..real.clone() }, job),
        (ProcessIdentity::of(std::process::id().cast_signed()).unwrap().unwrap(), job),
        (ProcessIdentity { pid: 1, start: start_time(1).unwrap(), ..real.clone() }, job),
        (ProcessIdentity { pid: 0, ..real.clone() }, job),
        (ProcessIdentity { pid: -1, ..real.clone() }, job),
        (ProcessIdentity { pid: -pid, ..real.clone() }, job),
        (ProcessIdentity { pid: i32::MAX, ..real.clone() }, job),
        (real.clone(), "another-job"),
        (real.clone(), ""),
    ];
    for (identity, mark) in forged {
        let sent = identity.signal_if_same(Some((MARK, mark)), Signal::Kill).unwrap();
        assert!(!sent, "{identity:?} {mark}");
    }
    assert!(serde_json::from_str::<ProcessIdentity>(r#"{"boot_id":"x","pid":7}"#).is_err());
    assert!(real.is_alive());
    assert!(descends_from(pid, &[i32::try_from(std::process::id()).unwrap()]));
    assert!(real.signal_if_same(Some((MARK, job)), Signal::Kill).unwrap());
    let record = recorded(guard).await;
    assert_eq!((record.cause, record.signal), (ExitCause::Exit, Some(9)));
    assert!(!real.is_alive());
    assert!(!real.signal_if_same(Some((MARK, job)), Signal::Kill).unwrap());
}
