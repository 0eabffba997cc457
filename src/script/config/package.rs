//! The package or module that a program is from: the same name is another program in another one.

use crate::script::config::file_words::{file_name, is_code};
use crate::script::config::program::{behind, unversioned};
use crate::script::config::runners::own_packages;

/// Options of `go run` with a value.
const OF_GO: [&str; 5] = ["-C", "-exec", "-tags", "-ldflags", "-modfile"];
/// What begins the version of a Python package.
const VERSION: [char; 6] = ['=', '<', '>', '~', '!', ';'];

/// Returns a program that a runner runs, with the packages that the runner's own words name, unless
/// one of them says the same as the command.
pub(super) fn of_package(
    runner: &str,
    own: &[String],
    (command, program): (&str, String),
) -> String {
    // What the command itself runs is told from others by that.
    if program != command || command.contains('/') || is_code(command) {
        return program;
    }
    let plain = |it: &str| unversioned(it.split(VERSION).next().unwrap_or(it)).to_owned();
    let packages: Vec<String> = own_packages(runner, own).into_iter().map(plain).collect();
    if packages.is_empty() || packages.iter().any(|it| file_name(it) == command) {
        return program;
    }
    format!("{}:{program}", packages.join(" "))
}

/// Returns the module that `go run` is given with a version, without it.
pub(super) fn go_module<'w>(program: &str, words: &'w [String]) -> Option<&'w str> {
    let (verb, rest) = words.split_first().filter(|_| program == "go")?;
    let named = behind(rest, &OF_GO, 0).first().filter(|_| verb == "run")?;
    Some(unversioned(named)).filter(|it| it != named)
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use crate::script::config::program::program;

    #[test]
    fn a_name_of_another_package_or_module_is_another_program() {
        for (command, expected) in [
            ("npx -y -p ours@1 ask", "ours:ask"),
            ("npx --package=@ours/one@1.2 ask --fast", "@ours/one:ask"),
            ("npx -p @ours/ask@2 ask", "ask"),
            ("npx -p ours tsx bin/ask.ts", "bin/ask.ts"),
            ("npx -p ours -p tsx tsx agent.ts", "agent.ts"),
            ("npx -p ours -p more ask", "ours more:ask"),
            ("npx ask", "ask"),
            ("npm exec --package=ours -- ask", "ours:ask"),
            ("bunx -p ours ask", "ours:ask"),
            ("yarn dlx -p ours ask", "ours:ask"),
            ("pnpm --package=ours dlx ask", "ours:ask"),
            ("uvx --from ours==1.2 ask", "ours:ask"),
            ("uvx --from ours[all]>=1 ask", "ours[all]:ask"),
            ("uvx -p 3.12 ask", "ask"),
            ("uv tool run --from ours@2 ask", "ours:ask"),
            ("pipx run --spec ours==2 ask", "ours:ask"),
            ("cargo run", "cargo"),
            ("cargo run -p one -- -p two", "cargo in one"),
            ("cargo run --bin=ask", "cargo in ask"),
            (
                "cargo run --manifest-path web/Cargo.toml --example x",
                "cargo in x in web/Cargo.toml",
            ),
            ("go run example.com/ask@v1.2 --fast", "go example.com/ask"),
            ("go run -tags x example.com/ask@latest", "go example.com/ask"),
            ("go run ./cmd/ask", "go cmd/ask"),
            ("go run main.go a@b", "go main.go"),
            ("go test example.com/ask@v1", "go"),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(program(&words, Utf8Path::new("/srv/site")), expected, "{command}");
        }
    }
}
