//! The number of event streams by person, the text of the newest event, and the adapter to warp.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::BoxStream;

use crate::base::limit::{CREDENTIAL_STREAMS_MAX, JOB_STREAMS_MAX};
use crate::base::{Error, Result, digest_hex, fault};
use crate::http::access::who::Credential;
use crate::people::Caller;

/// The code of a stream for which there is no room.
pub(in crate::http) const TOO_MANY_STREAMS: &str = "too_many_streams";

/// A handle to all streams of a site; clones share it.
#[derive(Clone)]
pub(in crate::http) struct Streams(Arc<Shared>);

struct Shared {
    most: usize,
    places: Mutex<Places>,
    newest: Mutex<Option<(i64, Bytes)>>,
}

#[derive(Default)]
struct Places {
    total: usize,
    by_owner: HashMap<String, usize>,
}

/// The place of one stream; returned when dropped.
pub(in crate::http) struct Place {
    streams: Streams,
    owner: String,
}

impl Streams {
    /// Returns a limit of so many streams.
    pub(in crate::http) fn new(most: usize) -> Streams {
        let (places, newest) = (Mutex::default(), Mutex::default());
        Streams(Arc::new(Shared { most, places, newest }))
    }

    /// Takes a place for a stream.
    ///
    /// # Errors
    /// `unavailable` with code `too_many_streams`.
    pub(in crate::http) fn admit(
        &self,
        caller: &Caller,
        credential: Option<&Credential>,
    ) -> Result<Place> {
        let (owner, most) = match (caller, credential) {
            (Caller::Job { id, .. }, _) => (format!("job:{id}"), JOB_STREAMS_MAX),
            (_, Some(Credential::Bearer(secret) | Credential::Cookie(secret))) => {
                (digest_hex(secret), CREDENTIAL_STREAMS_MAX)
            }
            (_, None) => (String::new(), CREDENTIAL_STREAMS_MAX),
        };
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        let own = places.by_owner.get(&owner).copied().unwrap_or(0);
        let is_off = fault::is_off("stream_limit");
        let all = self.0.most;
        if places.total >= all && !is_off {
            return Err(refusal(format!("{all} event streams are open already")));
        }
        if own >= most && !is_off {
            let whose = if matches!(caller, Caller::Job { .. }) { "job" } else { "credential" };
            return Err(refusal(format!("this {whose} has {most} event streams open already")));
        }
        places.total += 1;
        places.by_owner.insert(owner.clone(), own + 1);
        drop(places);
        Ok(Place { streams: self.clone(), owner })
    }

    /// Returns the text of a new event, rendered once for all streams.
    pub(in crate::http) fn text_of(&self, number: i64, write: impl FnOnce() -> String) -> Bytes {
        let mut newest = self.0.newest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*newest {
            Some((it, text)) if *it == number => text.clone(),
            _ => {
                let text = Bytes::from(write());
                *newest = Some((number, text.clone()));
                text
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.streams.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.total = places.total.saturating_sub(1);
        match places.by_owner.get_mut(&self.owner) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                places.by_owner.remove(&self.owner);
            }
        }
    }
}

fn refusal(message: String) -> Error {
    Error::unavailable(message).code(TOO_MANY_STREAMS).hint("close some of them, then try again")
}

/// A stream that is `Sync` because nobody can reach it through a shared reference: warp demands it.
pub(in crate::http) struct Exclusive(Mutex<BoxStream<'static, Result<Bytes>>>);

impl Exclusive {
    pub(in crate::http) fn new(stream: BoxStream<'static, Result<Bytes>>) -> Exclusive {
        Exclusive(Mutex::new(stream))
    }
}

impl Stream for Exclusive {
    type Item = Result<Bytes>;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let inner = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.as_mut().poll_next(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limit::STREAMS_MAX;

    fn job(number: usize) -> Caller {
        let id = format!("018bcfe5-6800-7000-8000-{number:012}").parse().unwrap();
        Caller::Job { id, token_hash: String::new() }
    }

    /// Fails with `WB_WITHOUT=stream_limit`.
    #[test]
    fn a_place_is_given_back() {
        let streams = Streams::new(STREAMS_MAX);
        let mut of_one: Vec<Place> =
            (0..JOB_STREAMS_MAX).map(|_| streams.admit(&job(1), None).unwrap()).collect();
        let refused = streams.admit(&job(1), None).err().unwrap();
        assert_eq!(refused.code_str(), "too_many_streams");
        assert!(refused.message().contains(&JOB_STREAMS_MAX.to_string()), "{refused}");
        of_one.pop();
        of_one.push(streams.admit(&job(1), None).unwrap());
        let left = STREAMS_MAX - JOB_STREAMS_MAX;
        let others: Vec<Place> =
            (0..left).map(|it| streams.admit(&job(2 + it), None).unwrap()).collect();
        let refused = streams.admit(&job(9_999), None).err().unwrap();
        assert!(refused.message().contains(&STREAMS_MAX.to_string()), "{refused}");
        drop((of_one, others));
        assert!(streams.0.places.lock().unwrap().by_owner.is_empty());
        assert!(streams.admit(&job(9_999), None).is_ok());
    }
}
