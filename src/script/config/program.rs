//! The program that a command runs, behind shells, interpreters and programs that run another one:
//! that is what a session belongs to.

use camino::Utf8Path;

use crate::script::config::file_words::{clean, file_name, is_code, is_data, is_inside, is_plain};
use crate::script::config::package::{go_module, of_package};
use crate::script::config::runners::{
    ELSEWHERE, INTERPRETERS, RUNNERS, SHELLS, VERBS, WRAPPERS, own_folder, own_folders,
};

/// Options of a shell with a value.
const OF_SHELL: [&str; 5] = ["-o", "+o", "-O", "--rcfile", "--init-file"];
/// Options of interpreters that are followed by a program's text.
const TEXTS: [&str; 4] = ["-c", "-e", "--eval", "--print"];
/// What makes a shell's text more than one command.
pub(super) const OPERATORS: &[char] = &[';', '&', '|', '<', '>', '(', ')', '`', '\n'];
/// What stands between its commands.
const BETWEEN: &[char] = &[';', '&', '|', '(', ')', '{', '}', '\n'];
/// What a shell replaces in a word.
const EXPANDED: &[char] = &['$', '"', '\'', '\\', '*', '?', '~', '#'];
/// What stands between a program and where it runs.
const IN: &str = " in ";
/// What a text runs if that is named by its arguments.
const ARGUMENTS: [&str; 5] = ["\"$@\"", "$@", "$*", "\"$1\"", "$1"];

/// Returns what tells the program of a command from others: its path from a folder, its name if it
/// is outside in a `bin`, or the text that a shell or an interpreter is given. Options, arguments
/// and variables do not count, but for what a program outside may run of the folder, by its name.
/// Nothing but the words counts: files come and go while the command stays the same.
pub(super) fn program(command: &[String], folder: &Utf8Path) -> String {
    let mut words = command;
    let mut folders = Vec::new();
    let program = loop {
        let Some(first) = words.first() else { return String::new() };
        let (name, rest) = (file_name(first), &words[1..]);
        let Some((_, valued, own)) = WRAPPERS.iter().find(|it| it.0 == name) else {
            break of_last(first, rest, folder);
        };
        if let Some(spread) = spread(name, rest, valued) {
            break program(&spread, folder);
        }
        let inner = behind(rest, valued, *own);
        folders.extend(own_folders(name, &rest[..rest.len() - inner.len()]));
        match inner {
            [] => break place(first, folder),
            [text] if name == "flock" && text.contains(' ') => break of_text(text, &[], folder),
            inner => words = inner,
        }
    };
    within(program, &folders, folder)
}

/// Returns a program with the folders, or members of a workspace, where it runs.
fn within(program: String, folders: &[&str], folder: &Utf8Path) -> String {
    folders.iter().rev().fold(program, |program, it| {
        let path = clean(Utf8Path::new(it));
        match path.strip_prefix(folder).unwrap_or(&path) {
            here if here.as_str().is_empty() => program,
            other => format!("{program}{IN}{other}"),
        }
    })
}

/// Returns the program of a command that begins with no wrapper.
fn of_last<'w>(first: &'w str, rest: &'w [String], folder: &Utf8Path) -> String {
    let name = file_name(first);
    if SHELLS.contains(&name) {
        return of_shell(first, rest, folder);
    }
    if ELSEWHERE.contains(&name) {
        let word = |it: &'w String| match it.starts_with('-') {
            true => own_folder(name, it),
            false => Some(it.as_str()),
        };
        return joined(name.to_owned(), rest.iter().filter_map(word).map(|it| place(it, folder)));
    }
    // `bun x` is `bunx`.
    let verb = behind(rest, &["--cwd"], 0).first();
    let is_bunx = |it: &str| it == "bunx" && name == "bun" && verb.is_some_and(|it| it == "x");
    if let Some((_, valued)) = RUNNERS.iter().find(|it| it.0 == name || is_bunx(it.0)) {
        return of_runner(first, rest, valued, folder);
    }
    if let Some((_, valued)) = INTERPRETERS.iter().find(|it| is_version_of(name, it.0)) {
        let own = &rest[..rest.len() - behind_runner(first, rest, valued).len()];
        let program = of_interpreter(first, rest, valued, folder);
        return within(program, &own_folders(name, own), folder);
    }
    let program = place(first, folder);
    if first.contains('/') && is_inside(first, folder) || is_code(first) {
        return program;
    }
    if let Some(module) = go_module(name, rest) {
        return joined(program, [place(module, folder)].into_iter());
    }
    let before = [first].into_iter().chain(rest.iter().map(String::as_str));
    let is_run = |(before, it): &(&str, &String)| {
        let is_named = is_code(it) || it.contains('/') && !before.starts_with('-');
        is_named && is_plain(it) && !is_data(it) && is_inside(it, folder)
    };
    let program = joined(program, before.zip(rest).filter(is_run).map(|it| place(it.1, folder)));
    let own = rest.split(|it| it == "--").next().unwrap_or_default();
    within(program, &own_folders(name, own), folder)
}

