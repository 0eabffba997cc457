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
        "A file with what an agent is told once when it joins; it may name `{{channel}}`, \
         `{{about}}`, `{{members}}`, `{{chair}}`, `{{intent}}` and `{{you}}`.",
    ),
    field(
        "footer",
        Shape::Line,
        r#""COMMAND COMPLETE""#,
        "What begins with this line is cut off the end of answers.",
    ),
    with("catch_up", Shape::Count, "10", "20", "Messages that a new member receives; 1 to 50."),
];

pub(in crate::script::schema) const CHANNEL_TYPE: [Field; 6] = [
    needed("about", Shape::Line, r#""Find out what broke, and mend it""#, "A description."),
    field(
        "intent",
        Shape::Path,
        r#""channels/incident.md""#,
        "A file with what its channels are to come to, for agents; `about` without it.",
    ),
    with("speaks", Shape::Word(&SPEAKS), "all", r#""chair""#, "Who may write."),
    with(
        "wakes",
        Shape::Word(&WAKES),
        "addressed",
        r#""everything""#,
        "Which messages wake an agent that nobody mentions.",
    ),
    field(
        "budget",
        Shape::Fields(&BUDGET),
        "{ turns = 60, tokens = 2000000, cost_usd = 5 }",
        "What the agents of a channel may spend, unless somebody says otherwise: it is told at \
         two thirds, and pauses at the end.",
    ),
    field(
        "limits",
        Shape::Fields(&TYPE_LIMITS),
        "{ hops = 12, per_root = 8 }",
        "How far its agents go on without a person; otherwise as `wb.limits` says.",
    ),
];

const BUDGET: [Field; 3] = [
    field("turns", Shape::Count, "60", "Turns of agents."),
    field("tokens", Shape::Number, "2000000", "Tokens, as far as the engines tell them."),
    field("cost_usd", Shape::Number, "5", "US dollars, as far as the engines tell them."),
];

const HOPS: Field =
    field("hops", Shape::Count, "8", "Longest chain of answers to answers; 8 without it.");
const WITHOUT_PERSON: Field = field(
    "without_person",
    Shape::Count,
    "20",
    "Messages of agents since a person spoke; 20 without it.",
);
const PER_ROOT: Field = field(
    "per_root",
    Shape::Count,
    "6",
    "Messages of one agent in one chain of causes; 6 without it.",
);
const PAIR: Field =
    field("pair", Shape::Count, "10", "Messages of one agent within a minute; 10 without it.");
const CHANNEL: Field =
    field("channel", Shape::Count, "30", "Messages of all agents within a minute; 30 without it.");

const TYPE_LIMITS: [Field; 5] = [HOPS, WITHOUT_PERSON, PER_ROOT, PAIR, CHANNEL];

/// What `wb.limits.channels` may say.
pub(in crate::script::schema) const CHANNEL_LIMITS: [Field; 6] = [
    HOPS,
    WITHOUT_PERSON,
    PER_ROOT,
    PAIR,
    CHANNEL,
    field("members", Shape::Count, "20", "Members of a channel; 20 without it."),
];
