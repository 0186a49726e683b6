//! The cost of a long conversation: 500 turns with tools, run with four configurations; and whether a turn after 10,000
//! others takes longer than one of a new agentable.
//!
//! The model server bills its input as Anthropic does (see [`cache`]), at four bytes per token. The cost is the one
//! Houston computes, at the prices of `claude-sonnet-4-5` and, for summaries, `claude-haiku-4-5`.

mod cache;
mod flat;
mod script;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use houston_protocol::message::AcceptedMessageResponse;
use houston_protocol::user::UserResponse;
use houston_testkit::model_server::{JournalDetail, ModelServer};
use houston_testkit::servers::TestServers;
use serde::Serialize;
use serde_json::json;

use self::cache::{Billed, PromptCache};
pub(crate) use self::flat::Flat;
use super::spread::round;
use crate::http::Connection;
use crate::installation::{Installation, goal};
use houston_xtask::console::Progress;

/// Number of turns between two pauses of the user.
const STRETCH: usize = 25;
/// Approximate tokens of an answer.
const ANSWER: u64 = 120;

/// Which mechanisms shorten the conversation.
#[derive(Debug, Clone, Copy)]
struct Configuration {
    name: &'static str,
    closes_sessions: bool,
    compresses: bool,
}

const CONFIGURATIONS: [Configuration; 4] = [
    Configuration { name: "neither", closes_sessions: false, compresses: false },
    Configuration { name: "compression", closes_sessions: false, compresses: true },
    Configuration { name: "closed sessions", closes_sessions: true, compresses: false },
    Configuration { name: "both", closes_sessions: true, compresses: true },
];

/// The result.
#[derive(Debug, Serialize)]
pub(crate) struct Conversation {
    pub(crate) turns: usize,
    pub(crate) ways: Vec<ConfigurationResult>,
    pub(crate) flat: Flat,
}

/// The conversation with one configuration. Tokens are input tokens of the provider.
#[derive(Debug, Serialize)]
pub(crate) struct ConfigurationResult {
    pub(crate) way: &'static str,
    pub(crate) model_calls: usize,
    pub(crate) tokens_per_turn: f64,
    /// Tokens per turn in the last stretch.
    pub(crate) tokens_per_turn_at_the_end: f64,
    /// Share of the tokens read from the provider's cache, 0 to 1.
    pub(crate) cached: f64,
    /// US dollars as a decimal number, including summaries.
    pub(crate) cost: String,
}

/// The provider's cache and its counters.
#[derive(Debug, Default)]
struct Provider {
    cache: PromptCache,
    billed: Billed,
    calls: usize,
}

/// The provider, shared with its model server.
type Shared = Arc<Mutex<Provider>>;

