//! Composition: builds the handles, starts the loops, and owns the order of the shutdown.
//!
//! Start: script, lock, engines, repository, database, recovery, listen. Stop: no more requests,
//! streams end, the queue takes no more, running jobs get their grace, rows are settled, the writer
//! is drained.

mod data;
mod greeting;
mod logs;
mod port;
mod readiness;
mod reloading;
mod services;
mod signals;
mod stderr;
mod tenancy;
mod without_server;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;
use tokio::net::UnixListener;
use tokio::sync::broadcast::Receiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::app::services::{Pulses, Services};
use crate::app::tenancy::{SOCKET, SocketMark, Tenancy};
use crate::base::{Clock, Context, Error, ErrorKind, Finding, Ids, Result, fault};
use crate::documents::Repo;
use crate::flows::automation::{handlers, schedules};
use crate::flows::check::Purpose;
use crate::flows::doctor::{Patient, Surroundings};
use crate::flows::repository::presence::Presence;
use crate::flows::site::{housekeeping, metrics::Meter};
use crate::flows::{self, Site, Works};
use crate::http::{
    self, Edge, GateConfig, Has, IsReady, JobToken, Listeners, ServeLimits, Traffic, bind_unix,
};
use crate::jobs::{self, Engines, Generation, Generations, Queue, Setup};
use crate::people::{self, LoginCodes, Person};
use crate::process::{self, Cgroups, Children};
use crate::script::{Config, Loaded, Wear};
use crate::store::{self, MIGRATIONS, Store, StoredEvent, Writer};

pub use logs::LogFormat;
pub use without_server::offline;

/// Options of a server besides the script.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// The format of the log.
    pub log: LogFormat,
    /// Number of daily backups to keep; 0 disables them.
    pub daily_backups: u32,
    /// Whether to print the operator's one-time link, which makes its reader an admin.
    pub prints_link: bool,
    /// Whether to reload the script when it is saved.
    pub watches: bool,
}

/// The default limit of descriptors.
const DESCRIPTORS_DEFAULT: u64 = 1_024;
/// Longest time for a shutdown beyond the grace of the jobs, in which they are settled.
const SHUTDOWN_SLACK: Duration = Duration::from_secs(5);

/// Serves a site until it is told to stop. `say` prints the greeting once it serves.
pub fn serve(script: &Utf8Path, options: ServeOptions, say: impl FnOnce(&str)) -> ExitCode {
    logs::start(options.log);
    process::live_long().unwrap_or_else(|cause| warn!("a limit may end the server: {cause}"));
    // Programs of engines are looked up once the data folder is open, in `build`.
    let loaded = match flows::check::check(script, &Wear::default(), "", Purpose::Start) {
        Ok(loaded) => loaded,
        Err(report) => {
            error!("cannot serve: the script has {}", report.summary());
            report.to_string().lines().for_each(|line| error!("{line}"));
            return ExitCode::FAILURE;
        }
    };
    let built = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(services::STACK_BYTES)
        .build();
    let Ok(runtime) = built.inspect_err(|cause| error!("no runtime: {cause}")) else {
        return ExitCode::FAILURE;
    };
    let served = runtime.block_on(run(loaded, options, say));
    runtime.shutdown_background(); // Tasks left on blocking threads no longer matter.
    match served {
        Ok(code) => code,
        Err(cause) => {
            error!(code = cause.code_str(), "cannot serve: {}", cause.chain());
            if let Some(hint) = cause.hint_str() {
                error!("hint: {hint}");
            }
            ExitCode::from(cause.kind().exit_code())
        }
    }
}

