//! Settings of channels: `wb.channels { … }`, `wb.channel_type "NAME" { … }` and `wb.limits {
//! channels = { … } }`.
//!
//! **Invariant:** files are read when the script is loaded; later edits have no effect until a
//! reload, whoever made them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::script::load::extract::{Checked, Given};
use crate::script::load::files::{Beside, below};
use crate::script::load::node::{Declared, Draft};
use crate::script::source::diagnostic::{Diagnostic, Findings, suggestion};
use crate::script::source::location::Location;
use crate::script::source::span::Spot;
use crate::script::vm::template::{Piece, pieces};

/// Placeholders allowed in a primer.
const PRIMER_NAMES: [&str; 6] = ["channel", "about", "members", "chair", "intent", "you"];
/// Largest file of a primer or an intent, in bytes.
const TEXT_BYTES_MAX: u64 = 8 * 1024;
/// Longest name of a type: it is a prefix of the slugs of its channels.
const NAME_BYTES_MAX: usize = 24;
/// Default number of earlier messages shown to a new member.
const CATCH_UP: u32 = 10;
/// Most earlier messages shown to a new member.
const CATCH_UP_MAX: u32 = 50;
/// Most types of channels.
const TYPES_MAX: usize = 50;
/// Most US dollars that a budget may name.
const COST_MAX: f64 = 1e9;
/// Most tokens that a budget may name.
const TOKENS_MAX: f64 = 1e11;

/// Settings of channels.
#[derive(Clone, Debug, Serialize)]
pub struct Channels {
    /// Introduction for agents that join, with `{{name}}` placeholders; `None` for the built-in
    /// text.
    pub primer: Option<String>,
    /// The line at which answers are cut off.
    pub footer: Option<String>,
    /// Number of earlier messages shown to a new member.
    pub catch_up: u32,
    /// Bounds on agents talking without a person, and on members.
    pub limits: ChannelLimits,
    /// The declared types, by name.
    pub types: BTreeMap<String, DeclaredType>,
}

/// Bounds of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelLimits {
    /// Longest chain of replies to replies.
    pub hops: u32,
    /// Messages of agents since a person last wrote.
    pub without_person: u32,
    /// Messages of one author in one chain of replies.
    pub per_root: u32,
    /// Messages of one agent per minute.
    pub pair: u32,
    /// Messages of all agents per minute.
    pub channel: u32,
    /// Members of a channel.
    pub members: u32,
    /// Agents that its agents may start until a person writes again.
    pub starts: u32,
}

impl Default for ChannelLimits {
    fn default() -> ChannelLimits {
        ChannelLimits {
            hops: 8,
            without_person: 20,
            per_root: 6,
            pair: 10,
            channel: 30,
            members: 20,
            starts: 2,
        }
    }
}

/// Upper limits of the script's values; those of `hops` and `per_root` are higher for a type with a
/// budget.
const CEILINGS: ChannelLimits = ChannelLimits {
    hops: 16,
    without_person: 100,
    per_root: 8,
    pair: 30,
    channel: 120,
    members: 50,
    starts: 8,
};
/// See [`CEILINGS`].
const WITH_BUDGET: ChannelLimits = ChannelLimits { hops: 64, per_root: 32, ..CEILINGS };

/// A type of channel that the script declares.
#[derive(Clone, Debug, Serialize)]
pub struct DeclaredType {
    /// Its name, a prefix of slugs.
    pub name: String,
    /// Its purpose, for people.
    pub about: String,
    /// The goal of its channels, for agents.
    pub intent: String,
    /// Whether only the chair may write.
    pub is_one_way: bool,
    /// Which messages wake an agent that is not mentioned.
    pub wakes: ChannelWakes,
    /// The budget of its channels: turns, tokens and US dollars.
    pub budget: TypeBudget,
    /// Bounds on its agents talking without a person.
    pub limits: ChannelLimits,
    /// Where it is declared.
    pub at: Location,
}

