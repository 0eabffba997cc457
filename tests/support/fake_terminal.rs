//! A program in a terminal that behaves like the real ones: it takes pastes in brackets, shows a
//! placeholder for long ones, takes a key that comes with text for a part of it, stalls, asks
//! questions, and calls hooks. It is this test binary, called again by an engine.

#![allow(clippy::disallowed_methods, reason = "it is a program of its own")]

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A key within this of other text is a part of it.
const BURST: Duration = Duration::from_millis(120);
/// A text longer than this is shown as a placeholder.
const SHOWN_MAX: usize = 600;
/// What it draws above and below its line.
const EDGE: &str = "────────────";
/// The session that begins when it has cleared its own.
pub(crate) const CLEARED: &str = "01998d4e-6c1a-7f00-8000-00000000000c";

/// Is the program, if it is called as such.
#[test]
fn fake_terminal() {
    if let Ok(out) = std::env::var("FAKE_TERMINAL") {
        Fake::new(&out).run();
        std::process::exit(0);
    }
}

struct Fake {
    out: String,
    hooks: Value,
    bytes: Receiver<Vec<u8>>,
    /// What was read and not taken.
    rest: VecDeque<u8>,
    draft: String,
    typed_at: Instant,
    turns: u32,
    random: u64,
    /// What stands above its line; only one without hooks says something there.
    said: String,
    /// How many of the next texts it swallows, and shows nothing of them.
    swallows: u32,
    /// Whether its line takes commands for a shell.
    is_shell: bool,
}

impl Fake {
    fn new(out: &str) -> Fake {
        let hooks = match std::env::var_os("FAKE_HOOKS") {
            None => {
                let settings = std::fs::read(std::env::var("HOOKS_FILE").unwrap()).unwrap();
                serde_json::from_slice(&settings).unwrap()
            }
            Some(_none) => Value::Null,
        };
        Command::new("stty").args(["raw", "-echo"]).status().unwrap();
        let (send, bytes) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = std::io::stdin().read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Fake {
            out: out.to_owned(),
            hooks,
            said: String::new(),
            swallows: 0,
            is_shell: false,
            bytes,
            rest: VecDeque::new(),
            draft: String::new(),
            typed_at: Instant::now(),
            turns: 0,
            random: u64::from(std::process::id()),
        }
    }

    fn run(&mut self) {
        print!("\x1b[?2004h");
        self.hook("SessionStart", json!({"session_id": "s", "source": "startup"}));
        loop {
            self.draw(&self.said);
            let Some(byte) = self.next_byte() else { return };
            self.stall();
            self.take(byte);
        }
    }

    fn take(&mut self, byte: u8) {
        match byte {
            0x1b => self.escape(),
            b'\r' if self.typed_at.elapsed() < BURST => self.draft.push('\n'),
            b'\r' => self.submit(),
            0x15 => self.draft.clear(),
            0x03 => std::process::exit(7),
            0x07 => self.open("an editor"),
            0x0f => self.open(&format!("{}\r\n{EDGE}\r\n  a transcript", self.said)),
            0x12 => {
                let line = format!("{}\r\n{EDGE}\r\n❯ \r\n{EDGE}", self.said);
                self.open(&format!("{line}\r\n  a search: \x1b[7m \x1b[0m"));
            }
            b'!' if self.draft.is_empty() => self.is_shell = true,
            0x7f if self.draft.is_empty() => self.is_shell = false,
            byte => {
                self.draft.push(char::from(byte));
                self.typed_at = Instant::now();
            }
        }
    }

    /// Shows something else until somebody presses `q`: each byte is a key of that.
    fn open(&mut self, shown: &str) {
        print!("\x1b[2J\x1b[H{shown}\r\n");
        std::io::stdout().flush().unwrap();
        let mut keys = Vec::new();
        while let Some(byte) = self.next_byte().filter(|it| *it != b'q') {
            keys.push(byte);
            std::fs::write(format!("{}/keys", self.out), &keys).unwrap();
        }
    }

    /// Reads what follows an escape: a paste, or nothing.
    fn escape(&mut self) {
        let mut seen = Vec::new();
        while seen.len() < 5 {
            match self.bytes_within(Duration::from_millis(50)) {
                Some(byte) => seen.push(byte),
                None => return,
            }
        }
        assert_eq!(seen, b"[200~");
        let mut text = Vec::new();
        while !text.ends_with(b"\x1b[201~") {
            text.push(self.next_byte().unwrap());
        }
        text.truncate(text.len() - 6);
        if self.swallows > 0 {
            self.swallows -= 1;
            return;
        }
        self.draft.push_str(&String::from_utf8(text).unwrap());
        self.typed_at = Instant::now();
    }

