//! Watches whether the program in a pane takes what is pasted in brackets. tmux puts them around a
//! text only then, and versions that are in use do not tell: hence a process that gets whatever
//! the program prints, and notes it as an option of the pane.
//!
//! **Invariant:** in doubt the program does not: [`IN_BRACKETS`] is true only as long as the
//! process watches.

use std::io::{self, Read};
use std::process::{Command, ExitCode, Stdio};

use camino::Utf8Path;

/// The format of tmux that is true if the program takes pastes in brackets.
pub(super) const IN_BRACKETS: &str = "#{&&:#{pane_pipe},#{==:#{@wb_brackets},on}}";
/// The option of the pane.
const OPTION: &str = "@wb_brackets";
/// The mode in the sequences that turn it on and off.
const MODE: &[u8] = b"2004";
/// Longest parameters of a sequence; tmux obeys no longer ones.
const PARAMETERS_MAX: usize = 64;

/// Returns the shell's command, as a format of tmux, that watches the pane in which it is started.
pub(super) fn command(program: &Utf8Path, tmux: &Utf8Path, socket: &Utf8Path) -> String {
    let words = [program, tmux, socket].map(|it| {
        let quoted = format!("'{}'", it.as_str().replace('\'', "'\\''"));
        quoted.replace('#', "##").replace('%', "%%")
    });
    let [program, tmux, socket] = words;
    format!("exec {program} __brackets {tmux} {socket} '#{{pane_id}}'")
}

/// Entry point of the watching process: `wb-agent __brackets TMUX SOCKET PANE`. Returns when the
/// pane is gone.
pub fn brackets_main(mut args: impl Iterator<Item = String>) -> ExitCode {
    let (Some(tmux), Some(socket), Some(pane)) = (args.next(), args.next(), args.next()) else {
        return ExitCode::FAILURE;
    };
    let note = |is_on: bool| {
        let word = if is_on { "on" } else { "off" };
        #[allow(clippy::disallowed_methods, reason = "process owns every spawn")]
        let mut command = Command::new(&tmux);
        command.args(["-S", &socket, "set-option", "-p", "-t", &pane, OPTION, word]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|it| it.success())
    };
    match watch(io::stdin().lock(), note) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Reads what a program prints to its end, and notes each change; whether all could be noted.
fn watch(mut printed: impl Read, note: impl Fn(bool) -> bool) -> bool {
    let (mut modes, mut is_noted) = (Modes::default(), false);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match printed.read(&mut buffer) {
            // Somebody may have taken the pipe for something else.
            Ok(0) => return !is_noted || note(false),
            Ok(count) => buffer[..count].iter().for_each(|it| modes.take(*it)),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
        if modes.is_on != is_noted {
            if !note(modes.is_on) {
                return false;
            }
            is_noted = modes.is_on;
        }
    }
}

/// What was printed last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Text,
    Escape,
    /// `ESC [` and its parameters.
    Sequence,
}

/// Reads sequences as tmux does.
#[derive(Debug, Default)]
struct Modes {
    place: Place,
    parameters: Vec<u8>,
    /// Whether it is within a string for the terminal, where nothing can be turned on.
    is_string: bool,
    is_on: bool,
}

impl Modes {
    fn take(&mut self, byte: u8) {
        self.place = match (self.place, byte) {
            (_, 0x1b) => Place::Escape,
            (_, 0x18 | 0x1a) => Place::Text,
            (Place::Escape, b'[') => {
                self.parameters.clear();
                Place::Sequence
            }
            (Place::Escape, b'P') => {
                self.is_string = true;
                Place::Text
            }
            (Place::Escape, b'\\') => {
                self.is_string = false;
                Place::Text
            }
            // The terminal begins anew.
            (Place::Escape, b'c') => {
                self.is_on = false;
                Place::Text
            }
            (Place::Sequence, 0x20..=0x3f) => {
                if self.parameters.len() <= PARAMETERS_MAX {
                    self.parameters.push(byte);
                }
                Place::Sequence
            }
            (Place::Sequence, 0x40..=0x7e) => {
                self.end(byte);
                Place::Text
            }
            // A control character stands in a sequence without ending it.
            (place, 0x00..=0x1f | 0x7f) => place,
            _ => Place::Text,
        };
    }

    fn end(&mut self, last: u8) {
        let modes = self.parameters.strip_prefix(b"?").unwrap_or_default();
        let names_it =
            modes.len() < PARAMETERS_MAX && modes.split(|it| *it == b';').any(|it| it == MODE);
        match last {
            b'h' if names_it => self.is_on = !self.is_string,
            b'l' if names_it => self.is_on = false,
            // A soft reset, which some obey.
            b'p' if self.parameters == b"!" => self.is_on = false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn is_on(printed: &str) -> bool {
        let mut modes = Modes::default();
        printed.bytes().for_each(|it| modes.take(it));
        modes.is_on
    }

    #[test]
    fn brackets_are_on_after_the_sequence_that_turns_them_on() {
        for on in [
            "hello \x1b[?2004h> ",
            "\x1b[?25;2004h",
            "\x1b[?2004l\x1b[?20\n04h",
            "\x1b[?2004h\x1b[?25l\x1b[2004l",
            "\x1bP+q\x1b\\\x1b[?2004h",
            "\x1b]0;title\x07\x1b[?2004h",
            "\x1b[?1\x1b[?2004h",
        ] {
            assert!(is_on(on), "{on:?}");
        }
        let long = format!("\x1b[?{}2004h", "1;".repeat(40));
        for off in [
            "",
            "[?2004h",
            "\x1b[2004h",
            "\x1b[?20041h",
            "\x1b[?2004\x18h",
            "\x1b[?2004h\x1b[?2004l",
            "\x1b[?2004h\x1b[?1;2004l",
            "\x1b[?2004h\x1bc",
            "\x1b[?2004h\x1b[!p",
            "\x1bPtmux;\x1b\x1b[?2004h",
            &long,
        ] {
            assert!(!is_on(off), "{off:?}");
        }
    }

    #[test]
    fn each_change_is_noted_until_that_is_impossible() {
        let noted = RefCell::new(Vec::new());
        let note = |is_on| {
            noted.borrow_mut().push(is_on);
            true
        };
        let pieces = |all: &'static [&'static [u8]]| {
            let empty: Box<dyn Read> = Box::new(io::empty());
            all.iter().rev().fold(empty, |rest, it| Box::new(it.chain(rest)))
        };
        assert!(watch(
            pieces(&[b"a\x1b[?20", b"04h", b"b", b"\x1b[?2004lc", b"\x1b[?2004h"]),
            note
        ));
        assert_eq!(*noted.borrow(), [true, false, true, false]);
        assert!(!watch(&b"\x1b[?2004h"[..], |_| false));
    }
}
