//! Questions on a terminal, each with a default for Enter.

use std::io::{BufRead, IsTerminal};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::base::{Error, Result};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::{Form, Screen, Style};

/// Invalid answers after which a question is given up.
const TRIES_MAX: usize = 5;
/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 4_000;
/// How often a question is looked at that may end before it is answered.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);

/// Returns whether there is a person to ask.
pub(in crate::cli) fn can(screen: &Screen) -> bool {
    *screen.form() == Form::Words && screen.is_terminal() && std::io::stdin().is_terminal()
}

/// Asks for one of several words, each with its description. Returns its index.
///
/// # Errors
/// `invalid` if the input ends, or nothing that is answered fits.
pub(in crate::cli) fn choice(
    screen: &Screen,
    question: &str,
    words: &[(&str, &str)],
    default: usize,
) -> Result<usize> {
    screen.put(&screen.paint(Style::Bold, question))?;
    for (place, (word, meaning)) in words.iter().enumerate() {
        screen.put(&format!("  {}  {word:<12} {meaning}", place + 1))?;
    }
    let shown = (default + 1).to_string();
    let find = |answer: &str| {
        let by_word = words.iter().position(|(word, _)| *word == answer);
        let by_number = || answer.parse::<usize>().ok()?.checked_sub(1);
        by_word.or_else(by_number).filter(|place| *place < words.len())
    };
    let check = |answer: &str| match find(answer) {
        Some(_) => Ok(()),
        None => Err(Error::invalid(format!("enter a number from 1 to {}", words.len()))),
    };
    let answer = read(screen, &shown, check)?;
    Ok(find(&answer).unwrap_or(default))
}

/// Asks for confirmation; Enter means no.
///
/// # Errors
/// As [`choice`].
pub(in crate::cli) fn yes(screen: &Screen, question: &str) -> Result<bool> {
    let check = |answer: &str| match answer {
        "y" | "yes" | "n" | "no" => Ok(()),
        _ => Err(Error::invalid("enter y or n")),
    };
    let answer = line(screen, question, "n", check)?;
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

/// Asks for confirmation of a command that has not got `--yes`. `what` describes it, and `hint`
/// says what to do where nobody can be asked.
///
/// # Errors
/// `invalid` with code `no_terminal`; `conflict` with code `not_confirmed`; as [`choice`].
pub(in crate::cli) fn confirm(screen: &Screen, what: &str, ask: &str, hint: &str) -> Result<()> {
    need_person(screen, what, hint)?;
    match yes(screen, ask)? {
        true => Ok(()),
        false => Err(Error::conflict("not_confirmed", "nothing changed")
            .hint("answer y, or run it again with --yes")),
    }
}

/// Refuses a command that has to ask where nobody can be asked.
///
/// # Errors
/// `invalid` with code `no_terminal`.
pub(in crate::cli) fn need_person(screen: &Screen, what: &str, hint: &str) -> Result<()> {
    match can(screen) {
        true => Ok(()),
        false => Err(Error::invalid(format!("{what}: confirmation needs a terminal"))
            .code("no_terminal")
            .hint(hint.to_owned())),
    }
}

/// Asks for a line of text.
///
/// # Errors
/// As [`choice`].
pub(in crate::cli) fn line(
    screen: &Screen,
    question: &str,
    default: &str,
    check: impl Fn(&str) -> Result<()>,
) -> Result<String> {
    screen.put(&screen.paint(Style::Bold, question))?;
    read(screen, default, check)
}

/// The lines that a person types, for questions that may end before they are answered. From its
/// beginning on, nothing else may read standard input.
#[derive(Debug)]
pub(in crate::cli) struct Keyboard {
    lines: Receiver<String>,
}

impl Keyboard {
    /// Begins to read standard input. The thread ends with it, or with the program.
    pub(in crate::cli) fn listen() -> Keyboard {
        let (sender, lines) = sync_channel(0);
        std::thread::spawn(move || {
            let stdin = std::io::stdin();
            loop {
                let mut line = String::new();
                let mut bounded = std::io::Read::take(stdin.lock(), ANSWER_BYTES_MAX);
                match bounded.read_line(&mut line) {
                    Ok(1..) => {}
                    // Whoever asks learns that nobody answers.
                    Ok(0) | Err(_) => return,
                }
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Keyboard { lines }
    }

    /// Asks for confirmation as [`yes`] does; `None` once the question is no longer open.
    ///
    /// # Errors
    /// `invalid` if the input ends, or no answer fits; as `is_open`.
    pub(in crate::cli) fn yes(
        &self,
        screen: &Screen,
        question: &str,
        is_open: impl Fn() -> Result<bool>,
    ) -> Result<Option<bool>> {
        // What was typed before the question is no answer to it.
        while self.lines.try_recv().is_ok() {}
        screen.put(&screen.paint(Style::Bold, question))?;
        for _ in 0..TRIES_MAX {
            screen.prompt("[n] > ")?;
            let line = loop {
                match self.lines.recv_timeout(LOOK_INTERVAL) {
                    Ok(line) => break line,
                    Err(RecvTimeoutError::Disconnected) => return Err(no_answer()),
                    Err(RecvTimeoutError::Timeout) if is_open()? => {}
                    Err(RecvTimeoutError::Timeout) => {
                        screen.prompt("\n")?;
                        return Ok(None);
                    }
                }
            };
            match line.trim() {
                "y" | "yes" => return Ok(Some(true)),
                "" | "n" | "no" => return Ok(Some(false)),
                _ => screen.note("enter y or n"),
            }
        }
        Err(no_answer())
    }
}

fn no_answer() -> Error {
    Error::invalid("no answer")
        .code("no_answer")
        .hint("nothing was written; to answer with options, see --help")
}

/// Reads an answer until it is valid; an empty one means the default.
fn read(screen: &Screen, default: &str, check: impl Fn(&str) -> Result<()>) -> Result<String> {
    let stdin = std::io::stdin();
    for _ in 0..TRIES_MAX {
        screen.prompt(&format!("[{}] > ", escape::line(default)))?;
        let mut line = String::new();
        let mut bounded = std::io::Read::take(stdin.lock(), ANSWER_BYTES_MAX);
        let count = bounded
            .read_line(&mut line)
            .map_err(|cause| Error::invalid("the answer cannot be read").source(cause))?;
        if count == 0 {
            break;
        }
        let answer = match line.trim() {
            "" => default.to_owned(),
            answer => answer.to_owned(),
        };
        match check(&answer) {
            Ok(()) => return Ok(answer),
            Err(cause) => {
                let hint = cause.hint_str().map(|it| format!(" ({it})")).unwrap_or_default();
                screen.note(&format!("{}{}", escape::line(cause.message()), escape::line(&hint)));
            }
        }
    }
    Err(no_answer())
}
