//! The programs that run another one: their options with a value, and those that name where.

/// Programs that run the one that their arguments name: their options with a value, and the number
/// of their own words before it.
pub(super) const WRAPPERS: [(&str, &[&str], usize); 20] = [
    (".", &[], 0),
    ("command", &[], 0),
    ("dumb-init", &["-r", "--rewrite"], 0),
    ("env", &["-u", "--unset", "-C", "--chdir"], 0),
    ("exec", &["-a"], 0),
    ("flock", &["-w", "--wait", "--timeout", "-E", "--conflict-exit-code"], 1),
    ("ionice", &["-c", "-n"], 0),
    ("nice", &["-n", "--adjustment"], 0),
    ("nohup", &[], 0),
    ("op", &["--account", "--env-file"], 1),
    ("setsid", &[], 0),
    ("source", &[], 0),
    ("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    ("sudo", &["-u", "-g", "--user", "--group", "-D", "--chdir"], 0),
    (
        "systemd-run",
        &[
            "-p",
            "--property",
            "-u",
            "--unit",
            "-E",
            "--setenv",
            "--slice",
            "--uid",
            "--gid",
            "--working-directory",
        ],
        0,
    ),
    ("time", &[], 0),
    ("timeout", &["-k", "-s", "--kill-after", "--signal"], 1),
    ("tini", &["-p", "-e"], 0),
    ("unbuffer", &[], 0),
    ("xvfb-run", &["-e", "-f", "-n", "-p", "-s", "-w", "--server-num", "--server-args"], 0),
];
/// Options of `uv` and `uvx` with a value.
const OF_UV: &[&str] = &[
    "--build-constraints",
    "--cache-dir",
    "--color",
    "--config-file",
    "--config-setting",
    "--constraints",
    "--default-index",
    "--directory",
    "--env-file",
    "--exclude-newer",
    "--extra",
    "--extra-index-url",
    "--find-links",
    "--fork-strategy",
    "--from",
    "--group",
    "--index",
    "--index-strategy",
    "--index-url",
    "--keyring-provider",
    "--link-mode",
    "--no-binary-package",
    "--no-build-package",
    "--no-extra",
    "--no-group",
    "--only-group",
    "--overrides",
    "--package",
    "--prerelease",
    "--project",
    "--python",
    "--python-platform",
    "--refresh-package",
    "--reinstall-package",
    "--resolution",
    "--upgrade-package",
    "--with",
    "--with-editable",
    "--with-requirements",
    "-C",
    "-P",
    "-b",
    "-c",
    "-f",
    "-i",
    "-p",
    "-w",
];
/// Options of `npm` and `npx` with a value.
const OF_NPM: &[&str] = &[
    "--cache",
    "--loglevel",
    "--node-options",
    "--package",
    "--prefix",
    "--registry",
    "--script-shell",
    "--userconfig",
    "--workspace",
    "-C",
    "-p",
    "-w",
];
/// Programs that run one of a package, or any other one, and their options with a value.
pub(super) const RUNNERS: [(&str, &[&str]); 10] = [
    ("bunx", &["-p", "--package", "--cwd"]),
    ("mise", &["-C", "--cd", "-E", "--env", "-j", "--jobs"]),
    ("npm", OF_NPM),
    ("npx", OF_NPM),
    ("pipx", &["--spec", "--python", "--index-url", "--pip-args"]),
    (
        "pnpm",
        &[
            "-C",
            "--dir",
            "-F",
            "--filter",
            "--filter-prod",
            "--package",
            "--workspace-concurrency",
            "--reporter",
            "--loglevel",
            "--store-dir",
            "--modules-dir",
            "--resume-from",
        ],
    ),
    ("poetry", &["-C", "--directory", "-P", "--project"]),
    ("uv", OF_UV),
    ("uvx", OF_UV),
    ("yarn", &["-p", "--package", "--cwd", "workspace", "--include", "--exclude", "--from", "-j"]),
];
/// What is said to them before the program.
pub(super) const VERBS: [&str; 8] =
    ["dlx", "exec", "foreach", "run", "task", "tool", "workspaces", "x"];
/// Options, and words of `yarn`, whose value is a folder or the member of a workspace where the
/// program runs, or whose scripts are run.
const FOLDERS: [(&str, &[&str]); 20] = [
    ("bun", &["--cwd", "--filter", "-F"]),
    ("bunx", &["--cwd"]),
    ("cargo", &["-p", "--package", "--bin", "--example", "--manifest-path"]),
    ("deno", &["--cwd", "--filter", "-f"]),
    ("docker", &["--file", "--project-directory", "--workdir"]),
    ("env", &["-C", "--chdir"]),
    ("git", &["-C", "--git-dir", "--work-tree"]),
    ("just", &["-d", "--working-directory", "-f", "--justfile"]),
    ("make", &["-C", "--directory", "-f", "--file", "--makefile"]),
    ("mise", &["-C", "--cd"]),
    ("npm", &["-C", "--prefix", "-w", "--workspace"]),
    ("npx", &["-C", "--prefix", "-w", "--workspace"]),
    ("pnpm", &["-C", "--dir", "-F", "--filter", "--filter-prod"]),
    ("podman", &["--file", "--project-directory", "--workdir"]),
    ("poetry", &["-C", "--directory", "-P", "--project"]),
    ("sudo", &["-D", "--chdir"]),
    ("systemd-run", &["--working-directory"]),
    ("uv", &["--directory", "--package", "--project"]),
    ("uvx", &["--directory", "--project"]),
    ("yarn", &["--cwd", "--from", "--include", "workspace"]),
];
/// Options whose value is the package that the program is from.
const PACKAGES: [(&str, &[&str]); 9] = [
    ("bun", &["-p", "--package"]),
    ("bunx", &["-p", "--package"]),
    ("npm", &["-p", "--package"]),
    ("npx", &["-p", "--package"]),
    ("pipx", &["--spec"]),
    ("pnpm", &["--package"]),
    ("uv", &["--from"]),
    ("uvx", &["--from"]),
    ("yarn", &["-p", "--package"]),
];
/// Programs that run another one elsewhere, or by a name that a file of theirs explains: all of
/// their words but options tell what.
pub(super) const ELSEWHERE: [&str; 7] =
    ["docker", "git", "just", "kubectl", "make", "podman", "ssh"];
pub(super) const SHELLS: [&str; 6] = ["bash", "dash", "fish", "ksh", "sh", "zsh"];
/// Programs that run a file, and their options with a value.
pub(super) const INTERPRETERS: [(&str, &[&str]); 10] = [
    ("bun", &["-r", "--preload", "--cwd", "--env-file", "--filter", "-F"]),
    ("deno", &["-c", "--config", "--import-map", "--cwd", "--filter", "-f"]),
    (
        "java",
        &[
            "-cp",
            "-classpath",
            "--class-path",
            "-p",
            "--module-path",
            "--add-exports",
            "--add-modules",
            "--add-opens",
            "--add-reads",
        ],
    ),
    ("lua", &["-l"]),
    ("node", &["-r", "--require", "--import", "--loader", "--env-file", "-C", "--conditions"]),
    ("perl", &["-I"]),
    ("php", &["-c", "-d"]),
    ("python", &["-X", "-W"]),
    ("ruby", &["-I", "-r"]),
    ("tsx", &["--tsconfig", "-r", "--require", "--import"]),
];

/// Returns the folders and the members of workspaces that a program's own words name, in order.
pub(super) fn own_folders<'w>(program: &str, words: &'w [String]) -> Vec<&'w str> {
    values(options(program, &FOLDERS), words)
}