fn joined(first: String, more: impl Iterator<Item = String>) -> String {
    [first].into_iter().chain(more).collect::<Vec<_>>().join(" ")
}

/// Returns a command with the words of the text that `env -S` is given.
fn spread(name: &str, words: &[String], valued: &[&str]) -> Option<Vec<String>> {
    let is_split = |it: &String| it.starts_with("-S") || it.starts_with("--split-string");
    let at = words.iter().position(is_split).filter(|_| name == "env")?;
    if !behind(&words[..at], valued, 0).is_empty() {
        return None;
    }
    let own = words[at].strip_prefix("--split-string=").or_else(|| words[at].strip_prefix("-S"));
    let (text, after) = match own.filter(|it| !it.is_empty()) {
        Some(text) => (text, at + 1),
        None => (words.get(at + 1)?.as_str(), at + 2),
    };
    let spread = text.split_whitespace().map(str::to_owned);
    let env = [name.to_owned()].into_iter().chain(words[..at].iter().cloned());
    Some(env.chain(spread).chain(words[after..].iter().cloned()).collect())
}

/// Returns whether a name is this one, or with a version: `python3.12`.
fn is_version_of(name: &str, plain: &str) -> bool {
    let version = name.strip_prefix(plain);
    version.is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit() || it == b'.'))
}

pub(super) fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map(|it| it.0).unwrap_or_default();
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    !name.is_empty() && name.bytes().all(is_plain)
}

/// Returns the words after options, variables, and so many words of a program's own.
pub(super) fn behind<'w>(mut words: &'w [String], valued: &[&str], mut own: usize) -> &'w [String] {
    while let Some(word) = words.first() {
        let skipped = match word.as_str() {
            it if valued.contains(&it) => 2,
            it if it.starts_with('-') || is_variable(it) => 1,
            _ if own > 0 => {
                own -= 1;
                1
            }
            _ => break,
        };
        words = words.get(skipped..).unwrap_or_default();
    }
    words
}

/// Returns the words after a shell's options, and whether the first of them is its text.
pub(super) fn behind_options(words: &[String]) -> (&[String], bool) {
    let mut rest = words;
    let mut is_text = false;
    while let Some(word) = rest.first().filter(|it| it.starts_with(['-', '+'])) {
        is_text |= word.starts_with('-') && !word.starts_with("--") && word.contains('c');
        let skipped = if OF_SHELL.contains(&word.as_str()) { 2 } else { 1 };
        rest = rest.get(skipped..).unwrap_or_default();
    }
    (rest, is_text)
}

fn of_shell(shell: &str, words: &[String], folder: &Utf8Path) -> String {
    let (rest, is_text) = behind_options(words);
    match rest.first() {
        None => place(shell, folder),
        // The first word behind a text is its name.
        Some(text) if is_text => of_text(text, rest.get(2..).unwrap_or_default(), folder),
        Some(file) => place(file, folder),
    }
}

