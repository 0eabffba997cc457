//! Checks engines without starting them: whether their programs exist, and what those would start
//! by themselves.

use camino::Utf8PathBuf;

use crate::base::Error;
use crate::flows::check::steering_files::{self, AgentFiles};
use crate::jobs::{self, CURBS, Curb, Engines};
use crate::script::{Agent, Config, Diagnostic, Engine, EngineBody, EnvValue, NO_GOALS};

/// Returns a warning for each engine that a kind names and whose program is missing. For `serve` it
/// is an error, but the script may be checked on another machine.
pub fn check(config: &Config, path: &str) -> Vec<Diagnostic> {
    let warn = |(engine, cause): (&Engine, Error)| {
        let message =
            cause.message().replace(&format!(" ({}:{})", engine.at.file, engine.at.line), "");
        let hint = cause.hint_str().unwrap_or_default();
        finding(config, engine, "engine-missing", message)
            .note(format!("serve and reload refuse it: {hint}"))
    };
    Engines::missing(config, path).into_iter().map(warn).collect()
}

/// Returns a warning for each used engine whose agent would start MCP servers, hooks or plugins
/// that the script does not name, or obey files that nothing keeps out. Those found now are listed.
pub fn open_doors(config: &Config) -> Vec<Diagnostic> {
    let home = home();
    let is_used = |it: &&Engine| config.kinds.values().any(|kind| kind.engine == it.name);
    let open = |engine: &Engine| {
        let (adds, agent) = (engine.open_doors(), engine.agent()?);
        if adds.is_empty() {
            return None;
        }
        let name = &engine.name;
        let does = match adds.as_slice() {
            [NO_GOALS] => "may take turns that nobody asked for, toward goals that its agent sets",
            _ => "starts MCP servers, hooks and plugins of the repository and of its account",
        };
        let message = format!("engine \"{name}\" {does}");
        let add = format!("add {}", adds.join(", "));
        let note = match AgentFiles::of((engine, agent), config, home.as_deref()).programs() {
            Some(files) => format!("it would read {files}; {add}"),
            None => add,
        };
        Some(finding(config, engine, "open-agent", message).note(note))
    };
    let used = || config.engines.values().filter(is_used);
    let mut found: Vec<Diagnostic> = used().filter_map(open).collect();
    found.extend(used().flat_map(|it| uncurbed(config, it)));
    found.extend(used().filter_map(|it| unkept(config, it)));
    found
}

/// Returns a warning for each thing that the script lets Claude Code do by itself.
fn uncurbed(config: &Config, engine: &Engine) -> Vec<Diagnostic> {
    let EngineBody::Process { env, .. } = &engine.body else { return Vec::new() };
    if engine.agent() != Some(Agent::Claude) {
        return Vec::new();
    }
    let is_let = |it: &&Curb| match env.get(it.name) {
        Some(EnvValue::Text(text)) => !it.is_kept_by(text),
        Some(EnvValue::Secret(_)) | None => false,
    };
    let warn = |Curb { name, value, without }: &Curb| {
        let message = format!("engine \"{}\" {without}", engine.name);
        let note = format!("remove {name} from its env: the server sets it to {value}");
        finding(config, engine, "open-agent", message).note(note)
    };
    CURBS.iter().filter(is_let).map(warn).collect()
}

/// Returns a warning if an engine's jobs would be refused because of files that its agent would
/// obey.
fn unkept(config: &Config, engine: &Engine) -> Option<Diagnostic> {
    let found = jobs::unkept_files(engine, &config.folder);
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    let files: Vec<&str> = said.iter().map(String::as_str).collect();
    let names = steering_files::named(&files)?;
    let message = format!(
        "engine \"{}\" would obey {names} of the repository, which no word of its command keeps \
         out: its jobs are not started",
        engine.name
    );
    let quoted: Vec<String> = found.iter().map(|it| format!("{:?}", it.file)).collect();
    let note = format!("remove them, or say trusts = {{ {} }}", quoted.join(", "));
    Some(finding(config, engine, "unkept-file", message).note(note))
}

/// Returns the home of the server's account.
pub(in crate::flows) fn home() -> Option<Utf8PathBuf> {
    std::env::var("HOME").ok().filter(|it| !it.is_empty()).map(Utf8PathBuf::from)
}

fn finding(config: &Config, engine: &Engine, code: &'static str, message: String) -> Diagnostic {
    let file = config.files.iter().find(|file| file.path == *engine.at.file);
    let line = file.and_then(|it| it.text.lines().nth(engine.at.line.saturating_sub(1) as usize));
    Diagnostic::warning(code, message)
        .in_file(&engine.at.file, engine.at.line, line)
        .at_column(engine.at.column, ENGINE_WORD)
}

/// Characters of `wb.engine`.
const ENGINE_WORD: u32 = 9;
