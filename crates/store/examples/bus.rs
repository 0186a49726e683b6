//! Reads a bus of events as workers do: `cargo run --release -p houston-store --example bus -- <database url> <events> <seconds>`,
//! on an empty database. `cargo xtask bench --bus` starts it and reads what it prints, one JSON object:
//!
//! - `webhooks_per_second`: events that the reader of webhooks makes deliveries of, each one;
//! - `triggers_per_second`: events that the reader of triggers reads, of which one in a hundred is heard;
//! - `lag_ms`: of events that eight writers commit for some seconds: from the event to what the reader notes of it, p50 and p99,
//!   with a look each 20 ms.

#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use houston_domain::clock::SystemClock;
use houston_domain::id::{AgentableId, Ids, TenantId};
use houston_domain::trigger::When;
use houston_store::agentable::NewAgentable;
use houston_store::cost::Cost;
use houston_store::fan_out::FannedOut;
use houston_store::trigger::Trigger;
use houston_store::trigger_reader::Listened;
use houston_store::user::User;
use houston_store::webhook::NewWebhook;
use houston_store::{Config, Store};
use serde_json::Value;
use sqlx::PgPool;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Users with a goal each.
const USERS: usize = 64;
const WRITERS: usize = 8;
/// Events of one read, as in `jobs/triggers.toml`.
const PAGE: i64 = 500;
/// Between two looks of the reader whose lag is measured.
const LOOK: Duration = Duration::from_millis(20);

struct Bus {
    store: Store,
    sql: PgPool,
    ids: Ids,
    tenant: TenantId,
    goals: Vec<AgentableId>,
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |what: &str| arguments.next().ok_or_else(|| format!("the {what} is missing"));
    let url = argument("database url")?;
    let (events, seconds): (i64, u64) =
        (argument("number of events")?.parse()?, argument("number of seconds")?.parse()?);
    let bus = Bus::start(url).await?;
    bus.subscribe().await?;
    bus.fill(events).await?;
    let webhooks = bus.read_webhooks(events).await?;
    let triggers = bus.read_triggers(events).await?;
    let lag = bus.lag(Duration::from_secs(seconds)).await?;
    let per_second = |time: Duration| events as f64 / time.as_secs_f64();
    let result = serde_json::json!({
        "webhooks_per_second": per_second(webhooks), "triggers_per_second": per_second(triggers), "lag_ms": lag,
    });
    println!("{result}");
    Ok(())
}

impl Bus {
    async fn start(url: String) -> Outcome<Self> {
        let sql = PgPool::connect(&url).await?;
        let config = Config { url, max_connections: 16, acquire_timeout: Duration::from_secs(30) };
        let (store, ids) = (Store::open(&config)?, Ids::new(Arc::new(SystemClock)));
        store.migrate().await?;
        let tenant = store.operator().ensure_tenant(ids.next(), "bus").await?;
        let mut goals = Vec::new();
        for _ in 0..USERS {
            let now = ids.clock().now();
            let user = User {
                id: ids.next(),
                external_id: None,
                name: "Ann".into(),
                time_zone: "UTC".into(),
                created_at: now,
                cost: Cost::NOTHING,
            };
            let goal = NewAgentable {
                id: ids.beside(user.id),
                user: user.id,
                kind: "goal",
                title: "",
                description: "",
                status: None,
                tools: None,
                created_at: now,
            };
            store.tenant(tenant).create_user(&user, &[], None, &Value::Null).await?;
            store.tenant(tenant).create_agentable(&goal, None, &Value::Null).await?;
            goals.push(goal.id);
        }
        Ok(Self { store, sql, ids, tenant, goals })
    }

    /// A webhook that wants every event, and a trigger for each user that wants few.
    async fn subscribe(&self) -> Outcome<()> {
        let topics = ["**".to_owned()];
        let new = NewWebhook {
            id: self.ids.next(),
            url: "https://hooks.example.com",
            description: "",
            topics: &topics,
            user: None,
            kind: None,
            agentable: None,
            sealed: b"secret",
        };
        let store = self.store.tenant(self.tenant);
        store.create_webhook(&new).await?;
        for goal in &self.goals {
            let now = self.ids.clock().now();
            let topics = vec!["thought.written".to_owned()];
            let trigger = Trigger {
                id: self.ids.beside(*goal),
                user: store.user_of_agentable(*goal).await?,
                agentable: (*goal, "goal".into()),
                name: "Bus".into(),
                instructions: "Look.".into(),
                task: None,
                when: When::Event { topics, kind: None, agentable_id: None, condition: None },
                next_at: None,
                enabled: true,
                fired: 0,
                refused: (0, None),
                last_at: None,
                created_at: now,
                updated_at: now,
            };
            store.create_trigger(&trigger, None, &Value::Null).await?;
        }
        Ok(())
    }