async fn run(loaded: Loaded, options: ServeOptions, say: impl FnOnce(&str)) -> Result<ExitCode> {
    fault::refuse_unless_testing()?;
    let stops = signals::listen()?;
    let config = Arc::clone(&loaded.config);
    let ground = ground(&loaded).await?;
    data::make_private(&config.site.data)?;
    let tenancy = Tenancy::take(&config.site.data).await?;
    process::become_subreaper(&ground.children)?;
    let (site, writer) = build(&loaded, ground)?;
    // The first generation ends with its last job, not with the server.
    drop(loaded);
    // Recovery writes, so its writer runs from here until the very end.
    let (writer_stop, writers) = (CancellationToken::new(), TaskTracker::new());
    let pulses = Pulses::default();
    let writing = pulses.beating("the writer of the database", writer.serve(writer_stop.clone()));
    let mut writer_done = writers.spawn(writing);
    let holds = (pulses, tenancy);
    let outcome = tokio::select! {
        outcome = serve_site(site, &config, options, (stops, &holds), say) => outcome,
        // Without its writer a server could only refuse; a new server can recover.
        ended = &mut writer_done => {
            error!("the writer of the database ended, and the server with it: {ended:?}");
            return Ok(ExitCode::from(services::EXIT_CODE));
        }
    };
    // Before the log is closed: a missing log next to this file would count as lost.
    data::remove_server_file(&config.site.data);
    writer_stop.cancel();
    if let Err(cause) = writer_done.await {
        error!("the writer ended badly: {cause}");
    }
    drop(holds);
    outcome
}

/// What a site needs, checked before anything is written.
struct Ground {
    env: Vec<(String, String)>,
    wb_agent: Utf8PathBuf,
    engines: Engines,
    children: Children,
    repo: Repo,
}

async fn ground(loaded: &Loaded) -> Result<Ground> {
    let config = &loaded.config;
    let env = flows::check::external::environment();
    let path = env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path.as_str());
    let wb_agent = resolve_wb_agent(config)?;
    let engines = Engines::resolve(config, path, &wb_agent)?;
    let children = Children::of_site(&config.site.data);
    let git = resolve_git(path, &config.folder)?;
    let repo = Repo::open(&config.site.root, git, &config.site.sources, children.clone()).await?;
    let repo = data::beside(repo, &config.site.data).await?;
    Ok(Ground { env, wb_agent, engines, children, repo })
}

fn cgroups(data: &Utf8Path) -> Cgroups {
    Cgroups::open(data).unwrap_or_else(|why| {
        info!("jobs get no cgroup, and are swept without: {why}");
        Cgroups::none()
    })
}

fn build(loaded: &Loaded, ground: Ground) -> Result<(Site, Writer)> {
    let config = &loaded.config;
    let Ground { env, wb_agent, engines, children, repo } = ground;
    let clock = Clock::system();
    let path = env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path.as_str());
    let script = reloading::script(loaded, path, &clock);
    let database = config.site.data.join("wiki.db");
    // Completes an interrupted restore.
    store::backup::put_in_place(&database)?;
    flows::site::servable::refuse_unservable(&config.site.data)?;
    let (store, writer) = Store::open(&database, MIGRATIONS, clock.clone())?;
    let ids = Ids::new(clock);
    let first = Generation::new(1, Arc::clone(config), loaded.vm.clone(), engines);
    let scripts = Generations::new(first);
    let works = Works {
        store: store.clone(),
        ids: ids.clone(),
        config: Arc::clone(config),
        scripts: scripts.clone(),
        held: None,
        repo,
        freshness: Default::default(),
        wb_agent: wb_agent.clone(),
        search: flows::search::Index::default(),
        chat: Default::default(),
        outbound: Default::default(),
        gateway: Default::default(),
    };
    let queue = Queue::new(Setup {
        store,
        ids,
        children,
        cgroups: cgroups(&config.site.data),
        generations: scripts,
        wb_agent,
        env,
        hooks: flows::requests::prepare::hooks(&works),
    });
    let warnings = script.facts().warnings;
    warnings.iter().for_each(|it| warn!("{it}"));
    Ok((Site { meter: Meter::new(&works), works, queue, warnings, script }, writer))
}

