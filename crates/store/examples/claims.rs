//! Claims agentables with successive ids, one after the other, as a worker does:
//! `cargo run --release -p houston-store --example claims -- <database url> <worker> <first agentable> <claims>`.
//! `cargo xtask bench --scale` starts it and reads what it prints: the microseconds of each claim, `[310,290]`.

#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use houston_domain::clock::SystemClock;
use houston_domain::id::{AgentableId, Ids, WorkerId};
use houston_domain::knowledge::PromptLimits;
use houston_store::claim::{Claim, ClaimRequest, CrashPolicy};
use houston_store::run_context::ContextLimits;
use houston_store::{Config, Store};
use uuid::Uuid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |what: &str| arguments.next().ok_or_else(|| format!("the {what} is missing"));
    let (url, worker) = (argument("database url")?, argument("worker")?);
    let (first, claims) = (argument("first agentable")?.parse::<Uuid>()?, argument("claims")?);
    let config = Config { url, max_connections: 2, acquire_timeout: Duration::from_secs(30) };
    let store = Store::open(&config)?;
    let (ids, worker) = (Ids::new(Arc::new(SystemClock)), WorkerId(worker.parse()?));
    let mut times = Vec::new();
    for nth in 0..claims.parse()? {
        let request = ClaimRequest {
            agentable: AgentableId(Uuid::from_u128(first.as_u128() + nth)),
            worker,
            token: ids.next(),
            next_message: ids.next(),
            crashes: CrashPolicy::default(),
            context: Some(ContextLimits { notes: 10, prompt: PromptLimits::default() }),
        };
        let began = Instant::now();
        let claimed = store.runs().claim(request).await?;
        times.push(began.elapsed().as_micros().to_string());
        if !matches!(claimed, Claim::Run(_)) {
            return Err(format!("agentable {nth} was not claimed").into());
        }
    }
    println!("[{}]", times.join(","));
    Ok(())
}
