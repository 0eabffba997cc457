//! The site of one test: a real one in a temporary folder, with a fake agent, repository and clock.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::{Clock, Context, Error, ErrorKind, Ids, MailId, Millis, Result, SourcePath};
use crate::documents::{Repo, Selection};
use crate::flows::automation::{handlers, reload, schedules};
use crate::flows::lab::people as people_of_script;
use crate::flows::lab::wait::{Mark, Waits};
use crate::flows::requests::{options, prepare};
use crate::flows::site::metrics::Meter;
use crate::flows::{self, Site, Works, search};
use crate::jobs::{
    self, Engines, Generation, Generations, Job, JobFilter, Queue, Rehearsal, Setup, Status,
};
use crate::mail;
use crate::people::{self, Caller, TokenScope, Via};
use crate::process::{Cgroups, Children, Scratch, private_folder};
use crate::script::{self, Config, Loaded, Outside, Report, Said, Secret, Wear};
use crate::store::{MIGRATIONS, Store, StoredEvent, events};

/// The site's path in prompts: the same on every machine.
const ROOT: &str = "/wiki";
/// The path of `wb-agent` in prompts.
const WB_AGENT: &str = "/usr/local/bin/wb-agent";
/// How long a person takes to decide, commit or reload, in milliseconds.
const PERSON_TAKES_MS: i64 = 1_000;
/// Most events caused by one step of a test.
const EVENTS_MAX: u32 = 10_000;

/// The folder of an open site.
#[derive(Clone, Default)]
pub(in crate::flows) struct Place(Arc<Mutex<Option<Utf8PathBuf>>>);

