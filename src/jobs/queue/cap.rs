//! Daily caps: what may still be spent today, and which jobs must wait until tomorrow.
//!
//! **Invariant:** the cost of a running job is unknown until it is settled. So a cap never stops a
//! job that was started, and can only be exceeded by what is already running.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::base::limit::format_duration;
use crate::base::{Actor, Error, ErrorKind, Millis, Result, fault};
use crate::jobs::rows::usage;
use crate::jobs::{NewJob, Viewer};
use crate::script::{Config, Daily};

/// The caps of the current script.
#[derive(Clone, Debug, Default)]
pub struct DailyCaps {
    pub(in crate::jobs) site: Option<Daily>,
    pub(in crate::jobs) person: Option<Daily>,
    pub(in crate::jobs) kinds: BTreeMap<String, Daily>,
}

/// What a cap applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CapOf {
    /// All jobs: `limits.daily`.
    Site,
    /// The jobs that each person requests: `limits.daily_person`.
    Person(String),
    /// The jobs of a kind: `daily` of the kind.
    Kind(String),
}

impl CapOf {
    /// Returns the setting of the script.
    pub fn word(&self) -> &'static str {
        match self {
            CapOf::Site => "limits.daily",
            CapOf::Person(_) => "limits.daily_person",
            CapOf::Kind(_) => "kind.daily",
        }
    }
}

/// One measure of a cap, with today's usage.
#[derive(Clone, Debug, PartialEq)]
pub struct CapState {
    /// The cap.
    pub cap: CapOf,
    /// The kind, or the person whose jobs are counted.
    pub of: Option<String>,
    /// `cost_usd`, `tokens` or `time`.
    pub measure: &'static str,
    /// Today's usage: US dollars, tokens, or milliseconds.
    pub used: f64,
    /// The limit, in the same unit.
    pub limit: f64,
    /// Whether it is used up.
    pub is_spent: bool,
    /// When it resets: the next midnight in UTC.
    pub frees_at: Millis,
}

impl CapState {
    /// Returns a sentence about an exhausted cap for somebody who may not see what its person has
    /// spent, in private too; without a full stop.
    pub(in crate::jobs) fn sentence_for(&self, viewer: &Viewer) -> String {
        let is_own = |person: &str| {
            viewer.person().is_some_and(|own| Actor::Person(own.clone()).to_string() == *person)
        };
        match &self.cap {
            CapOf::Person(person) if !is_own(person) => {
                format!("{} is used up until {} UTC", self.name(), self.frees_at.minute())
            }
            _ => self.sentence(),
        }
    }

    fn name(&self) -> String {
        match &self.cap {
            CapOf::Site => "the daily cap of the site".to_owned(),
            CapOf::Person(_) => "the daily cap of the requester".to_owned(),
            CapOf::Kind(kind) => format!("the daily cap of kind \"{kind}\""),
        }
    }

    /// Returns a sentence about an exhausted cap, without a full stop.
    pub fn sentence(&self) -> String {
        let shown = |number: f64| match self.measure {
            "cost_usd" => format!("{number:.2} USD"),
            "tokens" => format!("{number:.0} tokens"),
            _ => {
                let seconds = std::time::Duration::from_secs((number / 1e3).max(0.0) as u64);
                format_duration(seconds)
            }
        };
        let (used, limit) = (shown(self.used), shown(self.limit));
        let (whose, until) = (self.name(), self.frees_at.minute());
        format!("{whose} is used up ({used} of {limit}) until {until} UTC")
    }
}

/// The caps exhausted at one moment.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Spent(Vec<CapState>);

impl DailyCaps {
    /// Returns the caps of a script.
    pub(in crate::jobs) fn of(config: &Config) -> DailyCaps {
        let kinds = config.kinds.values();
        DailyCaps {
            site: config.limits.daily.clone(),
            person: config.limits.daily_person.clone(),
            kinds: kinds.filter_map(|it| Some((it.name.clone(), it.daily.clone()?))).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.site.is_none() && self.person.is_none() && self.kinds.is_empty()
    }

    /// Returns every cap with today's usage. People without a job today are omitted, and spending
    /// on private jobs is only shown to its owner.
    pub(in crate::jobs) fn states(
        &self,
        connection: &Connection,
        viewer: &Viewer,
        now: Millis,
    ) -> Result<Vec<CapState>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let (mut all, mut kinds, mut persons) = (Sums::default(), BTreeMap::new(), BTreeMap::new());
        for row in usage::of_day(connection, now)? {
            all.add(&row);
            kinds.entry(row.kind.clone()).or_insert_with(Sums::default).add(&row);
            let is_own = viewer
                .person()
                .is_some_and(|own| row.person == Actor::Person(own.clone()).to_string());
            // Handlers, schedules and this program are nobody's to count.
            let is_person = matches!(row.person.parse(), Ok(Actor::Person(_)));
            if !is_person || row.is_private && !is_own && !viewer.all() {
                continue;
            }
            persons.entry(row.person.clone()).or_insert_with(Sums::default).add(&row);
        }
        let mut states = Vec::new();
        if let Some(daily) = &self.site {
            measure(&mut states, &CapOf::Site, None, daily, all, now);
        }
        for (kind, daily) in &self.kinds {
            let sums = kinds.get(kind).copied().unwrap_or_default();
            measure(&mut states, &CapOf::Kind(kind.clone()), Some(kind), daily, sums, now);
        }
        if let Some(daily) = &self.person {
            for (person, sums) in &persons {
                let cap = CapOf::Person(person.clone());
                measure(&mut states, &cap, Some(person), daily, *sums, now);
            }
        }
        Ok(states)
    }