/// Returns the program of a shell's text, or all of it unless it is one plain command; with what
/// it runs of its arguments.
fn of_text(text: &str, given: &[String], folder: &Utf8Path) -> String {
    let of_part = |part: &str| {
        let words: Vec<String> = part.split_whitespace().map(str::to_owned).collect();
        let command = behind(&words, &[], 0);
        let is_any = command.first().is_some_and(|it| it != "eval");
        is_any.then(|| program(command, folder))
    };
    let is_given = |it: &str| {
        let program = of_part(it);
        program.is_some_and(|it| ARGUMENTS.contains(&it.split(IN).next().unwrap_or_default()))
    };
    let whole = of_part(text).filter(|_| !text.trim().contains(OPERATORS));
    if !given.is_empty() && text.split(BETWEEN).any(is_given) {
        let given = program(given, folder);
        return match whole {
            Some(whole) => given + whole.find(IN).map_or("", |at| &whole[at..]),
            None => format!("{text} {given}"),
        };
    }
    whole.filter(|it| !it.contains(EXPANDED)).unwrap_or_else(|| text.to_owned())
}

/// Returns the words that a runner runs: a package with its arguments, or `-m` and a module.
pub(super) fn behind_runner<'w>(first: &str, words: &'w [String], valued: &[&str]) -> &'w [String] {
    // What `mise` is told before that are tools.
    let ends = words.iter().position(|it| it == "--").filter(|_| file_name(first) == "mise");
    let mut rest = ends.map_or(words, |at| &words[at + 1..]);
    while let Some(word) = rest.first() {
        let skipped = match (word.as_str(), rest.get(1)) {
            ("-m" | "--module", Some(_)) => break,
            (it, Some(_)) if valued.contains(&it) => 2,
            (it, Some(_)) if VERBS.contains(&it) => 1,
            (it, _) if it.starts_with('-') => 1,
            _ => break,
        };
        rest = &rest[skipped..];
    }
    rest
}

fn of_runner(first: &str, words: &[String], valued: &[&str], folder: &Utf8Path) -> String {
    let rest = behind_runner(first, words, valued);
    let own = match file_name(first) {
        // It takes options behind the name of a script, too.
        "npm" => words.split(|it| it == "--").next().unwrap_or_default(),
        _ => &words[..words.len() - rest.len()],
    };
    let program = match rest {
        [] => place(first, folder),
        [option, module, ..] if ["-m", "--module"].contains(&option.as_str()) => {
            format!("-m {module}")
        }
        [name, arguments @ ..] => {
            let name = unversioned(name);
            let inner = [name.to_owned()].into_iter().chain(arguments.iter().cloned());
            let program = program(&inner.collect::<Vec<_>>(), folder);
            of_package(file_name(first), own, (name, program))
        }
    };
    within(program, &own_folders(file_name(first), own), folder)
}

/// Returns the name of a package without its version.
pub(super) fn unversioned(name: &str) -> &str {
    let plain = name.rsplit_once('@').filter(|(plain, version)| {
        !plain.is_empty() && !plain.ends_with('/') && !version.contains('/')
    });
    plain.map_or(name, |it| it.0)
}

/// Returns the first word that looks like a file, after those behind an option that may be its
/// value as well as the file.
fn of_interpreter(first: &str, words: &[String], valued: &[&str], folder: &Utf8Path) -> String {
    let (mut rest, mut may_be, mut is_behind_option) = (words, Vec::new(), false);
    while let Some(word) = rest.first() {
        let is_value = std::mem::replace(&mut is_behind_option, word.starts_with('-'));
        match (word.as_str(), rest.get(1)) {
            ("-m", Some(module)) => return format!("-m {module}"),
            (it, Some(_)) if valued.contains(&it) => {
                is_behind_option = false;
                rest = &rest[1..];
            }
            (it, Some(text)) if TEXTS.contains(&it) => return text.clone(),
            ("run", _) => {}
            ("task", _) if file_name(first) == "deno" => {
                let task = behind(&rest[1..], valued, 0).iter().take(1).cloned();
                return joined(word.clone(), task);
            }
            (it, _) if it.starts_with('-') => {}
            (it, Some(_)) if is_value && is_data(it) => {}
            (it, Some(_)) if is_value && !it.contains('/') && !is_code(it) => may_be.push(word),
            (file, _) => {
                let all = may_be.into_iter().map(|it| place(it, folder));
                return all.chain([place(file, folder)]).collect::<Vec<_>>().join(" ");
            }
        }
        rest = &rest[1..];
    }
    may_be.first().map_or_else(|| place(first, folder), |it| place(it, folder))
}

