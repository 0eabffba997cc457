//! Exports Topics as W3C Web Annotations: a view for other programs, never the stored form.
//!
//! As required by the standard, positions count Unicode characters (code points) of the text, not
//! bytes as everywhere else. A byte order mark and `\r` count like any other character.

use std::ops::Range;

use serde_json::{Value, json};

use crate::api::topics::{Message, Topic, TopicStatus};
use crate::base::{Actor, BlobId, Result};
use crate::documents::anchor::Portrait;

/// The vocabulary, extended by the version and the confidence of a position.
fn context() -> Value {
    json!(["http://www.w3.org/ns/anno.jsonld", {"wb": "urn:wiki-browser:"}])
}

/// A text with annotations.
#[derive(Debug)]
pub struct Page<'t> {
    text: &'t str,
    blob: &'t BlobId,
    portrait: Portrait<'t>,
}

impl<'t> Page<'t> {
    /// Prepares a text of a version.
    pub fn of(text: &'t str, blob: &'t BlobId) -> Page<'t> {
        Page { text, blob, portrait: Portrait::of(text, blob) }
    }

    /// Returns a Topic as an annotation on this text. Its placement must be the one in this text.
    /// If its place is uncertain, it gets its last words as quote and no position.
    ///
    /// # Errors
    /// `internal` if the placement is not one in this text.
    pub fn annotation(&self, topic: &Topic, messages: &[Message]) -> Result<Value> {
        let bodies: Vec<Value> = messages.iter().map(body).collect();
        let mut annotation = json!({
            "@context": context(),
            "id": format!("urn:uuid:{}", topic.id),
            "type": "Annotation",
            "motivation": "commenting",
            "created": topic.created_at,
            "creator": agent(&topic.created_by, topic.created_by_name.as_deref()),
            "body": bodies,
            "target": self.target(topic)?,
            "wb:title": topic.title,
            "wb:status": topic.status,
        });
        if topic.status != TopicStatus::Open {
            annotation["modified"] = json!(topic.closed_at);
        }
        Ok(annotation)
    }

    fn target(&self, topic: &Topic) -> Result<Value> {
        let mut target = json!({
            "type": "SpecificResource",
            "source": iri(topic.source_path.as_str()),
            "wb:blob": self.blob,
        });
        let Some(anchor) = &topic.anchor else { return Ok(target) };
        let place = topic.placement.as_ref().filter(|it| it.blob == *self.blob);
        target["wb:state"] = json!(place.map(|it| it.state));
        let selectors = match place.and_then(|it| it.range()) {
            Some(range) => {
                let found = self.portrait.anchor(range.clone())?;
                vec![quote(&found.quote, &found.prefix, &found.suffix), self.position(&range)]
            }
            None => vec![quote(&anchor.quote, &anchor.prefix, &anchor.suffix)],
        };
        target["selector"] = Value::Array(selectors);
        Ok(target)
    }

    fn position(&self, range: &Range<usize>) -> Value {
        let start = self.text[..range.start].chars().count();
        let end = start + self.text[range.clone()].chars().count();
        json!({"type": "TextPositionSelector", "start": start, "end": end})
    }
}

/// Returns annotations as the only page of a collection.
pub fn page(id: &str, items: &[Value]) -> Value {
    json!({"@context": context(), "id": id, "type": "AnnotationPage", "items": items})
}

fn quote(exact: &str, prefix: &str, suffix: &str) -> Value {
    json!({"type": "TextQuoteSelector", "exact": exact, "prefix": prefix, "suffix": suffix})
}

fn body(message: &Message) -> Value {
    let creator = agent(&message.author, message.author_name.as_deref());
    json!({
        "type": "TextualBody", "format": "text/markdown", "value": message.body,
        "created": message.created_at, "creator": creator,
    })
}

/// Returns the author of something: a person, or a program.
fn agent(actor: &Actor, name: Option<&str>) -> Value {
    let kind = if matches!(actor, Actor::Person(_)) { "Person" } else { "Software" };
    json!({"id": format!("urn:wiki-browser:{actor}"), "type": kind, "name": name})
}

/// Returns a path as a relative reference, with reserved IRI characters escaped.
fn iri(path: &str) -> String {
    use std::fmt::Write as _;
    let mut iri = String::with_capacity(path.len());
    for part in path.chars() {
        match part {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' | '~' | '/' => iri.push(part),
            // Letters of other scripts are allowed in an IRI.
            _ if !part.is_ascii() && part.is_alphanumeric() => iri.push(part),
            _ => {
                let mut bytes = [0; 4];
                for byte in part.encode_utf8(&mut bytes).bytes() {
                    // Writing to a String cannot fail.
                    let _ = write!(iri, "%{byte:02X}");
                }
            }
        }
    }
    iri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::topics::{Placement, PlacementState};
    use crate::documents::anchor::Placed;
    use crate::documents::fixture::{Fixture, TEXT, blob};
    use crate::documents::topics::message;

    #[test]
    fn positions_count_characters_and_quotes_have_their_surroundings() {
        let mut fixture = Fixture::new();
        let mut topic = fixture.topic("docs/a b#1.md", "rain stops");
        let text = format!("\u{feff}e\u{301} 日本 🦀\r\n{TEXT}");
        let start = text.find("rain stops").unwrap();
        let placed = Placed {
            state: PlacementState::Shifted,
            range: Some(start..start + 10),
            confidence: 1.0,
            method: "diff",
        };
        let here = blob('b');
        topic.placement = Some(Placement::new(&here, &placed, &Actor::System));
        let messages = message::list_of(&fixture.connection, &topic.id).unwrap();
        let page = Page::of(&text, &here);
        let made = page.annotation(&topic, &messages).unwrap();
        assert_eq!(made["@context"][0], "http://www.w3.org/ns/anno.jsonld");
        assert_eq!(made["type"], "Annotation");
        assert_eq!(made["body"][0]["value"], "About rain stops.\nPlease look.");
        assert_eq!(made["body"][0]["creator"]["type"], "Software");
        let target = &made["target"];
        assert_eq!(target["source"], "docs/a%20b%231.md");
        let [quote, position] = &target["selector"].as_array().unwrap()[..] else { panic!() };
        assert_eq!(
            (&quote["exact"], &quote["suffix"]),
            (&json!("rain stops"), &json!(" the work\n- the steel comes late\n"))
        );
        let of = |name: &str| usize::try_from(position[name].as_u64().unwrap()).unwrap();
        let chars: Vec<char> = text.chars().collect();
        let slice: String = chars[of("start")..of("end")].iter().collect();
        assert_eq!(slice, "rain stops");
        assert_eq!(of("start"), start - (3 - 1) - 1 - 4 - 3, "characters and not bytes");

        topic.placement = Some(Placement::new(&here, &Placed::orphaned(), &Actor::System));
        let made = page.annotation(&topic, &messages).unwrap();
        let selectors = made["target"]["selector"].as_array().unwrap();
        assert_eq!((selectors.len(), &selectors[0]["exact"]), (1, &json!("rain stops")));
        assert_eq!(made["target"]["wb:state"], "orphaned");
    }
}