/// Which messages wake an agent that is not mentioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelWakes {
    /// Those addressed to it.
    Addressed,
    /// All except mere acknowledgements.
    Everything,
    /// None.
    Nothing,
}

/// Default budget of a channel's agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TypeBudget {
    /// Turns.
    pub turns: Option<u32>,
    /// Tokens.
    pub tokens: Option<i64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

impl TypeBudget {
    fn is_empty(&self) -> bool {
        *self == TypeBudget::default()
    }
}

/// Validates the settings of channels; `limits` is from `wb.limits`.
pub(crate) fn build(
    draft: &Draft,
    beside: &Beside<'_>,
    limits: ChannelLimits,
    findings: &mut Findings,
) -> Channels {
    let mut channels =
        Channels { primer: None, footer: None, catch_up: CATCH_UP, limits, types: BTreeMap::new() };
    if let Some(declared) = draft.declared.iter().find(|it| it.word == "channels") {
        let checked = declared.judge(findings);
        Judge { declared, checked, beside, findings }.whole(&mut channels);
    }
    for declared in draft.declared.iter().filter(|it| it.word == "channel_type") {
        let checked = declared.judge(findings);
        let built = Judge { declared, checked, beside, findings }.channel_type(&limits);
        if let Some(built) = built {
            channels.types.entry(built.name.clone()).or_insert(built);
        }
        if channels.types.len() > TYPES_MAX {
            let message = format!("there are more than {TYPES_MAX} types of channels");
            findings.add(Diagnostic::error("out-of-range", message).at(&declared.spot));
            break;
        }
    }
    channels
}

/// Parses bounds of channels, with others as the defaults.
pub(crate) fn limits(
    given: Option<&Given>,
    before: ChannelLimits,
    has_budget: bool,
    findings: &mut Findings,
) -> ChannelLimits {
    let Some(Given::Fields(given)) = given else { return before };
    let most = if has_budget { WITH_BUDGET } else { CEILINGS };
    let mut read = |name: &str, before: u32, most: u32| {
        let Some(count) = given.count(name).filter(|it| *it > most) else {
            return given.count(name).unwrap_or(before);
        };
        let message = format!("`{name}` of channels is {count}, above {most}");
        let finding = Diagnostic::error("out-of-range", message).at(given.spot(name));
        findings.add(match name {
            "hops" | "per_root" if !has_budget => {
                finding.note("a type that has a `budget` may go further")
            }
            _ => finding,
        });
        before
    };
    ChannelLimits {
        hops: read("hops", before.hops, most.hops),
        without_person: read("without_person", before.without_person, most.without_person),
        per_root: read("per_root", before.per_root, most.per_root),
        pair: read("pair", before.pair, most.pair),
        channel: read("channel", before.channel, most.channel),
        members: read("members", before.members, most.members),
        starts: read("starts", before.starts, most.starts),
    }
}

struct Judge<'a> {
    declared: &'a Declared,
    checked: &'a Checked,
    beside: &'a Beside<'a>,
    findings: &'a mut Findings,
}