/// Returns how a program is told from others: a folder that moves takes its programs along.
fn place(word: &str, folder: &Utf8Path) -> String {
    if !word.contains('/') {
        return word.to_owned();
    }
    let path = clean(Utf8Path::new(word));
    if let Ok(inside) = path.strip_prefix(folder) {
        return inside.to_string();
    }
    let is_in_bin = path.parent().and_then(Utf8Path::file_name).is_some_and(|it| it == "bin");
    match path.file_name() {
        Some(name) if path.is_absolute() && is_in_bin => name.to_owned(),
        _ => path.into_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is(command: &[&str], expected: &str) {
        let command: Vec<String> = command.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(program(&command, Utf8Path::new("/srv/site")), expected, "{command:?}");
    }

    #[test]
    fn a_program_is_what_a_shell_an_interpreter_or_another_program_runs() {
        for (command, expected) in [
            ("claude --model opus", "claude"),
            ("/usr/bin/claude", "claude"),
            ("/bin/sh -eu bin/ask.sh --fast", "bin/ask.sh"),
            ("bash -o pipefail ./bin/ask.sh", "bin/ask.sh"),
            ("bin/../bin/./ask.sh", "bin/ask.sh"),
            ("/srv/site/bin/ask.sh", "bin/ask.sh"),
            ("/srv/other/ask.sh", "/srv/other/ask.sh"),
            ("../tools/ask.sh", "../tools/ask.sh"),
            ("python3.12 -u -X dev bin/one.py x", "bin/one.py"),
            ("python3 -m ours.agent --fast", "-m ours.agent"),
            ("/usr/bin/env -u HOME A=b python3 one.py -v", "one.py"),
            ("env MODEL=a nice -n 5 timeout -k 1 30 sh bin/ask.sh", "bin/ask.sh"),
            ("stdbuf -oL setsid -w bin/ask.sh", "bin/ask.sh"),
            ("timeout 30s bin/ask.sh", "bin/ask.sh"),
            ("node --import x.mjs agent.mjs", "agent.mjs"),
            ("deno run --allow-net agent.ts", "agent.ts"),
            ("uv run --with rich python one.py", "one.py"),
            ("uv run one.py", "one.py"),
            ("npx -y @ours/agent", "@ours/agent"),
            ("npx @ours/agent@1.2.1 --fast", "@ours/agent"),
            ("npx -y -p tsx@4 tsx agent.ts", "agent.ts"),
            ("npm exec -- ours@latest", "ours"),
            ("pnpm -C web exec sh bin/ask.sh", "bin/ask.sh in web"),
            ("pnpm dlx ours@2", "ours"),
            ("yarn exec bin/ask.sh", "bin/ask.sh"),
            ("bunx ours", "ours"),
            ("uvx --from ours one@1", "ours:one"),
            ("uv run -m ours.agent", "-m ours.agent"),
            ("mise exec node@20 -- node agent.mjs", "agent.mjs"),
            ("systemd-run --user -p MemoryMax=1G --pipe sh bin/ask.sh", "bin/ask.sh"),
            ("tini -s -- bin/ask.sh", "bin/ask.sh"),
            ("dumb-init -r 15:3 bin/ask.sh", "bin/ask.sh"),
            ("xvfb-run -a -s :9 sh bin/ask.sh", "bin/ask.sh"),
            ("unbuffer -p bin/ask.sh", "bin/ask.sh"),
            ("timeout 60 flock -w 5 /tmp/lock sh bin/ask.sh", "bin/ask.sh"),
            ("env -S A=b sh bin/ask.sh", "bin/ask.sh"),
            ("lua5.4 -l x bin/ask.lua", "bin/ask.lua"),
            ("php -d a=b bin/ask.php", "bin/ask.php"),
            ("fish bin/ask.fish", "bin/ask.fish"),
            ("tsx bin/ask.ts", "bin/ask.ts"),
            ("java -Xmx1G -jar lib/ask.jar", "lib/ask.jar"),
            ("docker run --rm image:1 python3 bin/one.py", "docker run image:1 python3 bin/one.py"),
            ("/usr/bin/ssh -q host /srv/site/bin/one", "ssh host bin/one"),
            ("claude bin/none.md", "claude"),
            ("node --version", "node"),
            ("timeout 30", "timeout"),
            ("sh -c", "sh"),
        ] {
            is(&command.split(' ').collect::<Vec<_>>(), expected);
        }
        is(&[], "");
    }

    #[test]
    fn values_of_options_and_data_are_no_programs() {
        for (command, expected) in [
            ("deno run --env-file conf.env agent.ts", "agent.ts"),
            ("deno run --import-map x agent.ts", "agent.ts"),
            ("deno task --quiet ask", "task ask"),
            ("bun run --env-file .env agent.ts", "agent.ts"),
            ("node --env-file conf.env -C dev bin/ask.mjs", "bin/ask.mjs"),
            ("node --env-file-if-exists prod.env bin/ask.mjs x.mjs", "bin/ask.mjs"),
            ("java -ea --add-opens x bin/ask.jar", "bin/ask.jar"),
            ("uv run --group dev ask", "ask"),
            ("uv run --no-project --index x ask", "ask"),
            ("python3 -u one x.py", "one x.py"),
            ("python3 one x.py", "one"),
            ("python3 -u one", "one"),
            ("make -s ask", "make ask"),
            ("just ask", "just ask"),
            ("op run --env-file x.env -- sh bin/ask.sh", "bin/ask.sh"),
            ("op run -- ask", "ask"),
            ("claude --settings conf.json --model ours/opus-4.1 a", "claude"),
            ("claude --host https://ours.org/a.py gemini-2.5 @ours/x", "claude"),
            ("strace -o log.txt sh bin/ask.sh", "strace bin/ask.sh"),
            ("ours bin/ask", "ours bin/ask"),
            ("ours -f one.awk ../x.awk", "ours one.awk"),
        ] {
            is(&command.split(' ').collect::<Vec<_>>(), expected);
        }
    }

    /// The same name is another program in another folder, or in another member of a workspace.
    #[test]
    fn where_a_program_runs_counts() {
        for (command, expected) in [
            ("yarn workspace web ask", "ask in web"),
            ("yarn workspace web run ask", "ask in web"),
            ("yarn workspaces foreach --include web run ask", "ask in web"),
            ("yarn --cwd web run ask", "ask in web"),
            ("pnpm -F web exec ask", "ask in web"),
            ("pnpm --filter=web run ask", "ask in web"),
            ("pnpm --dir ./web/ -F one exec ask", "ask in one in web"),
            ("npm --prefix web run ask", "ask in web"),
            ("npm run ask --prefix=/srv/site/web -- --prefix x", "ask in web"),
            ("npm run -w one ask", "ask in one"),
            ("npx --prefix web ours@1", "ours in web"),
            ("uv run --package web ask", "ask in web"),
            ("uv --directory web run sh bin/ask.sh", "bin/ask.sh in web"),
            ("uv run --directory . ask --directory x", "ask"),
            ("uv run --project web -m ours", "-m ours in web"),
            ("poetry -C web run ask", "ask in web"),
            ("mise exec -C web node@20 -- node agent.mjs", "agent.mjs in web"),
            ("deno task --cwd web ask", "task ask in web"),
            ("bun --cwd web run ask", "ask in web"),
            ("bun x --package one ask", "one:ask"),
            ("env -C d1 ./agent.sh", "agent.sh in d1"),
            ("env --chdir=/srv/site/d1 A=b ./agent.sh", "agent.sh in d1"),
            ("env -Cd1 uv run --directory web ask", "ask in web in d1"),
            ("env -C d1 -S sh ./agent.sh", "agent.sh in d1"),
            ("env -C /srv/site ./agent.sh", "agent.sh"),
            ("systemd-run --working-directory=/opt/x ask", "ask in /opt/x"),
            ("sudo -D d1 ask", "ask in d1"),
            ("make -C web ask", "make web ask"),
            ("make -s --directory=web ask", "make web ask"),
            ("just --justfile=web/justfile ask", "just web/justfile ask"),
            ("git -C web ask", "git web ask"),
            ("git -Cweb ask", "git web ask"),
        ] {
            is(&command.split(' ').collect::<Vec<_>>(), expected);
        }
        is(&["sh", "-c", "env -C d1 ./agent.sh"], "agent.sh in d1");
        is(&["sh", "-c", "env -C d1 \"$@\"", "x", "sh", "bin/ask.sh"], "bin/ask.sh in d1");
    }

    #[test]
    fn the_text_of_a_shell_is_its_command_or_all_of_it() {
        for (text, expected) in [
            ("cat", "cat"),
            ("exec python3 bin/one.py \"$@\"", "bin/one.py"),
            ("MODEL=a exec sh ./bin/ask.sh --model $MODEL \"$@\"", "bin/ask.sh"),
            (". bin/ask.sh", "bin/ask.sh"),
            ("cd x && bin/ask.sh", "cd x && bin/ask.sh"),
            ("cat; sleep 4", "cat; sleep 4"),
            ("eval \"$X\"", "eval \"$X\""),
            ("\"$HOME/ask.sh\" -x", "\"$HOME/ask.sh\" -x"),
            ("A=\"b c\" ask.sh", "A=\"b c\" ask.sh"),
        ] {
            is(&["/bin/sh", "-c", text, "x"], expected);
            is(&["timeout", "9", "bash", "-euc", text], expected);
        }
        is(&["python3", "-c", "print(1)"], "print(1)");
        is(&["node", "-e", "f()"], "f()");
        is(&["flock", "/tmp/lock", "-c", "sh bin/ask.sh"], "bin/ask.sh");
        for env in [&["env", "-S", "A=b sh bin/ask.sh"][..], &["env", "-SA=b sh", "bin/ask.sh"]] {
            is(env, "bin/ask.sh");
        }
        is(&["env", "sh", "bin/ask.sh", "-S", "x"], "bin/ask.sh");
    }

    #[test]
    fn the_arguments_of_a_text_count_if_it_runs_them() {
        let given = |text: &'static str| ["sh", "-c", text, "x", "sh", "bin/ask.sh", "--fast"];
        for text in ["exec \"$@\"", "nice \"$@\"", "\"$1\" \"$2\""] {
            is(&given(text), "bin/ask.sh");
        }
        let text = "ulimit -n 512; exec \"$@\" 2>>log";
        is(&given(text), &format!("{text} bin/ask.sh"));
        is(&given("exec bin/one \"$@\""), "bin/one");
        is(&["sh", "-c", "exec \"$@\"", "x"], "exec \"$@\"");
    }

    /// Words that happen to be names of files are those of a command as it was.
    #[test]
    fn files_that_come_and_go_change_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let absolute = folder.join("data").into_string();
        let commands = [
            (&["awk", "-f", "bin/ask.awk", "none", "bin"][..], "awk bin/ask.awk"),
            (&["/opt/x/bin/run", &absolute], "run data"),
            (&["bin/other", "data"], "bin/other"),
            (&["uv", "run", "one", "data"], "one"),
            (&["python3", "one", "data"], "one"),
            (&["one", "none", "--settings", "conf.json"], "one"),
        ];
        let check = || {
            for (command, expected) in commands {
                let command: Vec<String> = command.iter().map(|it| (*it).to_owned()).collect();
                assert_eq!(program(&command, folder), expected, "{command:?}");
            }
        };
        check();
        std::fs::create_dir(folder.join("bin")).unwrap();
        for name in ["bin/ask.awk", "one", "none", "data", "conf.json"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        check();
    }
}
