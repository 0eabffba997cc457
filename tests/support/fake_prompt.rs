//! A program in a terminal that prompts, reads a line, and prompts again below its own output, like
//! a shell: without a frame, and without a blank line. It is this test binary, called again by an
//! engine.

#![allow(clippy::disallowed_methods, reason = "it is a program of its own")]

use std::io::{Read as _, Write as _};
use std::process::Command;
use std::time::Duration;

/// Is the program, if it is called as such.
#[test]
fn fake_prompt() {
    if let Ok(out) = std::env::var("FAKE_PROMPT") {
        run(&out);
        std::process::exit(0);
    }
}

fn run(out: &str) {
    Command::new("stty").args(["raw", "-echo"]).status().unwrap();
    let mut line = Vec::new();
    show(b"\x1b[?2004h\r\n\xe2\x9d\xaf ");
    let mut bytes = std::io::stdin().lock().bytes().map(Result::unwrap);
    while let Some(byte) = bytes.next() {
        match byte {
            // The edges of a paste.
            0x1b => drop(bytes.by_ref().find(|it| *it == b'~')),
            b'\r' => submit(out, &std::mem::take(&mut line)),
            0x15 => {
                line.clear();
                show(b"\r\x1b[K\xe2\x9d\xaf ");
            }
            b'\n' => {
                line.push(byte);
                show(b"\r\n");
            }
            byte => {
                line.push(byte);
                show(&[byte]);
            }
        }
    }
}

fn show(bytes: &[u8]) {
    let mut screen = std::io::stdout().lock();
    screen.write_all(bytes).unwrap();
    screen.flush().unwrap();
}

/// Writes down what was read, even if that is nothing; says nothing while it works.
fn submit(out: &str, line: &[u8]) {
    show(b"\r\n");
    let text = String::from_utf8_lossy(line).replace(" ‹wb:end›", "");
    let word = text.trim_end_matches('\n').lines().last().unwrap_or_default().to_owned();
    let mut heard = std::fs::OpenOptions::new();
    let mut heard = heard.append(true).create(true).open(format!("{out}/heard")).unwrap();
    heard.write_all(format!("{word}\n").as_bytes()).unwrap();
    while word == "slow" && !std::fs::exists(format!("{out}/go")).unwrap() {
        std::thread::sleep(Duration::from_millis(20));
    }
    show(format!("you said {}\r\n❯ ", line.len()).as_bytes());
}
