//! Search in the caller's own conversations.

use rusqlite::Connection;

use crate::api::chat::{FoundMessage, FoundPiece, SessionPage, SessionView};
use crate::base::{PersonId, Result};
use crate::chat::{self, FoundChat, Message, Role};
use crate::documents::search::{Ask, Piece, marked, snippet, state};
use crate::flows::Site;
use crate::flows::assistant::show;
use crate::flows::search::{place, within};

/// Returns a person's conversations with a message that matches, best first, each once with its
/// best message.
///
/// # Errors
/// As `GET /api/search`.
pub(super) async fn sessions(
    site: &Site,
    person: PersonId,
    words: &str,
    (after, limit): (Option<&str>, u32),
) -> Result<SessionPage> {
    let ask = Ask::parse(words)?;
    let (skip, limit) = (place(after)?, limit as usize);
    within(site, move |c| {
        let is_building = state(c)?.is_stale || !chat::has_all_words(c)?;
        let (found, is_cut) = chat::search(c, &person, &ask)?;
        let rest = found.get(skip..).unwrap_or_default();
        let page = &rest[..rest.len().min(limit)];
        let items = page.iter().map(|it| view(c, (&person, &ask), it));
        let items: Vec<Option<SessionView>> = items.collect::<Result<_>>()?;
        let next = (rest.len() > limit).then(|| (skip + limit).to_string());
        Ok(SessionPage { items: items.into_iter().flatten().collect(), next, is_cut, is_building })
    })
    .await
}

/// Returns a conversation with its match; `None` if the message is gone.
fn view(
    c: &Connection,
    (person, ask): (&PersonId, &Ask),
    found: &FoundChat,
) -> Result<Option<SessionView>> {
    let session = chat::find_session(c, person, &found.session)?;
    let Some(message) = chat::message_of(c, person, found.seq)? else { return Ok(None) };
    let found = Some(found_in(&message, &session.title, ask));
    Ok(Some(SessionView { found, ..show::view(c, &session)? }))
}

fn found_in(message: &Message, title: &str, ask: &Ask) -> FoundMessage {
    // A question is shown as it was typed, an answer as Markdown.
    let is_markdown = message.role == Role::Assistant;
    FoundMessage {
        message_id: message.id.clone(),
        run_id: message.run_id.clone(),
        at: message.created_at,
        title: pieces(marked(title, ask)),
        snippet: pieces(snippet(&message.body, is_markdown, ask).pieces),
    }
}

fn pieces(pieces: Vec<Piece>) -> Vec<FoundPiece> {
    pieces.into_iter().map(|it| FoundPiece { text: it.text, hit: it.hit }).collect()
}