    /// Returns the exhausted caps.
    pub(in crate::jobs) fn spent(&self, connection: &Connection, now: Millis) -> Result<Spent> {
        if fault::is_off("daily_cap") {
            return Ok(Spent::default());
        }
        let states = self.states(connection, &Viewer::Program, now)?;
        Ok(Spent(states.into_iter().filter(|it| it.is_spent).collect()))
    }

    /// Refuses a job that could not start today; a job for a later day is accepted.
    ///
    /// # Errors
    /// `busy` with code `daily_cap`, naming the cap, its usage, and when it resets.
    pub(in crate::jobs) fn admit(
        &self,
        connection: &Connection,
        new: &NewJob,
        now: Millis,
    ) -> Result<()> {
        let spent = self.spent(connection, now)?;
        let Some(state) = spent.of(&new.kind, &new.requested_by) else { return Ok(()) };
        if new.not_before.is_some_and(|at| at >= state.frees_at) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Busy, state.sentence()).code("daily_cap").hint(format!(
            "wait until {}, or raise the cap; `job create` and `job retry` take --not-before",
            state.frees_at.rfc3339()
        )))
    }
}

/// Returns until when a daily cap prevents jobs of a kind and actor from starting.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn capped_until(
    connection: &Connection,
    config: &Config,
    (kind, by): (&str, &Actor),
    now: Millis,
) -> Result<Option<Millis>> {
    let spent = DailyCaps::of(config).spent(connection, now)?;
    Ok(spent.of(kind, by).map(|it| it.frees_at))
}

impl Spent {
    /// Returns the cap that makes a job of this kind and person wait.
    pub(in crate::jobs) fn of(&self, kind: &str, person: &Actor) -> Option<&CapState> {
        let person = person.to_string();
        self.0.iter().find(|it| match &it.cap {
            CapOf::Site => true,
            CapOf::Kind(of) => of == kind,
            CapOf::Person(of) => *of == person,
        })
    }

    /// Returns whether no job may start.
    pub(in crate::jobs) fn is_all(&self) -> bool {
        self.0.iter().any(|it| it.cap == CapOf::Site)
    }

    /// Returns whether no job of a kind may start.
    pub(in crate::jobs) fn is_kind(&self, kind: &str) -> bool {
        self.0.iter().any(|it| matches!(&it.cap, CapOf::Kind(of) if of == kind))
    }

    /// Returns the actors whose jobs may not start.
    pub(in crate::jobs) fn persons(&self) -> Vec<&str> {
        let persons = self.0.iter().filter_map(|it| match &it.cap {
            CapOf::Person(of) => Some(of.as_str()),
            _ => None,
        });
        persons.collect()
    }

    /// Returns when the first of them resets.
    pub(in crate::jobs) fn frees_at(&self) -> Option<Millis> {
        self.0.iter().map(|it| it.frees_at).min()
    }
}

#[derive(Clone, Copy, Default)]
struct Sums {
    cost_micros: i64,
    tokens: i64,
    agent_ms: i64,
}

impl Sums {
    fn add(&mut self, row: &usage::SpentOfDay) {
        self.cost_micros = self.cost_micros.saturating_add(row.cost_micros);
        self.tokens = self.tokens.saturating_add(row.tokens);
        self.agent_ms = self.agent_ms.saturating_add(row.agent_ms);
    }
}

fn measure(
    states: &mut Vec<CapState>,
    cap: &CapOf,
    of: Option<&String>,
    daily: &Daily,
    sums: Sums,
    now: Millis,
) {
    let time_ms = daily.time.map(|it| it.as_millis() as f64);
    let measures = [
        ("cost_usd", daily.cost_usd, sums.cost_micros as f64 / 1e6),
        ("tokens", daily.tokens.map(|it| it as f64), sums.tokens as f64),
        ("time", time_ms, sums.agent_ms as f64),
    ];
    for (measure, limit, used) in measures {
        let Some(limit) = limit else { continue };
        states.push(CapState {
            cap: cap.clone(),
            of: of.cloned(),
            measure,
            used,
            limit,
            is_spent: used >= limit,
            frees_at: usage::next_day(now),
        });
    }
}
