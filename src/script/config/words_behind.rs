//! The words of the program that a command runs behind others, for those who read its options.

use crate::script::config::file_words::file_name;
use crate::script::config::program::{
    OPERATORS, behind, behind_options, behind_runner, is_variable, unversioned,
};
use crate::script::config::runners::{RUNNERS, SHELLS, WRAPPERS};

/// Returns the words of a command from the program on that it runs behind others, and the names of
/// the variables that these set for it. What a shell or an interpreter runs otherwise is unknown.
pub(in crate::script) fn words_behind(command: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut words, mut set) = (command.to_vec(), Vec::new());
    while let Some((first, rest)) = words.split_first() {
        let name = file_name(first);
        let wrapper = WRAPPERS.iter().find(|it| it.0 == name).map(|it| (it.1, it.2));
        let runner = RUNNERS.iter().find(|it| it.0 == name);
        let inner = match (wrapper, runner) {
            (Some((valued, own)), _) => {
                let inner = behind(rest, valued, own);
                set.extend(variables(&rest[..rest.len() - inner.len()]));
                inner.to_vec()
            }
            (None, Some((_, valued))) => match behind_runner(first, rest, valued) {
                [package, own @ ..] if !package.starts_with('-') => {
                    let package = unversioned(package).to_owned();
                    [package].into_iter().chain(own.iter().cloned()).collect()
                }
                _ => break,
            },
            (None, None) if SHELLS.contains(&name) => {
                let all = words_of_text(rest);
                let inner = behind(&all, &[], 0);
                set.extend(variables(&all[..all.len() - inner.len()]));
                inner.to_vec()
            }
            (None, None) => break,
        };
        if inner.is_empty() {
            break;
        }
        words = inner;
    }
    (words, set)
}

fn variables(words: &[String]) -> impl Iterator<Item = String> {
    let name = |it: &String| it.split_once('=').map(|it| it.0.to_owned());
    words.iter().filter(|it| is_variable(it)).filter_map(name)
}

/// Returns the words of the one plain command that a shell is given as text, with the shell's own
/// arguments in their place; none for anything else.
fn words_of_text(words: &[String]) -> Vec<String> {
    let (rest, is_text) = behind_options(words);
    let Some((text, own)) = rest.split_first().filter(|_| is_text) else { return Vec::new() };
    if text.trim().contains(OPERATORS) || text.split_whitespace().next() == Some("eval") {
        return Vec::new();
    }
    let plain = |word: &str| {
        let quoted = ['"', '\''].into_iter().find_map(|it| word.strip_prefix(it)?.strip_suffix(it));
        quoted.unwrap_or(word).to_owned()
    };
    let arguments = own.get(1..).unwrap_or_default();
    let each = |word: &str| match plain(word).as_str() {
        "$@" | "$*" => arguments.to_vec(),
        word => vec![word.to_owned()],
    };
    text.split_whitespace().flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_program_are_found_behind_others() {
        let found = |command: &[&str]| {
            let command: Vec<String> = command.iter().map(|it| (*it).to_owned()).collect();
            let (words, set) = words_behind(&command);
            (words.join(" "), set.join(" "))
        };
        let is = |words: &str, set: &str| (words.to_owned(), set.to_owned());
        for (command, expected) in [
            ("claude -p A=b", is("claude -p A=b", "")),
            ("/usr/bin/env -u X A=b C=d claude -p", is("claude -p", "A C")),
            ("timeout -k 5 60 nice -n 5 codex exec", is("codex exec", "")),
            ("npx -y @ours/codex exec", is("@ours/codex exec", "")),
            ("stdbuf -e 0 gemini", is("gemini", "")),
            ("bash bin/claude -p", is("bash bin/claude -p", "")),
            ("timeout 60", is("timeout 60", "")),
        ] {
            assert_eq!(found(&command.split(' ').collect::<Vec<_>>()), expected, "{command}");
        }
        let text = "A=b exec claude --settings '{\"x\":1}' \"$@\"";
        let inner = is("claude --settings {\"x\":1} -p", "A");
        assert_eq!(found(&["env", "sh", "-c", text, "x", "-p"]), inner);
        for text in ["cd x && claude", "eval claude", ""] {
            assert_eq!(found(&["sh", "-c", text]), is(format!("sh -c {text}").as_str(), ""));
        }
        assert_eq!(found(&[]), is("", ""));
    }
}
