//! The loud tenant: everything at once that an ordinary key allows.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use houston_testkit::console::print_status;
use houston_testkit::houston::Houston;
use houston_testkit::servers::TestServers;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::bench::quiet::Quiet;
use crate::http::Connection;

/// Doubles a list 40 times.
const DOUBLING: &str = "{% set ns=namespace(x=[1,2]) %}{% for i in range(40) %}{% set ns.x=ns.x+ns.x %}{% endfor %}{{ ns.x|length }}";
/// The same, as often as data says: it cannot be refused when it is stored.
const DOUBLING_BY_DATA: &str = "{% set ns=namespace(x=[1,2]) %}{% for i in range(input.n) %}{% set ns.x=ns.x+ns.x %}{% endfor %}{{ ns.x|length }}";
/// Webhooks, and goals that are flooded.
const WEBHOOKS: usize = 20;
const GOALS: usize = 40;

/// One kind of request, repeated.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Noise {
    Flood,
    Cancel,
    Patterns,
    Plans,
    Triggers,
    Exports,
    Bodies,
    Documents,
    Lists,
    Schemas,
    Users,
}

/// Connections of each kind.
const AT_ONCE: usize = 4;

/// Large requests, made once: what makes them must not take the time that the service is measured with.
#[derive(Debug)]
struct Bodies {
    /// Messages that patterns are matched with.
    letters: Vec<String>,
    /// A list in a list, 50,000 times.
    deep: String,
    /// 100,000 numbers.
    wide: String,
    /// Many expressions, of which each is large once compiled.
    team: String,
    /// Many patterns with many `?`.
    guard: String,
    /// Tools of a client with schemas that refer to large data, and to options in options.
    tools: String,
    /// A result whose schema contains itself, as each of its options.
    result: String,
    /// Endpoints whose parameters all refer to a large enumeration.
    endpoints: String,
}

impl Bodies {
    fn about(goal: &str) -> Self {
        let letters = (0..8).map(|seed| json!({"content": letters(seed, 60_000)}).to_string()).collect();
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        let wide: Vec<u32> = (0..100_000).collect();
        let rules: Vec<Value> = (0..40)
            .map(|nth| json!({"when": {"regex": format!("(?-i){nth}a[ab]{{250}}[^ab]")}, "agent_id": goal}))
            .collect();
        Self {
            letters,
            deep: format!("{{\"content\": \"x\", \"metadata\": {{\"deep\": {deep}}}}}"),
            wide: json!({"name": "wide", "metadata": {"wide": wide}}).to_string(),
            team: json!({"name": "t", "router": {"by": "rules", "rules": rules}}).to_string(),
            tools: json!({"model": "goal", "input": "x", "tools": hostile_tools()}).to_string(),
            result: json!({"content": "x", "output": {"schema": {
                "type": "object", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}},
                "properties": {"reply": {"$ref": "#/$defs/a"}}}}})
            .to_string(),
            endpoints: json!({"document": hostile_endpoints()}).to_string(),
            guard: json!({"denied": vec![format!("*a{}b", "?".repeat(200)); 100]}).to_string(),
        }
    }
}

/// A tenant with goals, triggers and webhooks.
#[derive(Debug)]
pub(super) struct Loud {
    address: SocketAddr,
    key: String,
    user: String,
    goals: Vec<String>,
    bodies: Bodies,
    /// Its requests so far.
    pub(super) actions: AtomicU64,
}

impl Loud {
    /// Creates what it has before the noise begins.
    pub(super) async fn prepare(houston: &Houston, key: String, receiver: &str) -> Result<Arc<Self>> {
        print_status("preparing the loud tenant");
        let mut connection = Connection::open(houston.address, &key).await?;
        let user = connection.user("loud").await?;
        let mut goals = Vec::new();
        for nth in 0..GOALS {
            goals.push(connection.goal(&user, &format!("loud {nth}")).await?);
        }
        for nth in 0..WEBHOOKS {
            let url = format!("{receiver}/{nth}");
            let body = json!({"url": url, "topics": ["**"]});
            refusable(&mut connection, "/v1/webhooks", &body).await?;
        }
        let patterns =
            [r"(?-i)(?:a?b?c?d?){1,1500}[^a-d]y", r"(a|b|c|d)*a(a|b|c|d){60}y", r"(?:[a-d]{1,9}){1,30}z"];
        let conditions = [
            "event.content|list|map('upper')|join(event.content)|length > 5",
            "range(99999)|map('string')|list|length > 99998",
            "event|tojson(indent=1000000000)|length == 1",
        ];
        let patterns =
            patterns.map(|regex| (&goals[0], json!({"type": "keyword", "words": [], "regex": regex})));
        let conditions = conditions.map(|condition| (&goals[1], of_event(Some(condition))));
        for (goal, when) in patterns.into_iter().chain(conditions) {
            refusable(&mut connection, &format!("/v1/users/{user}/triggers"), &tell(goal, &when, "x"))
                .await?;
        }
        let (bodies, actions) = (Bodies::about(&goals[0]), AtomicU64::new(0));
        Ok(Arc::new(Self { address: houston.address, key, user, goals, bodies, actions }))
    }

