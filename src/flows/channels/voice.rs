//! Channels by voice: a sentence that somebody has spoken, as a message, an addition or a question.

use crate::api::channels::{ChannelQuery, ChannelView, HistoryQuery, MemberRequest, PostRequest};
use crate::api::voice::{VoiceAnswer, VoiceRequest};
use crate::base::{Error, Result, truncate_chars};
use crate::channels;
use crate::flows::Site;
use crate::flows::channels::{candidates, members, show, speak};
use crate::people::Caller;
use crate::store::idempotency;

/// Most messages that are read out.
const TOLD_MAX: u32 = 5;
/// Longest part of a message that is read out, in characters.
const TOLD_CHARS_MAX: usize = 200;
/// What is understood.
const FORMS: &str = "`say TEXT`, `tell NAME TEXT`, `add NAME` or `what is new`";

/// A sentence that was understood.
#[derive(Debug, PartialEq, Eq)]
enum Sentence<'t> {
    Say(&'t str),
    Tell(&'t str, &'t str),
    Add(&'t str),
    New,
}

/// Does what a person has said, in a channel of theirs: the one that they name, or the one of
/// theirs that was last active.
///
/// # Errors
/// `invalid`: `not_understood`; `not_found`: `no_channel`; those of what was said.
pub async fn voice(
    site: &Site,
    caller: &Caller,
    request: VoiceRequest,
    key: Option<idempotency::Key>,
) -> Result<VoiceAnswer> {
    caller.may_speak()?;
    let sentence = understand(&request.text).ok_or_else(not_understood)?;
    let channel = place(site, caller, request.channel.as_deref()).await?;
    let (slug, name) = (channel.slug.clone(), channel.name.clone());
    let spoken = match sentence {
        Sentence::New => news(site, caller, &channel).await?,
        Sentence::Add(who) => {
            let asked = newcomer(site, caller, who).await?;
            members::add(site, caller, &slug, asked).await?;
            format!("{who} is in {name} now.")
        }
        Sentence::Say(text) => {
            let post = PostRequest { body: text.to_owned(), ..PostRequest::default() };
            speak::post(site, caller, &slug, post, key).await?;
            format!("Sent to {name}.")
        }
        Sentence::Tell(who, text) => {
            let to = who.to_lowercase();
            let to = if to == "everyone" || to == "everybody" { "all".to_owned() } else { to };
            let body = format!("@{to} {text}");
            let post = PostRequest { body, to: Some(to), ..PostRequest::default() };
            speak::post(site, caller, &slug, post, key).await?;
            format!("{who} gets it in {name}.")
        }
    };
    Ok(VoiceAnswer { spoken, channel: slug })
}

fn not_understood() -> Error {
    Error::invalid("this is not understood")
        .code("not_understood")
        .of_input("text")
        .hint(format!("say {FORMS}"))
}

/// Reads a sentence. What recognizers of speech add, such as a full stop, is no part of a name.
fn understand(text: &str) -> Option<Sentence<'_>> {
    let is_end = |it: char| it.is_whitespace() || matches!(it, '.' | ',' | '!' | '?' | ':');
    let text = text.trim();
    let bare = text.trim_end_matches(is_end);
    if ["what is new", "what's new", "what’s new", "anything new"]
        .iter()
        .any(|it| bare.eq_ignore_ascii_case(it))
    {
        return Some(Sentence::New);
    }
    let (verb, rest) = text.split_once(char::is_whitespace)?;
    let rest = rest.trim_start_matches(is_end);
    match verb.trim_end_matches(is_end).to_ascii_lowercase().as_str() {
        "say" if !rest.is_empty() => Some(Sentence::Say(rest)),
        "tell" => {
            let (who, words) = rest.split_once(char::is_whitespace)?;
            let who = who.trim_end_matches(is_end).trim_start_matches('@');
            let words = words.trim_start_matches(is_end);
            (!who.is_empty() && !words.is_empty()).then_some(Sentence::Tell(who, words))
        }
        "add" => {
            let who = rest.trim_end_matches(is_end).trim_start_matches('@');
            (!who.is_empty()).then_some(Sentence::Add(who))
        }
        _ => None,
    }
}

async fn place(site: &Site, caller: &Caller, named: Option<&str>) -> Result<ChannelView> {
    if let Some(named) = named {
        return show::show(site, caller, named).await;
    }
    let mine = ChannelQuery { mine: Some(true), ..ChannelQuery::default() };
    let found = show::list(site, caller, mine).await?.items.into_iter().next();
    found.ok_or_else(|| channels::no_channel("of yours"))
}

/// Returns whom a name means: a persona, else a person.
async fn newcomer(site: &Site, caller: &Caller, name: &str) -> Result<MemberRequest> {
    let known = candidates::candidates(site, caller).await?;
    let persona = known.personas.iter().find(|it| it.name.eq_ignore_ascii_case(name));
    let is_meant =
        |it: &&(String, String)| it.0.eq_ignore_ascii_case(name) || it.1.eq_ignore_ascii_case(name);
    let person = known.people.iter().find(is_meant).map(|it| it.0.clone());
    Ok(match persona {
        Some(persona) => {
            MemberRequest { persona: Some(persona.name.clone()), ..MemberRequest::default() }
        }
        None => MemberRequest {
            person: Some(person.unwrap_or_else(|| name.to_owned())),
            ..MemberRequest::default()
        },
    })
}

/// Says what is new in a channel to somebody who listens: the last messages, the oldest first.
async fn news(site: &Site, caller: &Caller, channel: &ChannelView) -> Result<String> {
    let count = channel.unread.unread;
    if count == 0 {
        return Ok(format!("Nothing is new in {}.", channel.name));
    }
    let after = channel.last_sequence - count.min(i64::from(TOLD_MAX));
    let query =
        HistoryQuery { after: Some(after), limit: Some(TOLD_MAX), ..HistoryQuery::default() };
    let found = show::history(site, caller, &channel.slug, query).await?.items;
    let mut told = vec![match count {
        1 => format!("One new message in {}.", channel.name),
        _ => format!("{count} new messages in {}.", channel.name),
    }];
    for message in found {
        let text = message.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = truncate_chars(&text, TOLD_CHARS_MAX);
        told.push(format!("{}: {text}", message.author.name));
    }
    Ok(told.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_a_verb_and_what_belongs_to_it() {
        for (text, expected) in [
            ("say we ship on Monday.", Some(Sentence::Say("we ship on Monday."))),
            ("Say, hello", Some(Sentence::Say("hello"))),
            ("Tell Robbo: look at this", Some(Sentence::Tell("Robbo", "look at this"))),
            ("tell @paula, please review", Some(Sentence::Tell("paula", "please review"))),
            ("add Con.", Some(Sentence::Add("Con"))),
            ("What is new?", Some(Sentence::New)),
            ("what’s new", Some(Sentence::New)),
            ("say", None),
            ("say  ", None),
            ("tell robbo", None),
            ("add .", None),
            ("delete everything", None),
            ("", None),
        ] {
            assert_eq!(understand(text), expected, "{text}");
        }
    }
}