/// Recovers, listens, and serves until told to stop; the writer continues after it.
async fn serve_site(
    site: Site,
    config: &Config,
    options: ServeOptions,
    (mut stops, (pulses, tenancy)): (signals::Stops, &(Pulses, Tenancy)),
    say: impl FnOnce(&str),
) -> Result<ExitCode> {
    data::keep_script(config)?;
    let operator = keep_operator(&site).await?;
    // The file names the last run, and this one only once it listens. Otherwise, after an
    // interrupted start, a log that another program has merged would count as lost.
    data::remove_server_file(&config.site.data);
    let life = site.store.begin_life().await?;
    let counted = site.store.subscribe();
    let left = tokio::select! {
        left = flows::site::start::recover(&site) => left?,
        name = stops.stop() => {
            info!("{name}: stopped before anything was served");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let tcp = port::bind(config).await?;
    let address = tcp.local_addr().context(ErrorKind::Unavailable, || "no address".to_owned())?;
    let unix: UnixListener = bind_unix(&config.site.data, SOCKET)?;
    let stop = CancellationToken::new();
    let limits = ServeLimits::within(descriptors());
    let is_ready = readiness::of(&site, pulses, SocketMark::of(&config.site.data));
    let edge = edge(&site, address, (limits.tcp_connections_max, is_ready), stop.clone());
    let facts = json!({
        "socket": config.site.data.join(SOCKET), "address": address, "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"), "started_at": site.store.clock().now(),
        "root": config.site.root, "epoch": site.store.epoch(), "life": life,
    });
    data::write_server_file(&config.site.data, &facts)?;
    let greeted = options.prints_link.then_some(&operator);
    let greeting = greeting::greeting(&edge, &config.site.root, address, greeted)?;
    info!("serving {} at http://{address}", config.site.root);
    say(&greeting);
    let mut services = Services::new(pulses.clone(), stop.clone());
    services.spawn("the lock of the data folder", tenancy.clone().keep(stop.clone()));
    services.spawn("the server file", tenancy.clone().keep_named(facts, stop.clone()));
    start(&site, &services, (counted, edge.traffic.presence()), options);
    let runner = site.queue.clone().serve(left, flows::assistant::tasks(&site), stop.clone());
    services.spawn("the job runner", runner);
    let routes = http::site_routes(&edge, &site);
    let listeners = Listeners { tcp: Some(tcp), unix };
    let grace = config.limits.grace;
    services
        .spawn("the listener", http::serve(listeners, routes, edge, limits, stop.clone(), grace));
    let ended = reloading::until_stopped(&site, &mut services, &mut stops).await;
    let granted = crate::base::limit::format_duration(grace);
    match &ended {
        Ok(name) => info!("{name}: stopping, running jobs get {granted}"),
        Err(lost) => error!("{lost} unasked: the server stops, running jobs get {granted}"),
    }
    if !fault::is_off("shutdown") {
        stop.cancel();
    }
    let code = end(&site, &services.tracker, stops).await;
    site.queue.children().end_commands();
    match ended.err().or_else(|| services.lost_meanwhile()) {
        Some(lost) => {
            error!("ended with exit code {}, since {lost} unasked", services::EXIT_CODE);
            Ok(ExitCode::from(services::EXIT_CODE))
        }
        None => Ok(code),
    }
}

/// Starts the services that need only the site; jobs wait for the first look at the repository.
fn start(
    site: &Site,
    services: &Services,
    (counted, presence): (Receiver<Arc<StoredEvent>>, Presence),
    options: ServeOptions,
) {
    let (works, stop, backups) = (&site.works, &services.stop, options.daily_backups);
    if !fault::is_absent("noticing") {
        let told = vec![flows::repository::watch::placing(), flows::repository::watch::following()];
        let watching = flows::repository::watch::serve(works.clone(), presence, told, stop.clone());
        services.spawn("the watcher of the repository", watching);
    }
    if !fault::is_absent("indexing") {
        services.spawn("the search", flows::search::serve(works.clone(), stop.clone()));
    }
    let orphans = process::reap_orphans(site.queue.children(), stop.clone());
    services.spawn("the reaper of orphans", orphans);
    services.spawn("the relay of events", handlers::serve(site.clone(), stop.clone()));
    services.spawn("the schedules", schedules::serve(site.clone(), stop.clone()));
    let expiring = flows::approvals::expire::serve(works.clone(), stop.clone());
    services.spawn("the clock of approvals", expiring);
    services.spawn("the agents", flows::agents::serve(site.clone(), stop.clone()));
    services.spawn("the instances", flows::instances::serve(site.clone(), stop.clone()));
    services.spawn("the records", flows::assistant::serve_records(site.clone(), stop.clone()));
    services.spawn("the sweep of workspaces", flows::workspaces::serve(site.clone(), stop.clone()));
    services.spawn("the gateway", flows::assistant::serve(site.clone(), stop.clone()));
    let unfinished = flows::proposals::unfinished::serve(works.clone(), stop.clone());
    services.spawn("the finisher of approvals", unfinished);
    services.spawn("the guard", flows::jobs::tree_guard::serve(works.clone(), stop.clone()));
    services.spawn("the housekeeping", housekeeping::serve(works.clone(), stop.clone()));
    services.spawn("the metrics", site.meter.clone().serve(counted, stop.clone()));
    if options.watches {
        services.spawn("the watcher of the script", reloading::watch(site.clone(), stop.clone()));
    }
    if backups > 0 {
        let copying = flows::site::backup::serve(works.clone(), backups, stop.clone());
        services.spawn("the daily backup", copying);
    }
    services.tracker.spawn(site.store.clone().check(stop.clone()));
}

/// Raises the limit of descriptors as far as possible, and returns it.
fn descriptors() -> u64 {
    match process::raise_descriptors() {
        Ok(count) => count,
        Err(cause) => {
            warn!("the limit of descriptors could not be raised: {cause}");
            DESCRIPTORS_DEFAULT
        }
    }
}

/// Waits until everything has ended, for the grace of the jobs and a little more, or until a second
/// signal.
async fn end(site: &Site, tracker: &TaskTracker, mut stops: signals::Stops) -> ExitCode {
    tracker.close();
    let ended = async {
        tracker.wait().await;
        // An approval continues when its caller has left.
        site.repo.close().await;
    };
    tokio::select! {
        () = ended => {
            info!("stopped");
            ExitCode::SUCCESS
        }
        () = tokio::time::sleep(site.config.limits.grace + SHUTDOWN_SLACK) => {
            error!("stopped with {} tasks unfinished; the next start settles them", tracker.len());
            ExitCode::FAILURE
        }
        name = stops.stop() => {
            error!("{name} again: stopped at once; the next start settles what was running");
            ExitCode::FAILURE
        }
    }
}

async fn keep_operator(site: &Site) -> Result<Person> {
    let secret = people::keep_operator_token(&site.config.site.data)?;
    let ids = site.ids.clone();
    let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let user = user.filter(|it| !it.is_empty()).unwrap_or_else(|| "operator".to_owned());
    site.store
        .write(move |tx| {
            let person = people::ensure_operator(tx, &ids, &user)?;
            people::ensure_operator_token(tx, &ids, &person.id, &secret)?;
            Ok(person)
        })
        .await
}

fn edge(
    site: &Site,
    address: std::net::SocketAddr,
    (connections, is_ready): (usize, IsReady),
    stop: CancellationToken,
) -> Edge {
    let config = &site.config;
    let name = config.site.title().to_owned();
    let hosts = config.site.public_hosts.clone();
    let (store, data) = (site.store.clone(), config.site.data.clone());
    let (queue, works) = (site.queue.clone(), site.works.clone());
    let own_pid = i32::try_from(std::process::id()).unwrap_or(0);
    Edge {
        store: site.store.clone(),
        ids: site.ids.clone(),
        codes: LoginCodes::default(),
        gate: Arc::new(
            GateConfig::new(Some(address), hosts, name, &config.site.data)
                .with_connections(connections),
        ),
        identify_job: Arc::new(move |hash| {
            let store = store.clone();
            Box::pin(async move {
                let found = store.look(|c| jobs::token_owner(c, &hash))?;
                Ok(found.map(JobToken::from))
            })
        }),
        note_refusal: Arc::new(move |id, error| queue.note_refusal(id, error)),
        has_for: Arc::new(move |person| Has::of(&works.now(), person)),
        // All processes of a job descend from this process: its guard is our child, and orphans are
        // reparented to the guard or to us, because both are subreapers.
        is_agent_peer: Arc::new(move |pid| {
            // A process that has ended may have left its connection to an agent.
            process::start_time(pid).is_none()
                || process::descends_from(pid, &[own_pid])
                || process::carries_mark(pid, process::MARK)
                    .is_some_and(|it| is_own_job(&data, &it))
        }),
        is_ready,
        traffic: Traffic::default(),
        stop,
    }
}

/// Returns whether a mark is that of a job of this site. An operator inside an agent of another
/// site is still an operator here. A job has its folder before it has a process.
fn is_own_job(data: &Utf8Path, mark: &str) -> bool {
    mark.parse().is_ok_and(|id| jobs::job_dir(data, &id).is_dir())
}

/// Runs the doctor's checks for a site, or for a folder without one.
///
/// # Errors
/// `unavailable` without a runtime; what is wrong with the machine is in the findings.
pub fn doctor(patient: &Patient<'_>) -> Result<Vec<Finding>> {
    let wb_agent = match patient {
        Patient::Site(loaded) => resolve_wb_agent(&loaded.config),
        Patient::Folder(_) | Patient::Broken(..) => wb_agent_beside(),
    };
    let env = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    let names = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "IS_SANDBOX"];
    let path = std::env::var("PATH").unwrap_or_default();
    let around = Surroundings { wb_agent, path, env: names.into_iter().filter_map(env).collect() };
    Ok(small_runtime()?.block_on(flows::doctor::examine(patient, &around)))
}

