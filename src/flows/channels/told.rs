//! Messages as agents read them, from what the interface tells of them.

use crate::api::channels::{ChannelView, MessageView};
use crate::channels::{self, Envelope, Sort};

/// Returns messages of a channel in the envelopes of a block.
pub fn as_told(channel: &ChannelView, messages: &[MessageView]) -> String {
    let (kind, number) = (format!("{}-", channel.kind), format!("-{}", channel.number));
    let short = channel.slug.strip_prefix(&kind).unwrap_or(&channel.slug);
    let short = short.strip_suffix(&number).unwrap_or(short);
    let envelope = |it: &MessageView| Envelope {
        channel: short.to_owned(),
        author: it.author.handle.clone().unwrap_or_else(|| it.author.name.clone()),
        role: it.author.role.clone(),
        sort: Sort::parse(&it.kind).unwrap_or(Sort::Message),
        text: it.text.clone(),
    };
    channels::envelopes(&messages.iter().map(envelope).collect::<Vec<_>>())
}