impl Judge<'_> {
    fn error(&mut self, code: &'static str, message: String, spot: &Spot, note: &str) {
        self.findings.add(Diagnostic::error(code, message).at(spot).note(note));
    }

    fn whole(&mut self, channels: &mut Channels) {
        let checked = self.checked;
        channels.primer = self.text_of("primer");
        if let Some(primer) = &channels.primer {
            self.check_primer(primer);
        }
        channels.footer = checked.text("footer").map(|it| it.trim().to_owned());
        let catch_up = checked.count("catch_up").unwrap_or(CATCH_UP);
        if catch_up > CATCH_UP_MAX {
            let message = format!("`catch_up` of channels is {catch_up}, above {CATCH_UP_MAX}");
            self.error("out-of-range", message, checked.spot("catch_up"), "");
        }
        channels.catch_up = catch_up.min(CATCH_UP_MAX);
    }

    fn check_primer(&mut self, primer: &str) {
        let spot = self.checked.spot("primer");
        for (_, piece) in pieces(primer) {
            match piece {
                Piece::Name(name) if !PRIMER_NAMES.contains(&name) => {
                    let message = format!("the primer names `{}`", name.escape_debug());
                    self.error("unknown-name", message, spot, &suggestion(name, PRIMER_NAMES));
                }
                Piece::Bad => {
                    let message = "`{{` in the primer begins no name".to_owned();
                    self.error("bad-template", message, spot, "write `{{{{` for two braces");
                }
                _ => {}
            }
        }
    }

    fn channel_type(&mut self, site: &ChannelLimits) -> Option<DeclaredType> {
        let (checked, declared) = (self.checked, self.declared);
        let name = declared.name.clone()?;
        if name.len() > NAME_BYTES_MAX || name.contains('_') || name.ends_with('-') {
            let message = format!("{} cannot begin the slug of a channel", declared.title());
            let note = "a type is at most 24 small letters, digits and `-`, begins with a letter \
                        and does not end with `-`";
            self.error("bad-name", message, &declared.spot, note);
        }
        let about = checked.text("about").unwrap_or_default().to_owned();
        let intent = self.text_of("intent").unwrap_or_else(|| about.clone());
        let budget = self.budget();
        let limits = limits(checked.given("limits"), *site, !budget.is_empty(), self.findings);
        Some(DeclaredType {
            name,
            about,
            intent,
            is_one_way: checked.text("speaks") == Some("chair"),
            wakes: match checked.text("wakes") {
                Some("everything") => ChannelWakes::Everything,
                Some("nothing") => ChannelWakes::Nothing,
                _ => ChannelWakes::Addressed,
            },
            budget,
            limits,
            at: declared.spot.at(),
        })
    }

    fn budget(&mut self) -> TypeBudget {
        let checked = self.checked;
        let Some(Given::Fields(given)) = checked.given("budget") else {
            return TypeBudget::default();
        };
        let cost_usd = given.number("cost_usd");
        if cost_usd.is_some_and(|it| !(it > 0.0 && it < COST_MAX)) {
            let message = "`cost_usd` must be a number above 0".to_owned();
            self.error("out-of-range", message, given.spot("cost_usd"), "");
        }
        let tokens = given.number("tokens");
        if tokens.is_some_and(|it| !(1.0..=TOKENS_MAX).contains(&it) || it.fract() != 0.0) {
            let message = "`tokens` must be a whole number above 0".to_owned();
            self.error("out-of-range", message, given.spot("tokens"), "");
        }
        let (turns, tokens) = (given.count("turns"), tokens.map(|it| it as i64));
        let budget = TypeBudget { turns, tokens, cost_usd };
        // A wrong value is named as such.
        if budget.is_empty() && !["turns", "tokens", "cost_usd"].iter().any(|it| given.has(it)) {
            let message = format!("`budget` of {} bounds nothing", self.declared.title());
            let note = "write turns, tokens or cost_usd";
            self.error("bad-text", message, checked.spot("budget"), note);
        }
        budget
    }

    /// Returns the content of the file named by a field.
    fn text_of(&mut self, name: &str) -> Option<String> {
        let checked = self.checked;
        let written = checked.text(name)?;
        let spot = checked.spot(name);
        let Some(path) = below(written, &self.declared.spot.at().file) else {
            let message = format!("`{}` leads out of the script's folder", written.escape_debug());
            self.error("bad-path", message, spot, "write channels/NAME.md");
            return None;
        };
        match self.beside.read(&path, TEXT_BYTES_MAX) {
            Ok(text) if text.trim().is_empty() || text.contains('\0') => {
                self.error("bad-text", format!("{path} holds no text"), spot, "");
                None
            }
            Ok(text) => Some(text.trim_end().to_owned()),
            Err(cause) => {
                let note = cause
                    .hint_str()
                    .unwrap_or("paths are relative to the script's folder: write channels/NAME.md");
                self.error("missing-file", cause.message().to_owned(), spot, note);
                None
            }
        }
    }
}