    fn submit(&mut self) {
        let prompt = std::mem::take(&mut self.draft);
        let plain = prompt.replace(" ‹wb:end›", "");
        let text = plain.trim_end_matches('\n').lines().last().unwrap_or_default().to_owned();
        if prompt.trim().is_empty() {
            return;
        }
        self.turns += 1;
        // Unique, as those of the real ones: another process writes in the same transcript.
        let id = format!("p{}-{}", std::process::id(), self.turns);
        let mut heard = std::fs::OpenOptions::new();
        let mut heard =
            heard.append(true).create(true).open(format!("{}/heard", self.out)).unwrap();
        // At once: several of them write there.
        heard.write_all(format!("{text}\n").as_bytes()).unwrap();
        self.swallows = match text.as_str() {
            "blink" => 1,
            "blind" => 2,
            _ => 0,
        };
        if text == "deaf" {
            return;
        }
        if self.hooks.is_null() {
            return self.work_without_hooks(&text, &prompt);
        }
        if text == "slow" {
            self.wait("taken");
        }
        let shown = prompt;
        let prompt = format!("<pasted_content>\n{shown}\n</pasted_content>");
        let content = json!({"content": prompt});
        self.note(json!({"type": "user", "promptId": id, "message": content}));
        self.hook("UserPromptSubmit", json!({"prompt": prompt, "prompt_id": id}));
        let mut said = format!("again {text}");
        match text.as_str() {
            "end" => std::process::exit(0),
            "fall" => std::process::exit(3),
            "ask" => self.ask(),
            "wait" => self.wait("waits"),
            "fold" => said = format!("{said} {}", self.fold(&id)),
            // Behind an answer that a hook has it go on from.
            "early" => {
                let content = [json!({"type": "text", "text": "an early answer"})];
                let message = json!({"content": content, "stop_reason": "end_turn"});
                self.note(json!({"type": "assistant", "message": message}));
                said = self.fold(&id);
            }
            "shown" => self.said = format!("❯ {shown}\r\n\r\n● {said}\r\n"),
            "cut" => return self.until_cut(),
            // A view, or something in it, takes the first one or all of them.
            "view" => return self.until_closed(2),
            "views" => return self.until_closed(3),
            // Nothing was said yet: it can be changed and handed in again.
            "back" => {
                self.until_cut();
                self.draft = shown;
                return;
            }
            _ => {}
        }
        self.end(&id, &said, text == "late");
        if text == "clear" {
            self.hook("SessionStart", json!({"session_id": CLEARED, "source": "clear"}));
        }
    }

    /// Ends a turn: its last words are written down while the hook runs, its end behind that.
    fn end(&mut self, id: &str, said: &str, is_late: bool) {
        let content = [json!({"type": "text", "text": said})];
        let line = json!({"type": "assistant",
            "message": {"content": content, "stop_reason": "end_turn"}});
        let (path, is_kept) = (self.transcript(), self.writes_down());
        let writing = std::thread::spawn(move || {
            let wait = if is_late || !is_kept { 0 } else { 90 };
            let until = Instant::now() + Duration::from_millis(wait);
            while Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            if is_kept {
                append(&path, &line);
            }
        });
        let stop = json!({"prompt_id": id, "last_assistant_message": said});
        if is_late {
            writing.join().unwrap();
            self.note_end();
            self.wait("late");
            self.hook("Stop", stop);
            return;
        }
        let is_told = self.hook("Stop", stop);
        writing.join().unwrap();
        self.note_end();
        // The real ones say so a minute later, and not always.
        let is_quiet = std::fs::remove_file(format!("{}/idle", self.out)).is_ok();
        if !is_told && (is_quiet || !self.writes_down()) {
            self.hook("Notification", json!({"notification_type": "idle_prompt"}));
        }
    }

    /// Writes down that a turn is over.
    fn note_end(&self) {
        if std::fs::remove_file(format!("{}/no-end", self.out)).is_err() {
            self.note(json!({"type": "system", "subtype": "turn_duration"}));
        }
    }

    /// Takes what somebody types meanwhile into its turn, as newer ones tell it or as older ones do
    /// not; returns it.
    fn fold(&mut self, id: &str) -> String {
        self.draw("working");
        let mut typed = Vec::new();
        while let Some(byte) = self.next_byte() {
            match byte {
                // As in an empty line of the real ones: whoever saw the line late pressed it again.
                b'\r' if typed.is_empty() => {}
                b'\r' => break,
                byte => typed.push(byte),
            }
        }
        let typed = String::from_utf8(typed).unwrap();
        if self.turns.is_multiple_of(2) {
            self.hook("UserPromptSubmit", json!({"prompt": typed, "prompt_id": id}));
        }
        let folded = json!({"type": "queued_command", "prompt": typed});
        self.note(json!({"type": "attachment", "attachment": folded}));
        typed
    }