fn with<T>(provider: &Shared, act: impl FnOnce(&mut Provider) -> T) -> T {
    act(&mut provider.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs the conversation of `turns` turns with all configurations, and compares a turn after `long` turns with a new one.
pub(crate) async fn measure(
    program: &Path,
    servers: impl Fn() -> Result<TestServers>,
    turns: usize,
    long: usize,
) -> Result<Conversation> {
    let mut ways = Vec::with_capacity(CONFIGURATIONS.len());
    for configuration in CONFIGURATIONS {
        let servers = servers()?;
        let installation = ConversationInstallation::start(program, &servers, configuration).await?;
        ways.push(installation.run(configuration, turns).await?);
    }
    let servers = servers()?;
    let both = CONFIGURATIONS[CONFIGURATIONS.len() - 1];
    let flat = flat::measure(&ConversationInstallation::start(program, &servers, both).await?, long).await?;
    Ok(Conversation { turns, ways, flat })
}

/// A Houston process with its provider.
struct ConversationInstallation {
    houston: Installation,
    provider: Shared,
    _model: ModelServer,
}

/// Quiet time after which a session is closed, where the configuration closes sessions.
const QUIET: Duration = Duration::from_millis(300);

impl Configuration {
    /// The settings of this configuration.
    fn variables(self) -> Vec<(&'static str, String)> {
        /// In ms, longer than any measurement; in tokens, more than any conversation.
        const NEVER: &str = "1000000000";
        let quiet = if self.closes_sessions { QUIET.as_millis().to_string() } else { NEVER.to_owned() };
        let mut variables = vec![("HOUSTON_SESSION_ARCHIVE__QUIET_MS", quiet)];
        if !self.compresses {
            variables.extend(
                [
                    "HOUSTON_ORCHESTRATOR__CONTEXT__BUDGET_TOKENS__TOTAL",
                    "HOUSTON_ORCHESTRATOR__CONTEXT__BUDGET_TOKENS__HISTORY",
                    "HOUSTON_ORCHESTRATOR__CONTEXT__BUDGET_TOKENS__TOOL_RESULTS",
                ]
                .map(|name| (name, NEVER.to_owned())),
            );
        }
        variables
    }
}

impl ConversationInstallation {
    async fn start(program: &Path, servers: &TestServers, configuration: Configuration) -> Result<Self> {
        let provider = Shared::default();
        let billing = Arc::clone(&provider);
        let model = ModelServer::start(move |call| {
            let billed = with(&billing, |provider| {
                let billed = provider.cache.bill(call.json());
                provider.calls += 1;
                provider.billed.plain += billed.plain;
                provider.billed.read += billed.read;
                provider.billed.written += billed.written;
                billed
            });
            script::answer(call).usage(billed.plain, ANSWER).cached(billed.read, billed.written)
        })
        .await?;
        model.journal().set_detail(JournalDetail::Counts);
        let mut variables = vec![
            ("ANTHROPIC_API_KEY", "none".to_owned()),
            ("HOUSTON_PROVIDERS__ANTHROPIC__BASE_URL", model.url()),
            ("HOUSTON_MODELS__AGENT", "anthropic/claude-sonnet-4-5".to_owned()),
            ("HOUSTON_MODELS__SUMMARIES", "anthropic/claude-haiku-4-5".to_owned()),
            ("HOUSTON_MODELS__TITLES", "anthropic/claude-haiku-4-5".to_owned()),
        ];
        variables.extend(configuration.variables());
        let houston = Installation::start(program, servers, &variables).await?;
        Ok(Self { houston, provider, _model: model })
    }

    async fn run(&self, configuration: Configuration, turns: usize) -> Result<ConfigurationResult> {
        let user = self.houston.user("bench").await?;
        let mut connection = self.houston.connect().await?;
        let goal = goal(&mut connection, &user, "A trip").await?;
        let mut progress = Progress::new(&format!("conversation: {}", configuration.name), turns as u64);
        let mut before_the_end = Billed::default();
        for number in 1..=turns {
            if number + STRETCH == turns + 1 {
                before_the_end = with(&self.provider, |provider| provider.billed);
            }
            turn(&mut connection, &goal, number).await?;
            if number % STRETCH == 0 {
                self.pause(configuration).await;
            }
            progress.step();
        }
        let (billed, model_calls) = with(&self.provider, |provider| (provider.billed, provider.calls));
        let end = billed.all() - before_the_end.all();
        let user: UserResponse = connection.get(&format!("/v1/users/{user}")).await?.json()?;
        Ok(ConfigurationResult {
            way: configuration.name,
            model_calls,
            tokens_per_turn: round(billed.all() as f64 / turns as f64),
            tokens_per_turn_at_the_end: round(end as f64 / STRETCH.min(turns) as f64),
            cached: round(billed.read as f64 / billed.all() as f64),
            cost: user.total_llm_cost.context("the user has no total cost")?.to_string(),
        })
    }

    /// A pause of the user: longer than the lifetime of a cache entry and of a session.
    async fn pause(&self, configuration: Configuration) {
        with(&self.provider, |provider| provider.cache.expire());
        if configuration.closes_sessions {
            tokio::time::sleep(QUIET + Duration::from_millis(200)).await;
        }
    }
}

/// One turn: posts a message and reads the stream to its end.
async fn turn(connection: &mut Connection, goal: &str, number: usize) -> Result<()> {
    let body = json!({ "content": script::question(number) }).to_string();
    let path = format!("/v1/goals/{goal}/messages");
    let accepted: AcceptedMessageResponse = connection.post(&path, &body).await?.json()?;
    connection.events(&accepted.events_url).await?.read(|_| ()).await?;
    Ok(())
}