impl Place {
    fn note(&self, folder: &Utf8Path) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder.to_owned());
    }

    /// Removes the folder, because a stuck thread will not do it.
    pub(in crate::flows) fn remove(&self) {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(folder) = noted {
            // If that fails, a small folder stays in the system's temporary folder.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// The settings of a test's site.
#[derive(Clone, Default)]
pub(in crate::flows) struct Wanted {
    /// The script.
    pub(in crate::flows) script: Utf8PathBuf,
    /// The budget for stuck threads, over all tests.
    pub(in crate::flows) wear: Wear,
    /// Receives log lines.
    pub(in crate::flows) said: Said,
    /// The parent of its folder.
    pub(in crate::flows) folder: Utf8PathBuf,
    /// Records its folder, for the case that its thread is abandoned.
    pub(in crate::flows) place: Place,
    now: Option<Millis>,
    sources: Option<BTreeMap<String, String>>,
    env: BTreeMap<String, String>,
    secrets: BTreeMap<String, Option<String>>,
}

impl Wanted {
    /// Returns the default site of a script in a temporary folder.
    pub(in crate::flows) fn of(script: &Utf8Path, wear: &Wear, scratch: &Scratch) -> Wanted {
        let folder = scratch.path().to_owned();
        Wanted { script: script.to_owned(), wear: wear.clone(), folder, ..Wanted::default() }
    }

    /// Applies the fields of `t.site`.
    ///
    /// # Errors
    /// `invalid` for a time that is none.
    pub(super) fn read(&mut self, fields: &Value) -> Result<()> {
        let texts = |name: &str| -> BTreeMap<String, Option<String>> {
            let fields = fields[name].as_object().into_iter().flatten();
            fields.map(|(name, it)| (name.clone(), it.as_str().map(str::to_owned))).collect()
        };
        let plain = |name: &str| -> BTreeMap<String, String> {
            texts(name).into_iter().filter_map(|(name, it)| Some((name, it?))).collect()
        };
        self.now = fields["now"].as_str().map(options::parse_time).transpose()?;
        self.sources = fields.get("sources").map(|_| plain("sources"));
        self.env = plain("env");
        self.secrets = texts("secrets");
        Ok(())
    }

    /// Applies the fields of `t.reload`.
    pub(super) fn read_again(&mut self, fields: &Value) {
        let before = self.clone();
        // It has neither a time nor a source, so reading it cannot fail.
        let _ = self.read(fields);
        (self.now, self.sources) = (before.now, before.sources);
        if fields.get("env").is_none() {
            self.env = before.env;
        }
        if fields.get("secrets").is_none() {
            self.secrets = before.secrets;
        }
    }

    /// Loads the script, with some of its files replaced.
    pub(super) fn load(
        &self,
        files: BTreeMap<Utf8PathBuf, String>,
    ) -> std::result::Result<Loaded, Report> {
        let outside = Outside::feigned(self.env.clone(), self.said.clone());
        script::load_for_test(&self.script, files, outside, &self.wear)
    }

    /// Returns the script for a test's site, and its engines.
    pub(super) fn ready(
        &self,
        loaded: Loaded,
        data: Utf8PathBuf,
        clock: &Clock,
    ) -> (Loaded, Engines) {
        let mut config = (*loaded.config).clone();
        config.site.root = ROOT.into();
        config.site.data = data;
        let engines = Engines::played(&config, |it| self.secret(it));
        let vm = loaded.vm.with_clock(clock.clone());
        (Loaded { config: Arc::new(config), vm, ..loaded }, engines)
    }

    /// Returns the value of a secret in this test; `None` for a missing one.
    fn secret(&self, secret: &Secret) -> Option<String> {
        let name = secret.name();
        match self.secrets.get(&name) {
            Some(value) => value.clone(),
            None => Some(format!("the value of {name}")),
        }
    }
}

/// An open site.
pub(super) struct Ground {
    pub(super) site: Site,
    pub(super) clock: Clock,
    /// The person who acts in the test.
    pub(super) caller: Caller,
    pub(super) said: Said,
    /// Its settings.
    pub(super) wanted: Wanted,
    /// Jobs and turns that wait for their fake agents, the last one started at the end.
    pub(super) plays: Vec<Waits>,
    /// Long-running agents that run, by name.
    pub(super) agents: BTreeMap<String, Rehearsal>,
    /// The last event that handlers were called for, or that was skipped.
    told: Cell<i64>,
    stop: CancellationToken,
    writing: JoinHandle<()>,
    folder: Folder,
}

/// A temporary folder.
struct Folder(Utf8PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // If that fails, a small folder stays in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Ground {
    /// Opens a site.
    ///
    /// # Errors
    /// What is wrong with the script; if the temporary folder cannot be written.
    pub(super) async fn open(wanted: Wanted) -> Result<Ground> {
        let loaded = wanted.load(BTreeMap::new()).map_err(|report| {
            let first = report.errors.first().map_or_else(String::new, |it| it.headline());
            Error::invalid(format!("the script is invalid: {first}")).hint("wiki-browser check")
        })?;
        let folder = Folder(private_folder(&wanted.folder, "site-")?);
        wanted.place.note(&folder.0);
        let clock = Clock::fixed(wanted.now.unwrap_or(script::lab::START));
        let repo = repository(&folder.0, &loaded.config, &wanted)?;
        let (site, writer) = build(&wanted, loaded, (&folder.0, repo), &clock)?;
        let stop = CancellationToken::new();
        let writing = TaskTracker::new().spawn(writer.serve(stop.clone()));
        let ids = site.ids.clone();
        let person =
            site.store.write(move |tx| people::ensure_operator(tx, &ids, "tester")).await?;
        let scopes = TokenScope::ALL.to_vec();
        let caller = Caller::Person { person, via: Via::Operator, scopes };
        let (said, told) = (wanted.said.clone(), Cell::new(0));
        let (plays, agents) = (Vec::new(), BTreeMap::new());
        let ground = Ground {
            site,
            clock,
            caller,
            said,
            wanted,
            plays,
            agents,
            told,
            stop,
            writing,
            folder,
        };
        people_of_script::add_named(&ground.site).await?;
        let config = ground.site.config.clone();
        ground.site.store.write(move |tx| flows::agents::keep(tx, &config)).await?;
        schedules::serve_due(&ground.site).await?;
        ground.pass_over().await?;
        Ok(ground)
    }

    /// Closes the site and removes its folder.
    pub(super) async fn close(self) {
        self.stop.cancel();
        if let Err(cause) = self.writing.await {
            tracing::warn!("the writer of a test ended badly: {cause}");
        }
        drop(self.folder);
    }

    /// Returns the last event.
    async fn newest(&self) -> Result<i64> {
        self.site.store.read(|c| Ok(events::edges(c)?.1)).await
    }

    /// Skips all events so far.
    pub(super) async fn pass_over(&self) -> Result<()> {
        self.told.set(self.newest().await?);
        Ok(())
    }

    /// Advances the clock by the time that a person needs.
    pub(super) fn take_a_moment(&self) {
        self.clock.advance(PERSON_TAKES_MS);
    }

    /// Does something without calling handlers.
    pub(super) async fn silent<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let done = work.await?;
        self.pass_over().await?;
        Ok(done)
    }

    /// Returns the mark from which effects are reported.
    pub(super) fn mark(&self) -> Mark {
        Mark { event: self.told.get(), said: self.said.count() }
    }

    /// Calls the handlers for all unhandled events, and their consequences.
    pub(super) async fn tell(&self) -> Result<()> {
        self.told.set(handlers::catch_up(&self.site, self.told.get()).await?);
        Ok(())
    }

    /// Calls the handlers for the last event only.
    pub(super) async fn back_to_last(&self) -> Result<()> {
        self.told.set(self.newest().await?.saturating_sub(1));
        Ok(())
    }

    /// Refuses a time at which a running job would already have been ended by its clock.
    pub(super) fn refuse_beyond(&self, to: Millis) -> Result<()> {
        let mut running = self.plays.iter().filter_map(Waits::job);
        match running.find(|it| it.ends_at().is_some_and(|at| at < to)) {
            None => Ok(()),
            Some(play) => {
                let message = format!(
                    "the job of kind \"{}\" that runs meanwhile would be over by then: it may not \
                     run longer",
                    play.kind()
                );
                Err(Error::conflict("beyond_job", message).hint(
                    "let less time pass inside of its agent; { timeout = \"wall\" } is an agent \
                     that does not end",
                ))
            }
        }
    }

    /// Moves the clock; due work in between runs at its own time.
    pub(super) async fn pass_time(&self, to: Millis) -> Result<()> {
        self.refuse_beyond(to)?;
        loop {
            let due = schedules::serve_due(&self.site).await?;
            self.tell().await?;
            let now = self.clock.now();
            match due.filter(|it| *it <= to) {
                Some(due) if due > now => self.clock.advance(due.0 - now.0),
                Some(_) => {}
                None => {
                    self.clock.advance((to.0 - now.0).max(0));
                    return Ok(());
                }
            }
        }
    }

    /// Returns what the script did since a mark.
    pub(super) async fn effects(&self, since: &Mark) -> Result<Value> {
        let from = since.event;
        let happened = self.site.store.read(move |c| events::after(c, from, EVENTS_MAX)).await?;
        let is_wanted = |it: &&StoredEvent| {
            it.kind == crate::base::EventKind::JobQueued && is_of_script(&it.actor)
        };
        let mut accepted = Vec::new();
        for event in happened.iter().filter(is_wanted) {
            let id = event.data["id"].as_str().unwrap_or_default().parse()?;
            accepted.push(
                self.site.store.read(move |c| jobs::find(c, &jobs::Viewer::Program, &id)).await?,
            );
        }
        let messages = self.messages_of_script(&happened).await?;
        let failures: Vec<&Value> = happened
            .iter()
            .filter(|it| it.kind == crate::base::EventKind::ScriptFailed)
            .map(|it| &it.data["message"])
            .collect();
        let events: Vec<Value> = happened.iter().map(event_json).collect();
        let log: Vec<Value> = self
            .said
            .after(since.said)
            .iter()
            .map(|it| json!({"level": it.level, "text": it.text, "at": line_of(&it.at)}))
            .collect();
        Ok(json!({
            "jobs": accepted, "messages": messages, "failures": failures, "log": log,
            "events": events,
        }))
    }

    /// Returns the messages that the script sent, as it gave them.
    async fn messages_of_script(&self, happened: &[StoredEvent]) -> Result<Vec<Value>> {
        let sent = happened.iter().filter(|it| it.kind == crate::base::EventKind::MessageSent);
        let sent = sent.filter(|it| is_of_script(&it.actor));
        let ids = sent.map(|it| it.data["message_id"].as_str().unwrap_or_default().parse());
        let ids = ids.collect::<Result<Vec<MailId>>>()?;
        let read = move |c: &rusqlite::Connection| {
            ids.iter().map(|id| mail::find(c, id)).collect::<Result<Vec<_>>>()
        };
        let found = self.site.store.read(read).await?.into_iter();
        Ok(found
            .map(|it| {
                json!({
                    "id": it.id, "to": it.to, "payload": it.payload, "reply_to": it.reply_to,
                    "in_reply_to": it.in_reply_to, "category": it.category,
                })
            })
            .collect())
    }

    /// Returns the waiting jobs, oldest first.
    pub(super) async fn waiting(&self) -> Result<Value> {
        let mut found = self.queued().await?;
        found.reverse();
        Ok(json!(found))
    }

    /// Returns the waiting jobs, newest first.
    pub(super) async fn queued(&self) -> Result<Vec<Job>> {
        let filter = JobFilter {
            status: Some(Status::Queued),
            now: self.clock.now(),
            limit: EVENTS_MAX,
            ..JobFilter::default()
        };
        self.site.store.read(move |c| jobs::list(c, &jobs::Viewer::Program, &filter)).await
    }

    /// Returns the selection of some words; a made-up text gets them.
    pub(super) async fn selection(&self, path: &SourcePath, quote: &str) -> Result<Selection> {
        let repo = &self.site.repo;
        let (_, text) = repo.present(path).await?;
        if !text.contains(quote) && !repo.is_put(path) {
            repo.put_text(path, &format!("{text}\n{quote}\n"))?;
        }
        let (prefix, suffix) = (String::new(), String::new());
        Ok(Selection::Words { blob: None, quote: quote.to_owned(), prefix, suffix })
    }
}

/// Returns an event as handlers get it, without its job.
fn event_json(it: &StoredEvent) -> Value {
    json!({
        "id": it.id, "at": it.at, "kind": it.kind, "subject": it.subject, "actor": it.actor,
        "data": it.data,
    })
}

fn line_of(at: &script::Location) -> String {
    format!("{}:{}", at.file, at.line)
}

fn repository(folder: &Utf8Path, config: &Config, wanted: &Wanted) -> Result<Repo> {
    let papers = folder.join("papers");
    std::fs::create_dir(&papers)
        .context(ErrorKind::Unavailable, || format!("cannot make {papers}"))?;
    let repo = Repo::of_texts(&papers, &config.site.sources)?;
    match &wanted.sources {
        None => repo.make_up(),
        Some(sources) => {
            for (path, text) in sources {
                repo.put_text(&path.parse()?, text)?;
            }
        }
    }
    Ok(repo)
}

fn build(
    wanted: &Wanted,
    loaded: Loaded,
    (folder, repo): (&Utf8Path, Repo),
    clock: &Clock,
) -> Result<(Site, crate::store::Writer)> {
    let data = folder.join("data");
    std::fs::create_dir(&data).context(ErrorKind::Unavailable, || format!("cannot make {data}"))?;
    let (store, writer) =
        Store::open_for_a_moment(&data.join("wiki.db"), MIGRATIONS, clock.clone())?;
    let (loaded, engines) = wanted.ready(loaded, data, clock);
    let config = Arc::clone(&loaded.config);
    let keep: reload::Keep = Arc::new(|_| Ok(()));
    let warn: reload::Warn = Arc::new(|_| Vec::new());
    let script = reload::Script::new(String::new(), keep, warn, (&loaded, clock.now()));
    let first = Generation::new(1, Arc::clone(&config), loaded.vm, engines);
    let scripts = Generations::new(first);
    let (ids, wb_agent) = (Ids::numbered(), Utf8PathBuf::from(WB_AGENT));
    let works = Works {
        store: store.clone(),
        ids: ids.clone(),
        config,
        scripts: scripts.clone(),
        held: None,
        repo,
        freshness: Default::default(),
        wb_agent: wb_agent.clone(),
        search: search::Index::default(),
        chat: Default::default(),
        outbound: Default::default(),
        gateway: Default::default(),
    };
    let queue = Queue::new(Setup {
        store,
        ids,
        children: Children::new(),
        cgroups: Cgroups::none(),
        generations: scripts,
        wb_agent,
        env: Vec::new(),
        hooks: prepare::hooks(&works),
    });
    let (meter, warnings) = (Meter::new(&works), Arc::new(Vec::new()));
    Ok((Site { works, queue, meter, warnings, script }, writer))
}

/// Returns whether something was done by the script.
fn is_of_script(actor: &str) -> bool {
    actor == "script" || actor.starts_with("schedule:") || actor.starts_with("webhook:")
}