    /// Returns whether it keeps a transcript.
    fn writes_down(&self) -> bool {
        std::fs::exists(format!("{}/transcripts", self.out)).unwrap()
    }

    fn transcript(&self) -> String {
        format!("{}/01998d4e-6c1a-7f00-8000-000000000009.jsonl", self.out)
    }

    fn note(&self, line: Value) {
        if self.writes_down() {
            append(&self.transcript(), &line);
        }
    }

    /// Draws while it works, as programs do, and says what it did.
    fn work_without_hooks(&mut self, text: &str, prompt: &str) {
        std::fs::write(format!("{}/prompt", self.out), prompt).unwrap();
        let go = format!("{}/go", self.out);
        let is_long = text == "wait" || text == "mine";
        let mut step = 0;
        while step < 6 || (is_long && !std::fs::exists(&go).unwrap()) {
            step += 1;
            self.draw(&format!("working {step}"));
            std::thread::sleep(Duration::from_millis(50));
        }
        self.said = format!("again {text}");
    }

    /// Asks whether it may use a tool, until somebody presses `y`.
    fn ask(&mut self) {
        self.hook("PermissionRequest", json!({"tool_name": "Bash"}));
        self.draw("May I? (y)");
        while self.next_byte() != Some(b'y') {}
        self.hook("PostToolUse", json!({"tool_name": "Bash"}));
    }

    fn wait(&mut self, told: &str) {
        std::fs::write(format!("{}/{told}", self.out), "it waits\n").unwrap();
        while !std::fs::exists(format!("{}/go", self.out)).unwrap() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Works until somebody presses Escape, of which no hook tells.
    fn until_cut(&mut self) {
        self.draw("working");
        while self.next_byte() != Some(0x1b) {}
    }

    /// Works, without its line, until somebody has pressed Escape this often.
    fn until_closed(&mut self, count: u32) {
        for number in 0..count {
            print!("\x1b[2J\x1b[Ha view {number}\r\n");
            std::io::stdout().flush().unwrap();
            while self.next_byte() != Some(0x1b) {}
        }
    }

    fn draw(&self, above: &str) {
        let shown = match self.draft.len() > SHOWN_MAX {
            true => format!("[Pasted text #1 +{} lines]", self.draft.lines().count()),
            false => self.draft.replace('\n', "\r\n"),
        };
        let hint = if self.draft.is_empty() { "\x1b[2mTry something\x1b[0m" } else { "" };
        let mark = if self.is_shell { '!' } else { '❯' };
        print!("\x1b[2J\x1b[H{above}\r\n{EDGE}\r\n{mark} {shown}{hint}\r\n{EDGE}\r\n");
        std::io::stdout().flush().unwrap();
    }

    /// Calls a hook; one that a file names is killed before it is told anything.
    fn hook(&self, event: &str, mut given: Value) -> bool {
        if self.hooks.is_null() {
            return true;
        }
        if self.writes_down() {
            given["transcript_path"] = json!(self.transcript());
        }
        if std::fs::remove_file(format!("{}/twice-{event}", self.out)).is_ok() {
            self.hook(event, given.clone());
        }
        let command = self.hooks["hooks"][event][0]["hooks"][0]["command"].as_str().unwrap();
        let mut hook = Command::new("/bin/sh");
        let line = format!("exec {command}");
        let hook = hook.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut hook = hook.spawn().unwrap();
        if std::fs::remove_file(format!("{}/kill-{event}", self.out)).is_ok() {
            hook.kill().unwrap();
            assert!(!hook.wait().unwrap().success());
            return false;
        }
        hook.stdin.take().unwrap().write_all(given.to_string().as_bytes()).unwrap();
        let done = hook.wait_with_output().unwrap();
        assert!(done.status.success() && done.stdout.is_empty(), "a hook says something");
        true
    }

    /// Does nothing for a while, now and then, or as long as a file is there.
    fn stall(&mut self) {
        while std::fs::exists(format!("{}/hang", self.out)).unwrap() {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let until = Instant::now() + Duration::from_millis(400);
        while (self.random >> 33).is_multiple_of(200) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn next_byte(&mut self) -> Option<u8> {
        self.bytes_within(Duration::from_secs(3_600))
    }

    fn bytes_within(&mut self, wait: Duration) -> Option<u8> {
        if self.rest.is_empty() {
            self.rest.extend(self.bytes.recv_timeout(wait).ok()?);
        }
        self.rest.pop_front()
    }
}

fn append(path: &str, line: &Value) {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}
