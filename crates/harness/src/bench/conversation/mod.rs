//! What a long conversation costs: one of 500 turns with tools, told four ways, and whether a step of the ten
//! thousandth turn takes as long as one of the tenth.
//!
//! The provider is a model server that bills its input as Anthropic does (see [`cache`]), at four bytes a token; what
//! that costs is what Houston makes of it, at the prices of `claude-sonnet-4-5` and, for summaries, `claude-haiku-4-5`.

mod cache;
mod flat;
mod script;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use houston_testkit::model_server::{Keep, ModelServer};
use houston_testkit::servers::TestServers;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::cache::{Billed, PromptCache};
pub(crate) use self::flat::Flat;
use super::spread::round;
use crate::http::Connection;
use crate::installation::{Installation, goal};
use houston_xtask::console::Progress;

/// Turns between two pauses of the user.
const STRETCH: usize = 25;
/// Tokens of an answer, about.
const ANSWER: u64 = 120;

/// One way to keep a conversation.
#[derive(Debug, Clone, Copy)]
struct Way {
    name: &'static str,
    folds: bool,
    compresses: bool,
}

const WAYS: [Way; 4] = [
    Way { name: "neither", folds: false, compresses: false },
    Way { name: "compression", folds: false, compresses: true },
    Way { name: "folding", folds: true, compresses: false },
    Way { name: "both", folds: true, compresses: true },
];

/// What came out.
#[derive(Debug, Serialize)]
pub(crate) struct Conversation {
    pub(crate) turns: usize,
    pub(crate) ways: Vec<Told>,
    pub(crate) flat: Flat,
}

/// The conversation, told one way. Tokens are those the provider took in.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    pub(crate) way: &'static str,
    pub(crate) model_calls: usize,
    pub(crate) tokens_per_turn: f64,
    /// Of the last stretch.
    pub(crate) tokens_per_turn_at_the_end: f64,
    /// Part of them that the provider's cache served, of 1.
    pub(crate) cached: f64,
    /// US dollars, in decimals; summaries included.
    pub(crate) cost: String,
}

/// What the provider took in, and its cache.
#[derive(Debug, Default)]
struct Provider {
    cache: PromptCache,
    billed: Billed,
    calls: usize,
}

/// The provider, shared with the server that speaks for it.
type Shared = Arc<Mutex<Provider>>;

fn with<T>(provider: &Shared, act: impl FnOnce(&mut Provider) -> T) -> T {
    act(&mut provider.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Tells the conversation of `turns` all four ways, and a long one of `long` turns.
pub(crate) async fn measure(
    program: &Path,
    servers: impl Fn() -> Result<TestServers>,
    turns: usize,
    long: usize,
) -> Result<Conversation> {
    let mut ways = Vec::with_capacity(WAYS.len());
    for way in WAYS {
        let servers = servers()?;
        let stage = Stage::set(program, &servers, way).await?;
        ways.push(stage.tell(way, turns).await?);
    }
    let servers = servers()?;
    let both = WAYS[WAYS.len() - 1];
    let flat = flat::measure(&Stage::set(program, &servers, both).await?, long).await?;
    Ok(Conversation { turns, ways, flat })
}

/// A Houston with its provider.
struct Stage {
    houston: Installation,
    provider: Shared,
    _model: ModelServer,
}

/// How long a session lasts after its last word, where conversations fold.
const QUIET: Duration = Duration::from_millis(300);

impl Way {
    /// Settings that keep a conversation this way.
    fn variables(self) -> Vec<(&'static str, String)> {
        /// Longer than anything here takes; more tokens than anybody says.
        const NEVER: &str = "1000000000";
        let quiet = if self.folds { QUIET.as_millis().to_string() } else { NEVER.to_owned() };
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

impl Stage {
    async fn set(program: &Path, servers: &TestServers, way: Way) -> Result<Self> {
        let provider = Shared::default();
        let billing = Arc::clone(&provider);
        let model = ModelServer::start(move |call| {
            let billed = with(&billing, |provider| {
                let billed = provider.cache.take(call.json());
                provider.calls += 1;
                provider.billed.plain += billed.plain;
                provider.billed.read += billed.read;
                provider.billed.written += billed.written;
                billed
            });
            script::answer(call).usage(billed.plain, ANSWER).cached(billed.read, billed.written)
        })
        .await?;
        model.journal().keep(Keep::Counts);
        let mut variables = vec![
            ("ANTHROPIC_API_KEY", "none".to_owned()),
            ("HOUSTON_PROVIDERS__ANTHROPIC__BASE_URL", model.url()),
            ("HOUSTON_MODELS__AGENT", "anthropic/claude-sonnet-4-5".to_owned()),
            ("HOUSTON_MODELS__SUMMARIES", "anthropic/claude-haiku-4-5".to_owned()),
            ("HOUSTON_MODELS__TITLES", "anthropic/claude-haiku-4-5".to_owned()),
        ];
        variables.extend(way.variables());
        let houston = Installation::start(program, servers, &variables).await?;
        Ok(Self { houston, provider, _model: model })
    }

    async fn tell(&self, way: Way, turns: usize) -> Result<Told> {
        let user = self.houston.user("bench").await?;
        let mut connection = self.houston.connect().await?;
        let goal = goal(&mut connection, &user, "A trip").await?;
        let mut progress = Progress::new(&format!("conversation: {}", way.name), turns as u64);
        let mut before_the_end = Billed::default();
        for number in 1..=turns {
            if number + STRETCH == turns + 1 {
                before_the_end = with(&self.provider, |provider| provider.billed);
            }
            turn(&mut connection, &goal, number).await?;
            if number % STRETCH == 0 {
                self.pause(way).await;
            }
            progress.step();
        }
        let (billed, model_calls) = with(&self.provider, |provider| (provider.billed, provider.calls));
        let end = billed.all() - before_the_end.all();
        #[derive(Deserialize)]
        struct User {
            total_llm_cost: Option<String>,
        }
        let user: User = connection.get(&format!("/v1/users/{user}")).await?.json()?;
        Ok(Told {
            way: way.name,
            model_calls,
            tokens_per_turn: round(billed.all() as f64 / turns as f64),
            tokens_per_turn_at_the_end: round(end as f64 / STRETCH.min(turns) as f64),
            cached: round(billed.read as f64 / billed.all() as f64),
            cost: user.total_llm_cost.context("nobody knows what it cost")?,
        })
    }

    /// The user is away for longer than the provider's cache keeps anything, and than a session lasts.
    async fn pause(&self, way: Way) {
        with(&self.provider, |provider| provider.cache.expire());
        if way.folds {
            tokio::time::sleep(QUIET + Duration::from_millis(200)).await;
        }
    }
}

/// One message and its answer.
async fn turn(connection: &mut Connection, goal: &str, number: usize) -> Result<()> {
    #[derive(Deserialize)]
    struct Accepted {
        events_url: String,
    }
    let body = json!({ "content": script::question(number) }).to_string();
    let accepted: Accepted = connection.post(&format!("/v1/goals/{goal}/messages"), &body).await?.json()?;
    connection.events(&accepted.events_url).await?.read(|_| ()).await?;
    Ok(())
}
