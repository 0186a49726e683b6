//! A loud tenant: what another tenant sees while 10,000 runs of one are queued. Some of these run, as many as its users
//! may have at once; the model takes its time for them, and none for those of the other tenant.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::FutureExt as _;
use houston_testkit::model_server::{JournalDetail, ModelServer, Prepared, Reply, Wire};
use serde_json::json;

use super::load::clients;
use super::quiet::Quiet;
use super::report::{Report, Row};
use super::workload::{self, Timing};
use super::{Bench, database};
use crate::http::Connection;
use crate::spread::Spread;

/// Users of the loud tenant; each may have ten runs at once.
const USERS: usize = 10;
/// Clients that post for it.
const CLIENTS: usize = 16;
/// What its messages say, and how long the model takes for one: 20 of its runs end in a second.
const LOUD: &str = "a loud message";
const TAKES: Duration = Duration::from_secs(5);

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let (queued, messages) = (bench.size(10_000, 600), bench.size(500, 40));
    let servers = bench.servers()?;
    let answer = Reply::text(workload::ANSWER.as_str()).in_pieces(workload::PIECES);
    let [at_once, late] =
        [answer.clone(), answer.after(TAKES)].map(|reply| Prepared::new(&reply, Wire::OpenAiChat));
    let model = ModelServer::start(move |call| {
        let is_loud = memchr::memmem::find(&call.body, LOUD.as_bytes()).is_some();
        Reply::prepared(if is_loud { &late } else { &at_once })
    })
    .await?;
    model.journal().set_detail(JournalDetail::Counts);
    let houston = bench.houston().on([&servers]).model("local/bench", &model);
    let houston = houston.set("HOUSTON_MODEL_TOOLS", "false").start()?;
    let keys = ["quiet", "loud"].map(|name| houston.setup.run(&["key", "create", "--tenant", name]));
    let [quiet, loud] = keys;
    let mut quiet = Quiet::begin(houston.address, &quiet?).await?;
    quiet.messages(messages / 5, "tenants: warming up").await?;
    let alone = quiet.messages(messages, "tenants: one alone").await?;
    // It queues so many runs: a goal and a message each.
    let (at, loud) = (houston.address, loud?);
    let users = Arc::new(Connection::open(at, &loud).await?.users("loud", USERS).await?);
    let post = clients((at, &loud), CLIENTS, ("tenants: the runs of one", queued), move |connection, nth| {
        let users = Arc::clone(&users);
        async move {
            let goal = connection.goal(&users[nth % USERS], "loud").await?;
            connection.send_message(&goal, &json!({ "content": LOUD }).to_string()).await
        }
        .boxed()
    });
    post.await?;
    let waiting = || database::count(&servers, "houston.runs where ended_at is null");
    let before = waiting()?;
    let beside = quiet.messages(messages, "tenants: beside a loud one").await?;
    let after = waiting()?;
    ensure!(after > 0, "the runs of the loud tenant had ended before");

    let [first_event, done, ..] = Timing::rows(&alone);
    let mut rows = vec![first_event.titled("alone"), done.titled("alone")];
    let [first_event, done, phases @ ..] = Timing::rows(&beside);
    rows.extend([first_event.titled("beside"), done.titled("beside")]);
    rows.extend(phases);
    let p99 = |timings: &[Timing], time: fn(&Timing) -> Duration| {
        Spread::of(timings.iter().map(time)).p99.max(0.001)
    };
    let ratio = |time| p99(&beside, time) / p99(&alone, time);
    rows.extend([
        Row::of("p99 of POST → first event, beside / alone", ratio(Timing::first_event)),
        Row::of("p99 of POST → done, beside / alone", ratio(Timing::done)).at_most(&[1.1]),
        Row::parts(
            "runs of the loud tenant that have not ended, before / after",
            vec![before as f64, after as f64],
        ),
    ]);
    Ok(Report {
        about: format!("tenants: {messages} messages alone, then beside {queued} queued runs"),
        rows,
    })
}