    /// Events in transactions of 100, over all goals, one in a hundred of them a thought.
    async fn fill(&self, events: i64) -> Outcome<()> {
        let goals: Vec<_> = self.goals.iter().map(|goal| goal.0).collect();
        for page in 0..events / 100 {
            sqlx::query(
                r#"insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
                   select ($1::uuid[])[1 + (n - 1) % cardinality($1::uuid[])],
                          1 + (n - 1) / cardinality($1::uuid[]), $2, gen_random_uuid(), 1,
                          case when n % 100 = 0 then '{"type": "thought", "text": "hm"}'::jsonb
                               else '{"type": "title_set", "title": "t", "between_runs": false}' end
                     from generate_series($3::bigint, $3::bigint + 99) as n"#,
            )
            .bind(&goals)
            .bind(self.tenant.0)
            .bind(1 + page * 100)
            .execute(&self.sql)
            .await?;
        }
        // Readers look for events up to the last position of the stream, also for those that `lag` writes.
        sqlx::query("update houston.run_locks set last_seq = 2000000000").execute(&self.sql).await?;
        Ok(())
    }

    async fn read_webhooks(&self, events: i64) -> Outcome<Duration> {
        let (began, mut made) = (Instant::now(), 0);
        loop {
            let now = self.ids.clock().now();
            match self.store.runs().fan_out(&self.ids, PAGE, now).await? {
                FannedOut::Read { deliveries, has_more, .. } => {
                    made += deliveries;
                    if !has_more {
                        break;
                    }
                }
                FannedOut::Idle | FannedOut::Restarted => return Err("nothing is read".into()),
            }
        }
        if i64::try_from(made)? < events {
            return Err(format!("{made} of {events} events were delivered").into());
        }
        Ok(began.elapsed())
    }

    /// Reads until nothing is left. Returns how many events were heard.
    async fn listen(&self) -> Outcome<usize> {
        let mut all = 0;
        loop {
            match self.store.runs().listen_for_triggers(PAGE, self.ids.clock().now()).await? {
                Listened::Read { heard, has_more } => {
                    all += heard;
                    if !has_more {
                        return Ok(all);
                    }
                }
                Listened::Idle | Listened::Restarted => return Err("nothing is read".into()),
            }
        }
    }

    async fn read_triggers(&self, events: i64) -> Outcome<Duration> {
        let began = Instant::now();
        let heard = self.listen().await?;
        let took = began.elapsed();
        if i64::try_from(heard)? != events / 100 {
            return Err(format!("{heard} events were heard").into());
        }
        sqlx::query("truncate houston.trigger_firings").execute(&self.sql).await?;
        Ok(took)
    }

    async fn lag(&self, time: Duration) -> Outcome<[f64; 2]> {
        let until = Instant::now() + time;
        let write = join_all(self.goals.iter().take(WRITERS).map(async |goal| -> Outcome<()> {
            let mut seq = 1_000_000_000_i64;
            while Instant::now() < until {
                seq += 1;
                sqlx::query(
                    r#"insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
                       values ($1, $2, $3, gen_random_uuid(), 1, '{"type": "thought", "text": "hm"}')"#,
                )
                .bind(goal.0)
                .bind(seq)
                .bind(self.tenant.0)
                .execute(&self.sql)
                .await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        }));
        let read = async {
            while Instant::now() < until {
                self.listen().await?;
                tokio::time::sleep(LOOK).await;
            }
            self.listen().await.map(drop)
        };
        let (written, read) = tokio::join!(write, read);
        read?;
        written.into_iter().collect::<Outcome<Vec<()>>>()?;
        let lags: Vec<f64> = sqlx::query_scalar(
            "select unnest(percentile_cont(array[0.5, 0.99])
                           within group (order by 1000 * extract(epoch from f.created_at - e.created_at)::double precision))
               from houston.trigger_firings f join houston.events e on (e.agentable_id, e.seq) = (f.parent_id, f.seq)",
        )
        .fetch_all(&self.sql)
        .await?;
        Ok([*lags.first().ok_or("no lag")?, *lags.last().ok_or("no lag")?])
    }
}
