//! Fields of `wb.channels`, `wb.channel_type` and `wb.limits.channels`.

use crate::script::schema::fields::{field, needed, with};
use crate::script::schema::{Field, Shape};

/// Words of `channel_type.speaks`.
const SPEAKS: [&str; 2] = ["all", "chair"];
/// Words of `channel_type.wakes`.
const WAKES: [&str; 3] = ["addressed", "everything", "nothing"];

pub(in crate::script::schema) const CHANNELS: [Field; 3] = [
    field(
        "primer",
        Shape::Path,
        r#""channels/primer.md""#,
        "A file with the introduction that an agent gets when it joins; it may use \
         `{{channel}}`, `{{about}}`, `{{members}}`, `{{chair}}`, `{{intent}}` and `{{you}}`.",
    ),
    field("footer", Shape::Line, r#""COMMAND COMPLETE""#, "Answers are cut off at this line."),
    with("catch_up", Shape::Count, "10", "20", "Earlier messages shown to a new member; 1 to 50."),
];

pub(in crate::script::schema) const CHANNEL_TYPE: [Field; 6] = [
    needed("about", Shape::Line, r#""Find out what broke, and mend it""#, "Its purpose."),
    field(
        "intent",
        Shape::Path,
        r#""channels/incident.md""#,
        "A file with the goal of its channels, for agents; `about` by default.",
    ),
    with("speaks", Shape::Word(&SPEAKS), "all", r#""chair""#, "Who may write."),
    with(
        "wakes",
        Shape::Word(&WAKES),
        "addressed",
        r#""everything""#,
        "Which messages wake an agent that is not mentioned.",
    ),
    field(
        "budget",
        Shape::Fields(&BUDGET),
        "{ turns = 60, tokens = 2000000, cost_usd = 5 }",
        "Default budget of a channel's agents: the channel is warned at two thirds and paused \
         when it is used up.",
    ),
    field(
        "limits",
        Shape::Fields(&TYPE_LIMITS),
        "{ hops = 12, per_root = 8 }",
        "Bounds on agents talking without a person; as in `wb.limits` by default.",
    ),
];

const BUDGET: [Field; 3] = [
    field("turns", Shape::Count, "60", "Turns of its agents."),
    field("tokens", Shape::Number, "2000000", "Tokens, as far as the engines report them."),
    field("cost_usd", Shape::Number, "5", "US dollars, as far as the engines report them."),
];

const HOPS: Field =
    field("hops", Shape::Count, "8", "Longest chain of replies to replies; 8 by default.");
const WITHOUT_PERSON: Field = field(
    "without_person",
    Shape::Count,
    "20",
    "Messages of agents since a person last wrote; 20 by default.",
);
const PER_ROOT: Field = field(
    "per_root",
    Shape::Count,
    "6",
    "Messages of one agent in one chain of replies; 6 by default.",
);
const PAIR: Field =
    field("pair", Shape::Count, "10", "Messages of one agent per minute; 10 by default.");
const CHANNEL: Field =
    field("channel", Shape::Count, "30", "Messages of all agents per minute; 30 by default.");

const TYPE_LIMITS: [Field; 5] = [HOPS, WITHOUT_PERSON, PER_ROOT, PAIR, CHANNEL];

/// The fields of `wb.limits.channels`.
pub(in crate::script::schema) const CHANNEL_LIMITS: [Field; 7] = [
    HOPS,
    WITHOUT_PERSON,
    PER_ROOT,
    PAIR,
    CHANNEL,
    field("members", Shape::Count, "20", "Members of a channel; 20 by default."),
    field(
        "starts",
        Shape::Count,
        "2",
        "Agents that agents may start until a person writes again; 2 by default.",
    ),
];
