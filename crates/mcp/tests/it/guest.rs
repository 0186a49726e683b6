//! A server in a folder of its own, and calls of its tools as the engine makes them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, RunId, TenantId, UserId};
use houston_domain::tool_call::{ToolCall, ToolResponse};
use houston_mcp::{McpSettings, Pins, Pool, Surroundings};
use houston_tools::{Acted, CallContext, Offer, Paused, Plan, Progress, Registry};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A pool with one server, `s`.
pub(crate) struct Guest {
    pub(crate) folder: tempfile::TempDir,
    settings: McpSettings,
    pins: Pins,
    pub(crate) pool: Pool,
    pub(crate) offer: Offer,
}

impl Guest {
    /// A server with these settings below `[servers.s]` and these limits, whose tools were approved as they are now.
    pub(crate) async fn new(server: &str, limits: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(server, limits);
        let pool = pool(&settings, &Pins::default(), &folder);
        let look = pool.server("s").unwrap().look().await;
        let mut pins = Pins::default();
        pins.approve("s", &look.tools.unwrap_or_else(|error| panic!("{error}: {:?}", look.printed)), &[]);
        Self::with(folder, settings, &pins)
    }

    fn with(folder: tempfile::TempDir, settings: McpSettings, pins: &Pins) -> Self {
        let pool = pool(&settings, pins, &folder);
        let mut registry = Registry::default();
        pool.tools().into_iter().for_each(|tool| registry.add(tool).unwrap());
        let offer = registry.offer(&registry.names()).unwrap();
        Self { folder, settings, pins: pins.clone(), pool, offer }
    }

    /// The same folder and approvals with other settings of the server.
    pub(crate) fn again(guest: Self, server: &str) -> Self {
        Self::with(guest.folder, settings(server, ""), &guest.pins)
    }

    /// The same with other settings and no approvals: its server fails before it lists a tool.
    pub(crate) fn broken(server: &str, limits: &str) -> Self {
        Self::with(tempfile::tempdir().unwrap(), settings(server, limits), &Pins::default())
    }

    /// The folder that is the `HOME` of the server.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// How often its server was started since it was approved.
    pub(crate) fn starts(&self) -> usize {
        let starts = std::fs::read_to_string(self.home().join("starts")).unwrap_or_default();
        // The first was for its approval.
        starts.lines().count().saturating_sub(1)
    }

    /// A call of `s__<tool>`. Its response, without the mark of what strangers wrote.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> ToolResponse {
        self.marked_call(tool, input).await.map_text(|text| unmarked(text).to_owned())
    }

    /// A call of `s__<tool>`. Its response as a model reads it.
    pub(crate) async fn marked_call(&self, tool: &str, input: Value) -> ToolResponse {
        match self.acted(tool, input, &context()).await {
            Acted::Done(response) => response,
            Acted::Paused(pause) => panic!("{pause:?}"),
        }
    }

    async fn acted(&self, tool: &str, input: Value, context: &CallContext) -> Acted {
        let name = format!("s__{tool}");
        let call = ToolCall { id: "c1".into(), name, input, malformed: None };
        match self.offer.plan(&call, context) {
            Plan::Answer(answer) => Acted::Done(answer),
            Plan::Begin(call) => call.await,
            other => panic!("{other:?}"),
        }
    }

    /// A call of `s__<tool>`, until it ends or pauses.
    pub(crate) async fn begin(&self, tool: &str) -> Acted {
        self.acted(tool, json!({}), &context()).await
    }

    /// The same, and who watches sees how far it is.
    pub(crate) async fn watched(&self, tool: &str, progress: Progress) -> Acted {
        self.acted(tool, json!({}), &CallContext { progress, ..context() }).await
    }

    /// Goes on with a call of `s__<tool>`.
    pub(crate) async fn go_on(&self, tool: &str, paused: Paused) -> Acted {
        self.followed(tool, paused, CancellationToken::new()).await
    }

    /// The same, in a run that is cancelled with `stop`.
    pub(crate) async fn followed(&self, tool: &str, paused: Paused, stop: CancellationToken) -> Acted {
        let tool = self.offer.get(&format!("s__{tool}")).unwrap();
        tool.go_on(paused, &json!({}), &CallContext { stop, ..context() }).await
    }

    /// Gives a call of `s__<tool>` up.
    pub(crate) async fn give_up(&self, tool: &str, state: Value) {
        self.offer.get(&format!("s__{tool}")).unwrap().give_up(state).await;
    }

    /// Another process of Houston with the same settings and pins would see this.
    pub(crate) async fn look(&self) -> houston_mcp::server::Look {
        pool(&self.settings, &Pins::default(), &self.folder).server("s").unwrap().look().await
    }
}

fn unmarked(text: &str) -> &str {
    let rest = text.strip_prefix("<untrusted source=\"s\">\n");
    rest.and_then(|rest| rest.strip_suffix("\n</untrusted>")).unwrap_or(text)
}

pub(crate) fn settings(server: &str, limits: &str) -> McpSettings {
    let mut table: toml::Table =
        "start_s = 60\ncall_s = 60\nidle_s = 600\nanswer_bytes = 1048576\nprocesses = 4\nstarts = 2"
            .parse()
            .unwrap();
    table.extend(limits.parse::<toml::Table>().unwrap());
    let limits = toml::to_string(&table).unwrap();
    let settings: McpSettings =
        toml::from_str(&format!("[limits]\n{limits}\n[servers.s]\n{server}")).unwrap();
    settings.check().unwrap();
    settings
}

fn pool(settings: &McpSettings, pins: &Pins, folder: &tempfile::TempDir) -> Pool {
    let variable = |name: &str| (name == "SECRET").then(|| "hidden".to_owned());
    let surroundings =
        Surroundings { path: std::env::var_os("PATH"), homes: folder.path().to_owned(), variable };
    Pool::new(settings, pins, surroundings)
}

pub(crate) fn context() -> CallContext {
    let nil = uuid::Uuid::nil();
    CallContext {
        tenant: TenantId(nil),
        guards: Arc::new([]),
        agentable: AgentableId(nil),
        user: UserId(nil),
        run: RunId(nil),
        idempotency_key: "key".to_owned(),
        now: DateTime::<Utc>::UNIX_EPOCH,
        zone: chrono_tz::UTC,
        tasks: Arc::new([]),
        skills: None,
        files: None,
        reached: Arc::new([]),
        stop: CancellationToken::new(),
        progress: houston_tools::Progress::default(),
    }
}

/// Waits until this is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not so after a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the processes with these ids, separated by spaces, have ended.
pub(crate) async fn gone(pids: &str) {
    for pid in pids.split_whitespace() {
        let stat = PathBuf::from(format!("/proc/{pid}/stat"));
        let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z"));
        until(&format!("process {pid} has ended"), is_gone).await;
    }
}
