//! `wiki-browser new channel-type`: a type of channel, with the instructions for its agents.

use camino::Utf8PathBuf;

use crate::base::{Context, Error, ErrorKind, Result};
use crate::cli::commands::Desk;
use crate::cli::new::addition::{Addition, INSTEAD, loaded};
use crate::cli::new::files::Item;
use crate::cli::new::kind::with_block;
use crate::cli::new::{ChannelTypeArgs, check_line, folder_of};
use crate::cli::terminal::escape::lua as quoted;
use crate::script;

/// Writes a type of channel and its file.
pub(super) fn add(desk: &Desk, args: &ChannelTypeArgs) -> Result<()> {
    let path = desk.script()?;
    let loaded = loaded(&path)?;
    let name = args.name.as_str();
    if let Some(known) = loaded.config.channels.types.get(name) {
        let message = format!("channel_type \"{name}\" is already declared at {}", known.at);
        return Err(Error::conflict("exists", message).hint("choose another name"));
    }
    if !script::is_name(name) {
        let message = format!("`{}` is not a name for a type", name.escape_debug());
        return Err(Error::invalid(message)
            .code("bad_name")
            .hint("small letters, digits and `-`, beginning with a letter: incident"));
    }
    let about = args.about.clone().unwrap_or_else(|| format!("Talk about one {name}"));
    check_line("`about`", &about)?;
    let folder = folder_of(&path);
    let file = format!("channels/{name}.md");
    let first: Utf8PathBuf =
        loaded.config.files.first().map(|it| it.path.clone()).unwrap_or_default();
    let before = std::fs::read_to_string(folder.join(&first))
        .context(ErrorKind::Unavailable, || format!("cannot read {first}"))?;
    let block = |wb: &str| {
        format!(
            "\n{wb}.channel_type {} {{\n  about  = {},\n  intent = {},\n}}\n",
            quoted(name),
            quoted(&about),
            quoted(&file),
        )
    };
    let after = with_block(&before, block);
    let intent = format!(
        "{about}. Say what you found out and how, and what is still open. The channel is over when \
         it has come to that; the chair completes it.\n"
    );
    let agent = loaded.config.kinds.values().find_map(|it| Some(it.agent.as_ref()?.name.as_str()));
    let items = vec![
        Item::File(file.clone().into(), intent),
        Item::Text { path: first, before: Some(before), after },
        Item::File(format!("tests/channel-{name}.lua").into(), first_test(name, agent)),
    ];
    let next = [
        format!("edit {file}: say what such a channel is to come to"),
        "wiki-browser reload, or wiki-browser serve if no server is running".to_owned(),
        format!("wiki-browser channel create NAME --type {name} --with AGENT"),
    ];
    let addition = Addition {
        noun: "channel_type",
        name,
        items: &items,
        instead: INSTEAD,
        next: &next,
        is_dry_run: args.dry_run,
    };
    addition.add(desk, &path)
}

/// Returns the test of a type: a channel of it is made, and an agent of the script is woken there.
fn first_test(name: &str, agent: Option<&str>) -> String {
    let (agents, woken) = match agent.map(quoted) {
        Some(agent) => (format!("agents = {{ {agent} }}, "), format!("{{ {agent} }}")),
        None => (String::new(), "{}".to_owned()),
    };
    let kind = quoted(name);
    format!(
        "-- Tests of channel type {kind}: `wiki-browser test` runs them.\n\
         local t = require \"wb.test\"\n\n\
         t.test(\"{name}: what a person writes wakes its agents\", function()\n  \
         local room = t.channel(\"first\", {{ {agents}type = {kind} }})\n  \
         t.eq(room.slug, \"{name}-first-1\")\n  \
         t.eq(t.say(room, \"What do we know?\").woken, {woken})\nend)\n"
    )
}
