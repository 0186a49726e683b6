//! [`Server`]: starts the process of a server when a call needs it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared as Several};
use houston_domain::ensure;
use houston_domain::masks::Masks;
use houston_domain::mcp_server::pin;
use rmcp::model::{CallToolResponse, DetailedTask, InputResponses};
use tokio::time::{Instant, timeout, timeout_at};

use crate::connection::{Connection, Ended, InUse, Limits, Request, Way};
use crate::error::{CallError, StartError};
use crate::http::Http;
use crate::listed::Listed;
use crate::mended::{Open, mended, noted};
use crate::owner::{Leavable as _, Own};
use crate::pins::{Pin, Standing};
use crate::process::{Pipes, Process, Stderr};
use crate::settings::{McpLimits, ServerSettings};
use crate::surroundings::Shared;

/// One server of this process, with at most one process of its own at a time.
pub struct Server {
    name: String,
    settings: ServerSettings,
    limits: McpLimits,
    pins: BTreeMap<String, Pin>,
    shared: Arc<Shared>,
    /// What it needs besides if it is a tenant's or a user's.
    own: Option<Own>,
    slot: Mutex<Slot>,
    /// Failures since a call was answered.
    failures: AtomicU32,
    /// See [`Self::masks`].
    masks: OnceLock<Masks>,
}

/// What a server is doing.
#[derive(Default)]
struct Slot {
    stage: Stage,
    /// It has failed: nothing is started before this time.
    paused: Option<Instant>,
}

#[derive(Default)]
enum Stage {
    /// There is no process.
    #[default]
    Idle,
    Starting(Start),
    Ready(Arc<Connection>),
}

/// A start, in a task of its own: several callers wait for it, and none of them ends it by giving up.
type Start = Several<BoxFuture<'static, Result<Arc<Connection>, CallError>>>;

/// What a caller does next.
enum Next {
    Call(InUse),
    Wait(Start),
}

/// What a server answered when it was started for a look.
#[derive(Debug)]
pub struct Look {
    /// Its tools, or why it could not be started.
    pub tools: Result<Arc<[Listed]>, StartError>,
    /// The last lines that it printed to its standard error.
    pub printed: Vec<String>,
}

impl Server {
    pub(crate) fn new(
        name: &str,
        settings: ServerSettings,
        limits: McpLimits,
        pins: BTreeMap<String, Pin>,
        shared: Arc<Shared>,
    ) -> Self {
        let (name, slot, failures) = (name.to_owned(), Mutex::default(), AtomicU32::new(0));
        Self { name, settings, limits, pins, shared, own: None, slot, failures, masks: OnceLock::new() }
    }

    /// The same as a server of a tenant or a user.
    pub(crate) fn owned(self, own: Own) -> Self {
        Self { own: Some(own), ..self }
    }

    /// Whether nothing is lost when it is forgotten: it has no connection, and need not be left alone for a while.
    pub(crate) fn is_unused(&self) -> bool {
        let slot = self.slot();
        let is_open = match &slot.stage {
            Stage::Idle => false,
            Stage::Starting(start) => start.peek().is_none(),
            Stage::Ready(connection) => !connection.has_ended(),
        };
        !is_open && slot.paused.is_none_or(|until| until <= Instant::now())
    }

