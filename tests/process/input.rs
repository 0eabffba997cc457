//! What the server writes to a running agent.

use wiki_browser::process::{Clocks, ExitCause, GuardEvent, Launch, LaunchStdin};

use super::rig::{Rig, event, recorded};

fn talking(rig: &Rig, script: &str) -> Launch {
    let clocks = Clocks { start_ms: None, idle_ms: None, wall_ms: None, linger_ms: 60_000 };
    Launch { stdin: LaunchStdin::Pipe, clocks, ..rig.launch(script) }
}

fn is_taken(event: &GuardEvent, wanted: &str) -> bool {
    matches!(event, GuardEvent::Taken { id } if id == wanted)
}

#[tokio::test]
async fn an_agent_reads_what_is_written_while_it_runs() {
    let rig = Rig::new();
    let script =
        "while read -r line; do echo \"heard $line\"; test \"$line\" != end || exit 0; done";
    let mut guard = rig.start(talking(&rig, script)).await;
    let stopper = guard.stopper();
    assert!(stopper.input("1", "one\ntw"));
    event(&mut guard, |it| is_taken(it, "1")).await;
    assert!(stopper.input("2", "o \u{fc} \"\\\nend\n"));
    let record = recorded(guard).await;
    assert_eq!((record.cause, record.code), (ExitCause::Exit, Some(0)));
    assert_eq!(rig.stdout(), "heard one\nheard two \u{fc} \"\\\nheard end\n");
    assert!(!stopper.input("3", "x"), "nobody is left to take it");
}

#[tokio::test]
async fn a_long_text_arrives_whole_although_the_agent_reads_late() {
    let rig = Rig::new();
    let script = "while [ ! -e go ]; do sleep 0.02; done; head -c 700001 | cksum";
    let mut guard = rig.start(talking(&rig, script)).await;
    let stopper = guard.stopper();
    // More than a pipe and a socket hold together.
    let text = "\u{e4}\u{1}bc\n".repeat(116_667);
    assert!(stopper.input("7", &text[..700_001]));
    event(&mut guard, |it| is_taken(it, "7")).await;
    std::fs::write(rig.path.join("go"), "").unwrap();
    let record = recorded(guard).await;
    assert_eq!(record.cause, ExitCause::Exit);
    std::fs::write(rig.path.join("text"), &text[..700_001]).unwrap();
    let wanted = crate::support::shell(&format!("cksum < '{}/text'", rig.path));
    assert_eq!(rig.stdout().trim(), wanted.trim());
}

#[tokio::test]
async fn an_agent_that_reads_nothing_can_be_stopped_all_the_same() {
    let rig = Rig::new();
    let mut guard = rig.start(talking(&rig, "exec sleep 300")).await;
    event(&mut guard, |it| matches!(it, GuardEvent::Started { .. })).await;
    let stopper = guard.stopper();
    for number in 0..40 {
        stopper.input(&number.to_string(), &"x".repeat(100_000));
    }
    stopper.stop(ExitCause::Stopped);
    assert_eq!(recorded(guard).await.cause, ExitCause::Stopped);
    rig.assert_all_gone(super::rig::PATIENCE);
}