/// Returns the packages that a runner's own words name, in order.
pub(super) fn own_packages<'w>(runner: &str, words: &'w [String]) -> Vec<&'w str> {
    values(options(runner, &PACKAGES), words)
}

/// Returns the folder that an option names in the same word: `--cwd=web`, `-Cweb`.
pub(super) fn own_folder<'w>(program: &str, word: &'w str) -> Option<&'w str> {
    value(options(program, &FOLDERS), word)
}

fn values<'w>(options: &[&str], words: &'w [String]) -> Vec<&'w str> {
    let named = |(at, word): (usize, &'w String)| match options.contains(&word.as_str()) {
        true => words.get(at + 1).map(String::as_str),
        false => value(options, word),
    };
    words.iter().enumerate().filter_map(named).collect()
}

fn value<'w>(options: &[&str], word: &'w str) -> Option<&'w str> {
    let value = |option: &&str| {
        let value = word.strip_prefix(option)?;
        let is_short = option.len() == 2;
        value.strip_prefix('=').or(Some(value).filter(|it| is_short && !it.is_empty()))
    };
    options.iter().find_map(value)
}

fn options(program: &str, all: &[(&str, &'static [&'static str])]) -> &'static [&'static str] {
    all.iter().find(|it| it.0 == program).map_or(&[], |it| it.1)
}