    pub(super) fn start(self: &Arc<Self>, noise: &mut JoinSet<()>, stop: &CancellationToken) {
        for kind in Noise::value_variants() {
            for nth in 0..AT_ONCE {
                noise.spawn(Arc::clone(self).repeat(*kind, nth, stop.clone()));
            }
        }
    }

    /// Makes requests of a kind until it is stopped.
    async fn repeat(self: Arc<Self>, kind: Noise, mut round: usize, stop: CancellationToken) {
        while !stop.is_cancelled() {
            // A refusal is an answer; a broken connection is opened again.
            if let Ok(mut connection) = Connection::open(self.address, &self.key).await {
                while !stop.is_cancelled() {
                    let began = Instant::now();
                    round += AT_ONCE;
                    if self.once(&mut connection, kind, round).await.is_err() {
                        break;
                    }
                    self.actions.fetch_add(1, Ordering::Relaxed);
                    breathe(began).await;
                }
            }
            breathe(Instant::now()).await;
        }
    }

    /// Stores what the API refuses: two triggers of each kind that cannot be evaluated. Returns how many.
    pub(super) fn store_poisons(&self, servers: &TestServers) -> Result<usize> {
        let (look, doubling) = ("Look around.", DOUBLING_BY_DATA.replace("input.n", "40"));
        let kinds = [
            (of_event(Some("range(99999)|map('string')|list|join(event.topic)|list|length > 5")), look),
            (of_event(Some("event|tojson(indent=1000000000)|length == 1")), look),
            (json!({"type": "keyword", "words": [], "regex": "(?-i)a[a-d]{250}[^a-d]"}), look),
            (of_event(None), &doubling),
        ];
        let mut sql = String::new();
        for (nth, (rule, instructions)) in kinds.iter().cycle().take(2 * kinds.len()).enumerate() {
            let quoted = |text: &str| text.replace('\'', "''");
            let (rule, instructions) = (quoted(&rule.to_string()), quoted(instructions));
            let _ = writeln!(
                sql,
                "insert into houston.triggers (id, tenant_id, user_id, agentable_id, name, instructions, rule, created_at, updated_at)
                 select overlay(a.id::text placing '{nth:04x}' from 15 for 4)::uuid, a.tenant_id, a.user_id, a.id, 'poison {nth}',
                        '{instructions}', '{rule}', now(), now()
                   from houston.agentables a join houston.tenants t on t.id = a.tenant_id where t.name = 'loud'
                  order by a.id limit 1;"
            );
        }
        sql.push_str("insert into houston.readers (name, position) values ('triggers', pg_current_snapshot()::text) on conflict do nothing;");
        servers.sql(&sql)?;
        Ok(2 * kinds.len())
    }

    /// Wakes the poisons, and lets a quiet tenant chat beside them. Returns when it had its first answer, and what failed.
    pub(super) async fn meet_poisons(
        &self,
        houston: &Houston,
        keys: &[String],
        lasts: Duration,
    ) -> Result<(Option<Instant>, Vec<String>)> {
        let mut own = Connection::open(houston.address, &self.key).await?;
        let mut quiet = Quiet::begin(houston.address, &keys[0]).await?;
        let (began, mut first, mut failed) = (Instant::now(), None, Vec::new());
        let mut round = 0;
        while began.elapsed() < lasts {
            let body = &self.bodies.letters[round % self.bodies.letters.len()];
            own.post(&format!("/v1/goals/{}/messages", self.goals[0]), body).await?;
            match quiet.once().await {
                Ok(_) => first = first.or_else(|| Some(Instant::now())),
                Err(error) => failed.push(format!("beside stored poisons: {error:#}")),
            }
            round += 1;
            breathe(Instant::now()).await;
        }
        Ok((first, failed))
    }