fn small_runtime() -> Result<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.context(ErrorKind::Unavailable, || "no runtime".to_owned())
}

/// Renders the prompt of a kind, without starting anything or opening the database.
///
/// # Errors
/// What is wrong with the inputs or with the script's prompt function.
pub fn render(
    loaded: &Loaded,
    kind: &str,
    inputs: &BTreeMap<String, String>,
    source_of_topic: Option<&str>,
) -> Result<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let git = resolve_git(&path, &loaded.config.folder)?;
    let wb_agent = resolve_wb_agent(&loaded.config)?;
    let prompt =
        flows::requests::render::render(loaded, &wb_agent, git, kind, inputs, source_of_topic);
    small_runtime()?.block_on(prompt)
}

/// Returns the path of `wb-agent`: from the script, or next to this program.
///
/// # Errors
/// `unavailable` with code `wb_agent_missing`.
pub fn resolve_wb_agent(config: &Config) -> Result<Utf8PathBuf> {
    match &config.site.wb_agent {
        Some(path) => program_at(&config.folder.join(path)),
        None => wb_agent_beside(),
    }
}

fn wb_agent_beside() -> Result<Utf8PathBuf> {
    let own = std::env::current_exe()
        .context(ErrorKind::Unavailable, || "where is this program?".to_owned())?;
    let own = Utf8PathBuf::from_path_buf(own)
        .map_err(|_| Error::unavailable("this program's path is not UTF-8"))?;
    program_at(&own.with_file_name("wb-agent"))
}

fn program_at(path: &Utf8Path) -> Result<Utf8PathBuf> {
    match process::which(path.as_str(), "", Utf8Path::new("/")) {
        Some(found) => Ok(found),
        None => Err(Error::unavailable(format!("no program {path}"))
            .code("wb_agent_missing")
            .hint("build wb-agent next to wiki-browser, or set `wb_agent` in wb.site")),
    }
}

/// Returns git's absolute path.
///
/// # Errors
/// `unavailable` with code `git_missing`.
pub fn resolve_git(path: &str, folder: &Utf8Path) -> Result<Utf8PathBuf> {
    process::which("git", path, folder).ok_or_else(|| {
        Error::unavailable("git is not on the PATH").code("git_missing").hint("install git")
    })
}