    /// What takes its secrets out of what it answers: headers and tokens, and the variables that it is given, as far as they are
    /// secrets and not a folder or a language.
    pub(crate) fn masks(&self) -> Masks {
        let fixed = self.masks.get_or_init(|| {
            let ServerSettings { env, bearer, headers, .. } = &self.settings;
            let variable = |name: &String| (self.shared.surroundings.variable)(name);
            let given = env.iter().filter_map(|name| Some((name, variable(name)?)));
            let mut secrets: Vec<String> =
                given.filter(|(name, value)| is_secret(name, value)).map(|(_, value)| value).collect();
            secrets.extend(bearer.iter().chain(headers.values()).filter_map(variable));
            let own = self.own.iter().flat_map(|own| own.headers.values());
            secrets.extend(own.filter_map(|value| value.to_str().ok()).map(str::to_owned));
            masks_of(&secrets)
        });
        let account = self.own.as_ref().and_then(|own| own.account.as_ref());
        match account.and_then(|account| account.held()) {
            Some(token) => fixed.clone().and(masks_of(&[token])),
            None => fixed.clone(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its settings.
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// The longest time of a call, including the start of the process.
    pub(crate) fn longest_call(&self) -> Duration {
        self.settings.call_limit(&self.limits) + Duration::from_secs(self.limits.start_s)
    }

    /// The longest time of an answer.
    pub(crate) fn call_limit(&self) -> Duration {
        self.settings.call_limit(&self.limits)
    }

    /// Calls a tool, once: within its limit, and that of the start if there is no process. Also returns whether the server
    /// asked a person in the middle of the call, which was declined.
    ///
    /// # Errors
    /// [`CallError`]. A result that the server calls an error is an `Ok`.
    pub(crate) async fn call(
        self: &Arc<Self>,
        request: Request,
    ) -> Result<(CallToolResponse, bool), CallError> {
        let limit = self.settings.call_limit(&self.limits);
        let last = Instant::now() + self.longest_call();
        // A server may leave between calls. Then nothing was sent, and it is started again, once.
        for may_restart in [true, false] {
            let connection = self.connected(last - limit).await?;
            let deadline = last.min(Instant::now() + limit);
            let result = self.call_approved(&connection, request.clone(), deadline).await;
            match result {
                Err(CallError::NotSent(error)) if may_restart && *error == CallError::Closed => {
                    // Without this call its end is one between calls.
                    let _ = timeout_at(deadline, connection.release().ended()).await;
                }
                result => return result,
            }
        }
        Err(CallError::NotSent(Box::new(CallError::Closed)))
    }

    async fn connected(self: &Arc<Self>, until: Instant) -> Result<InUse, CallError> {
        let seconds = self.limits.start_s;
        timeout_at(until, self.connect()).await.unwrap_or(Err(CallError::Starting(seconds)))
    }

    /// How far a task is that a call has begun.
    pub(crate) async fn task(self: &Arc<Self>, id: &str) -> Result<DetailedTask, CallError> {
        let connection = self.connected(Instant::now() + Duration::from_secs(self.limits.start_s)).await?;
        connection.task(id, Instant::now() + self.call_limit()).await
    }

    /// Gives a task the input that it needs.
    pub(crate) async fn update_task(
        self: &Arc<Self>,
        id: &str,
        responses: InputResponses,
    ) -> Result<(), CallError> {
        let connection = self.connected(Instant::now() + Duration::from_secs(self.limits.start_s)).await?;
        connection.update_task(id, responses, Instant::now() + self.call_limit()).await
    }

    /// Asks the server to end a task.
    pub(crate) async fn cancel_task(self: &Arc<Self>, id: &str) -> Result<(), CallError> {
        let connection = self.connected(Instant::now() + Duration::from_secs(self.limits.start_s)).await?;
        connection.cancel_task(id, Instant::now() + self.call_limit()).await
    }

    /// Runs `work` beside the calls: it ends with Houston.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.tracker.spawn(work);
    }

    /// Calls a tool whose definition is the approved one.
    async fn call_approved(
        &self,
        connection: &InUse,
        request: Request,
        deadline: Instant,
    ) -> Result<(CallToolResponse, bool), CallError> {
        let tools = connection.tools(deadline).await.map_err(|error| match error {
            // They say so themselves.
            CallError::List(_) | CallError::NotSent(_) => error,
            error => CallError::NotSent(Box::new(error)),
        })?;
        self.check(&tools, &request.tool)?;
        let result = connection.call(request, deadline).await;
        if matches!(result, Ok(_) | Err(CallError::Rpc { .. })) {
            self.failures.store(0, Ordering::Relaxed);
        }
        result
    }

    /// Whether the server lists a tool as it was approved.
    fn check(&self, listed: &[Listed], tool: &str) -> Result<(), CallError> {
        let mut meant = listed.iter().filter(|listed| listed.name == tool).peekable();
        meant.peek().ok_or(CallError::Gone)?;
        // All of them: of two tools with one name, the server may call the other.
        let is_approved = |listed: &Listed| pin::standing(listed, self.pins.get(tool)) == Standing::Approved;
        if meant.all(is_approved) {
            return Ok(());
        }
        let report = self.own.as_ref().and_then(|own| own.report(pin::changed_of(&self.pins, listed)));
        if let Some(report) = report {
            self.spawn(report);
        }
        Err(CallError::Changed)
    }

    /// Starts a process for a look at its tools, and stops it.
    pub async fn look(&self) -> Look {
        let stderr = Stderr::default();
        let tools = match self.start(&stderr).await {
            Ok(connection) => {
                let limit = self.settings.call_limit(&self.limits);
                let tools = connection.tools(Instant::now() + limit).await;
                tools.map_err(|error| StartError::List(error.to_string()))
            }
            Err(error) => Err(error),
        };
        Look { tools, printed: stderr.last_lines(10) }
    }

    /// The connection, ready for a call.
    async fn connect(self: &Arc<Self>) -> Result<InUse, CallError> {
        match self.next()? {
            Next::Call(in_use) => Ok(in_use),
            Next::Wait(start) => {
                start.await?.begin().map_err(|_| CallError::NotSent(Box::new(CallError::Closed)))
            }
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(self: &Arc<Self>) -> Result<Next, CallError> {
        let mut slot = self.slot();
        match &slot.stage {
            Stage::Ready(connection) => match connection.begin() {
                Ok(in_use) => return Ok(Next::Call(in_use)),
                Err(ended) => {
                    slot.stage = Stage::Idle;
                    if let Ended::Failed { reason, at } = ended {
                        self.failed(&mut slot, &reason, at, false);
                    }
                }
            },
            // One that is over is in the slot only if its task was ended.
            Stage::Starting(start) if start.peek().is_none() => return Ok(Next::Wait(start.clone())),
            Stage::Starting(_) | Stage::Idle => {}
        }
        let left =
            slot.paused.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        ensure!(left <= Duration::ZERO, CallError::Paused(left.as_secs() + 1));
        let server = Arc::clone(self);
        let task = self.shared.tracker.spawn(async move { server.started().await });
        let start = task.map(|ended| ended.unwrap_or(Err(CallError::Start))).boxed().shared();
        slot.stage = Stage::Starting(start.clone());
        Ok(Next::Wait(start))
    }

    /// Starts the process, and takes note of how that went.
    async fn started(self: Arc<Self>) -> Result<Arc<Connection>, CallError> {
        let stderr = Stderr::default();
        let result = self.shared.stop.run_until_cancelled(self.start(&stderr)).await;
        let mut slot = self.slot();
        match result {
            Some(Ok(connection)) => {
                *slot = Slot { stage: Stage::Ready(Arc::clone(&connection)), paused: None };
                Ok(connection)
            }
            Some(Err(error)) => {
                slot.stage = Stage::Idle;
                let printed = stderr.last_lines(3).join(" | ");
                let reason = format!("{error}; it printed: {printed}");
                // A login ends that: the next call may be the first after it.
                if !matches!(error, StartError::Login(_)) {
                    self.failed(&mut slot, &reason, Instant::now(), error.is_setting());
                }
                Err(self.not_started(&error))
            }
            None => {
                slot.stage = Stage::Idle;
                Err(CallError::Start)
            }
        }
    }

    /// A model reads no more about a server of the operator's; that of a tenant has no other place to say it.
    fn not_started(&self, error: &StartError) -> CallError {
        match &self.own {
            Some(own) => CallError::OwnStart(own.without_secrets(&error.to_string())),
            None => CallError::Start,
        }
    }

    /// A wrong setting is no reason for longer and longer pauses: it fails at once, and costs nothing.
    fn failed(&self, slot: &mut Slot, reason: &str, at: Instant, is_setting: bool) {
        let failures =
            if is_setting { 1 } else { self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1) };
        let Pause { wait, is_off } = pause(failures, rand::random());
        let server = &self.name;
        let seconds = wait.as_secs();
        slot.paused = Some(at + wait);
        if let Some(own) = &self.own {
            // Its tenant reads the reason; the words of a stranger's server are nothing for the operator's log.
            tracing::info!(tenant = %own.key.tenant, server, failures, seconds, "an MCP server of a tenant failed");
            return;
        }
        tracing::warn!(
            server,
            failures,
            seconds,
            is_off,
            reason,
            "an MCP server failed; it is not started again before"
        );
    }

    async fn start(&self, stderr: &Stderr) -> Result<Arc<Connection>, StartError> {
        // A start of an operator's server takes a process. The semaphore is never closed.
        let _permit = if self.own.is_none() { self.shared.starts.acquire().await.ok() } else { None };
        let limits = Limits {
            call: self.settings.call_limit(&self.limits),
            idle: Duration::from_secs(self.limits.idle_s),
            message_bytes: self.limits.answer_bytes,
        };
        let seconds = self.limits.start_s;
        let opened = self.open(stderr, limits);
        timeout(Duration::from_secs(seconds), opened).await.unwrap_or(Err(StartError::Timeout(seconds)))
    }

    async fn open(&self, stderr: &Stderr, limits: Limits) -> Result<Arc<Connection>, StartError> {
        let surroundings = &self.shared.surroundings;
        if let Some(url) = &self.settings.url {
            let tls = self.shared.tls().await?;
            let (place, http) = match &self.own {
                Some(own) => {
                    let place = own.rooms.enter(own.key.tenant).await?;
                    (Some(place), Http::owned(url, &self.settings, &self.limits, own, tls)?)
                }
                None => (None, Http::new(url, &self.settings, &self.limits, surroundings, tls)?),
            };
            let (transport, too_large) = http.transport(url);
            let is_modern = self.settings.is_modern();
            let way = Way { transport, is_modern, process: None, too_large, place };
            let connection = Connection::open(way, limits, &self.shared).await?;
            if let Some(own) = &self.own {
                own.rooms.opened(own.key.tenant, Arc::<Connection>::clone(&connection));
            }
            return Ok(connection);
        }
        let (process, pipes) = Process::start(&self.name, &self.settings, surroundings)?;
        let Pipes { stdin, stdout, stderr: printed } = pipes;
        self.shared.tracker.spawn(stderr.clone().drain(printed));
        let too_large = Arc::new(AtomicBool::new(false));
        let open = Open::default();
        let stdout = mended(stdout, open.clone(), limits.message_bytes, Arc::clone(&too_large));
        let stdin = noted(stdin, open);
        let is_modern = self.settings.is_modern();
        let way =
            Way { transport: (stdout, stdin), is_modern, process: Some(process), too_large, place: None };
        Box::pin(Connection::open(way, limits, &self.shared)).await
    }
}

/// The masks of values of headers and variables; what follows `Bearer` is the secret.
fn masks_of(secrets: &[String]) -> Masks {
    let behind = secrets.iter().filter_map(|secret| secret.split_once(' ')).map(|(_, secret)| secret);
    Masks::of(secrets.iter().map(String::as_str).chain(behind))
}

/// Whether a variable is a secret, by its name, or by its value: long, and neither a path nor an address nor words.
fn is_secret(name: &str, value: &str) -> bool {
    const NAMES: [&str; 11] =
        ["KEY", "TOKEN", "SECRET", "PASS", "PWD", "AUTH", "CRED", "PRIVATE", "DSN", "COOKIE", "SESSION"];
    let name = name.to_ascii_uppercase();
    let is_random = value.len() >= 16
        && !value.contains(['/', '\\', ' '])
        && value.contains(|c: char| c.is_ascii_digit())
        && value.contains(|c: char| c.is_ascii_alphabetic());
    is_random || NAMES.iter().any(|part| name.contains(part)) && !value.starts_with('/')
}

/// The first pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// After so many failures in a row the server is off.
const MOST_FAILURES: u32 = 5;
/// How long it is off.
const OFF: Duration = Duration::from_mins(15);

/// A pause after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause {
    /// How long nothing is started.
    wait: Duration,
    /// Whether the server is off: it has failed too often.
    is_off: bool,
}

/// The pause after the failure number `failures` in a row, counted from 1. `random` is from 0 to 1: workers do not start
/// again at the same moment.
fn pause(failures: u32, random: f64) -> Pause {
    if failures >= MOST_FAILURES {
        return Pause { wait: OFF, is_off: true };
    }
    let longest = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    Pause { wait: longest.mul_f64(random.clamp(0.0, 1.0)), is_off: false }
}

#[cfg(test)]
mod tests {
    use super::{is_secret, *};

    #[test]
    fn folders_and_languages_are_no_secrets() {
        for (name, value) in [
            ("GITHUB_TOKEN", "x1"),
            ("DB_PASSWORD", "hunter2"),
            ("X", "ghp_0123456789abcdef"),
            ("apikey", "abcd"),
        ] {
            assert!(is_secret(name, value), "{name}");
        }
        for (name, value) in [
            ("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"),
            ("SSH_KEY_FILE", "/home/a/.ssh/id_ed25519"),
            ("LANG", "en_US.UTF-8"),
            ("ROOT", "/data/2026"),
            ("MODE", "read only"),
        ] {
            assert!(!is_secret(name, value), "{name}");
        }
    }

    #[test]
    fn pauses_double_and_then_the_server_is_off() {
        let longest: Vec<u64> = (1..5).map(|failures| pause(failures, 1.0).wait.as_secs()).collect();
        assert_eq!(longest, [1, 2, 4, 8]);
        assert_eq!(pause(3, 0.0).wait, Duration::ZERO);
        assert_eq!(pause(5, 0.3), Pause { wait: OFF, is_off: true });
        assert_eq!(pause(u32::MAX, 0.3), Pause { wait: OFF, is_off: true });
    }
}