    async fn once(&self, connection: &mut Connection, kind: Noise, round: usize) -> Result<()> {
        let (goal, bodies) = (&self.goals[round % self.goals.len()], &self.bodies);
        let messages = format!("/v1/goals/{goal}/messages");
        let triggers = format!("/v1/users/{}/triggers", self.user);
        match kind {
            Noise::Flood => {
                refusable(connection, &messages, &json!({"content": format!("message {round}")})).await?;
            }
            Noise::Cancel => {
                let sent = refusable(connection, &messages, &json!({"content": "x"})).await?;
                if let Some(run) = sent["run_id"].as_str() {
                    refusable(connection, &format!("/v1/runs/{run}/cancel"), &json!({})).await?;
                }
            }
            Noise::Patterns => {
                connection.post(&messages, &bodies.letters[round % bodies.letters.len()]).await?;
            }
            Noise::Plans => {
                let (prompt, n) =
                    if round.is_multiple_of(2) { (DOUBLING, 1) } else { (DOUBLING_BY_DATA, 40) };
                let steps = json!([{"id": "one", "type": "llm", "prompt": prompt}]);
                let body = json!({"document": {"v": 1, "goal": "Count", "steps": steps}, "input": {"n": n}});
                refusable(connection, &format!("/v1/goals/{goal}/plans"), &body).await?;
            }
            Noise::Triggers => {
                let instructions = DOUBLING_BY_DATA.replace("input.n", "event.content|int");
                refusable(connection, &triggers, &tell(goal, &of_event(None), &instructions)).await?;
                refusable(connection, &messages, &json!({"content": "40"})).await?;
            }
            Noise::Exports => {
                for part in ["export", "history", "prompt"] {
                    connection.get(&format!("/v1/goals/{goal}/{part}")).await?;
                }
            }
            Noise::Bodies => {
                connection.post(&messages, &bodies.deep).await?;
                connection.post("/v1/users", &bodies.wide).await?;
            }
            Noise::Documents => {
                connection.post("/v1/teams", &bodies.team).await?;
                connection.put("/v1/guards", &bodies.guard).await?;
            }
            Noise::Lists => {
                for path in [triggers.as_str(), "/v1/goals?limit=100", "/v1/runs?limit=100", "/v1/webhooks"] {
                    connection.get(path).await?;
                }
            }
            Noise::Schemas => {
                connection.post("/compat/openai/v1/responses", &bodies.tools).await?;
                connection.post(&messages, &bodies.result).await?;
                connection.put("/v1/endpoints/hostile", &bodies.endpoints).await?;
            }
            // A user with a trigger, whose pattern is compiled for its first message.
            Noise::Users => {
                let user = connection.user(&format!("loud {round}")).await?;
                let goal = connection.goal(&user, "loud").await?;
                let when = json!({"type": "keyword", "words": vec![letters(round, 90); 40]});
                refusable(connection, &format!("/v1/users/{user}/triggers"), &tell(&goal, &when, "x"))
                    .await?;
                refusable(connection, &format!("/v1/goals/{goal}/messages"), &json!({"content": "x"}))
                    .await?;
            }
        }
        Ok(())
    }
}

/// Tools of a client: a large default that is referred to often, options in options, many patterns that become large.
fn hostile_tools() -> Vec<Value> {
    let tool =
        |name: &str, parameters: &Value| json!({"type": "function", "name": name, "parameters": parameters});
    let all = |count: usize, of: &Value| -> Value {
        let named = (0..count).map(|nth| (format!("p{nth}"), of.clone()));
        Value::Object(named.collect())
    };
    let refers = json!({"$ref": "#/$defs/d0"});
    let default = json!({"type": "object", "properties": all(400, &refers), "$defs": {"d0": {"default": vec![0; 4_000]}}});
    let mut levels = serde_json::Map::new();
    for nth in 0..14 {
        let next = json!({"$ref": format!("#/$defs/d{}", nth + 1)});
        levels.insert(
            format!("d{nth}"),
            json!({"anyOf": [{"properties": {"a": next}}, {"properties": {"b": next}}]}),
        );
    }
    let options = json!({"type": "object", "properties": {"x": refers}, "$defs": levels});
    let pattern = json!({"type": "string", "pattern": "(?:a{99}){999}"});
    let patterns = json!({"type": "object", "properties": all(400, &pattern)});
    vec![tool("default", &default), tool("options", &options), tool("patterns", &patterns)]
}

/// An OpenAPI document of one operation with 1,000 parameters, each of 10,000 values.
fn hostile_endpoints() -> Value {
    let parameter = |nth: usize| json!({"name": format!("p{nth}"), "in": "query", "schema": {"$ref": "#/components/schemas/all"}});
    let parameters: Vec<Value> = (0..1_000).map(parameter).collect();
    json!({
        "openapi": "3.0.3", "info": {"title": "x", "version": "1"}, "servers": [{"url": "https://example.com"}],
        "paths": {"/x": {"get": {"operationId": "x", "parameters": parameters, "responses": {}}}},
        "components": {"schemas": {"all": {"type": "integer", "enum": (0..10_000).collect::<Vec<_>>()}}},
    })
}

/// Posts; the answer may be a refusal.
async fn refusable(connection: &mut Connection, path: &str, body: &Value) -> Result<Value> {
    let response = connection.post(path, &body.to_string()).await?;
    Ok(serde_json::from_slice(&response.body).unwrap_or_default())
}

fn tell(goal: &str, when: &Value, instructions: &str) -> Value {
    json!({"name": "loud", "when": when,
           "then": {"type": "tell", "agentable_id": goal, "instructions": instructions}})
}

/// The rule of a trigger for each message, or for those for which the condition holds.
fn of_event(condition: Option<&str>) -> Value {
    let mut rule = json!({"type": "event", "topics": ["message.posted"]});
    if let Some(condition) = condition {
        rule["if"] = condition.into();
    }
    rule
}

/// Letters `abcd` in no order.
fn letters(seed: usize, count: usize) -> String {
    let mut state = u32::try_from(seed % 1_000_000).unwrap_or_default() | 1;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + u8::try_from(state >> 30).unwrap_or_default())
    };
    (0..count).map(next).collect()
}

/// Waits a little, so that a refusal is not repeated thousands of times a second.
async fn breathe(since: Instant) {
    tokio::time::sleep(Duration::from_millis(20).saturating_sub(since.elapsed())).await;
}
