//! Counts of requests, and `/metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::histogram::{Histogram, QUICK_US};
use crate::flows::Site;
use crate::flows::repository::presence::{Presence, Present};
use crate::flows::site::metrics::Exposition;
use crate::http::access::table::{Route, Verb};
use crate::http::{Edge, get, reply};

/// Most error codes that are counted separately.
const CODES_MAX: usize = 128;
/// The label for all further codes.
const OTHER: &str = "other";

/// The class of a request, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::http) enum Class {
    /// Reads the API.
    ApiRead,
    /// Changes something by the API.
    ApiWrite,
    /// A page.
    Page,
    /// A form of a page.
    Form,
    /// The event stream; its time is that of its start.
    Events,
    /// Assets of pages.
    Asset,
    /// Health, login and metrics.
    Service,
    /// Refused before its route was known.
    Unknown,
}

impl Class {
    const ALL: [Class; 8] = [
        Class::ApiRead,
        Class::ApiWrite,
        Class::Page,
        Class::Form,
        Class::Events,
        Class::Asset,
        Class::Service,
        Class::Unknown,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Class::ApiRead => "api_read",
            Class::ApiWrite => "api_write",
            Class::Page => "page",
            Class::Form => "form",
            Class::Events => "events",
            Class::Asset => "asset",
            Class::Service => "service",
            Class::Unknown => "unknown",
        }
    }

    /// Returns the class of a route.
    pub(in crate::http) fn of(route: &Route) -> Class {
        let is_read = route.verb == Verb::Get;
        match route.path {
            "/api/events" => Class::Events,
            "/healthz" | "/readyz" | "/metrics" | "/login/{code}" | "/api/login" => Class::Service,
            path if path.starts_with("/assets/") => Class::Asset,
            path if path.starts_with("/api/") && is_read => Class::ApiRead,
            path if path.starts_with("/api/") => Class::ApiWrite,
            _ if is_read => Class::Page,
            _ => Class::Form,
        }
    }
}

/// A handle to the counts of requests; clones share it.
#[derive(Clone, Default)]
pub struct Traffic(Arc<Counts>);

struct Counts {
    /// By class, and by the first digit of the status.
    requests: Vec<[AtomicU64; 6]>,
    times: Vec<Histogram>,
    refused: Mutex<BTreeMap<String, u64>>,
    turned_away: [AtomicU64; 3],
    presence: Presence,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            requests: Class::ALL.iter().map(|_| Default::default()).collect(),
            times: Class::ALL.iter().map(|_| Histogram::new(QUICK_US)).collect(),
            refused: Mutex::default(),
            turned_away: Default::default(),
            presence: Presence::default(),
        }
    }
}

/// The origin of connections.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) enum Door {
    /// Browsers.
    Tcp,
    /// The command line.
    Socket,
    /// Agents.
    Agents,
}

impl Traffic {
    /// Counts a response.
    pub(in crate::http) fn note(&self, class: Class, status: StatusCode, time: Duration) {
        self.0.presence.note();
        let (class, digit) = (class as usize, usize::from(status.as_u16() / 100));
        if let (Some(counts), Some(times)) = (self.0.requests.get(class), self.0.times.get(class)) {
            counts[digit.min(5)].fetch_add(1, Ordering::Relaxed);
            times.note_time(time);
        }
    }

    /// Counts a refusal by its code.
    pub(in crate::http) fn note_refusal(&self, code: &str) {
        let mut refused = self.0.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let is_word = code.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
        let has_room = refused.len() < CODES_MAX || refused.contains_key(code);
        let code = if is_word && has_room { code } else { OTHER };
        *refused.entry(code.to_owned()).or_default() += 1;
    }

    /// Counts a connection refused for lack of room.
    pub(in crate::http) fn note_turned_away(&self, door: Door) {
        self.0.turned_away[door as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a stream for as long as the returned value lives.
    pub(in crate::http) fn stream(&self) -> Present {
        self.0.presence.stream()
    }

    /// Returns whether anybody is connected.
    pub fn presence(&self) -> Presence {
        self.0.presence.clone()
    }

    fn write(&self, out: &mut Exposition) {
        out.counter("wb_http_requests_total", "Requests that were answered.");
        for (class, counts) in Class::ALL.iter().zip(&self.0.requests) {
            for (digit, count) in counts.iter().enumerate().skip(1) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let status = format!("{digit}xx");
                    let labels = [("class", class.as_str()), ("status", &*status)];
                    out.value(&labels, count as f64);
                }
            }
        }
        out.histogram("wb_http_request_duration_seconds", "From a request's head to its answer's.");
        for (class, times) in Class::ALL.iter().zip(&self.0.times) {
            let counted = times.counted();
            if counted.count() > 0 {
                out.times(&[("class", class.as_str())], &counted);
            }
        }
        out.counter("wb_http_refused_total", "Requests that were refused, by code.");
        let refused = self.0.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (code, count) in refused {
            out.value(&[("code", &code)], count as f64);
        }
        out.counter(
            "wb_http_turned_away_total",
            "Connections that were closed because there were too many.",
        );
        for (door, count) in ["tcp", "socket", "agents"].iter().zip(&self.0.turned_away) {
            out.value(&[("door", door)], count.load(Ordering::Relaxed) as f64);
        }
        out.gauge("wb_event_streams", "Open streams of events.");
        out.value(&[], self.0.presence.streams() as f64);
    }
}

pub(in crate::http) fn routes(edge: &Edge, site: &Site) -> BoxedFilter<(Response,)> {
    let state = (edge.traffic.clone(), site.meter.clone());
    get("/metrics", &state, async |(traffic, meter), _| {
        let mut out = Exposition::default();
        meter.write(&mut out).await;
        traffic.write(&mut out);
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        Ok(reply::typed(StatusCode::OK, kind, out.into_text().into_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::access::table::ROUTES;

    #[test]
    fn every_route_has_a_class_of_its_own_sort() {
        for route in ROUTES {
            let class = Class::of(route);
            assert_ne!(class, Class::Unknown, "{}", route.path);
            let is_write = matches!(class, Class::ApiWrite | Class::Form);
            assert!(!is_write || route.verb != Verb::Get, "{}", route.path);
        }
    }

    #[test]
    fn codes_that_are_no_words_are_counted_together() {
        let traffic = Traffic::default();
        for code in ["too_large", "too_large", "a b", "x\"} 1\nforged 9"] {
            traffic.note_refusal(code);
        }
        for n in 0..300_u32 {
            let code: String = n.to_string().bytes().map(|it| char::from(it + 49)).collect();
            traffic.note_refusal(&code);
        }
        let mut out = Exposition::default();
        traffic.write(&mut out);
        let text = out.into_text();
        assert!(text.contains("wb_http_refused_total{code=\"too_large\"} 2\n"), "{text}");
        let lines = text.lines().filter(|it| it.starts_with("wb_http_refused_total{"));
        assert_eq!(lines.count(), CODES_MAX, "{text}");
        assert!(!text.contains("forged"));
    }
}
