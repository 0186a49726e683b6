//! What row-level security costs a request: reads an agentable with it and without, in turn.
//! `cargo run --release -p houston-store --example reads -- <database url> <tenant> <goal> <reads>`
//! prints the medians in microseconds: `{"secured": 310, "free": 190}`.

#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::time::{Duration, Instant};

use houston_domain::id::{AgentableId, TenantId};
use houston_store::{Config, Store, TenantStore};
use uuid::Uuid;

async fn read(store: TenantStore<'_>, goal: AgentableId) -> houston_store::Result<u128> {
    let began = Instant::now();
    store.agentable("goal", goal).await?;
    Ok(began.elapsed().as_micros())
}

fn median(mut times: Vec<u128>) -> u128 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |what: &str| arguments.next().ok_or_else(|| format!("the {what} is missing"));
    let (url, tenant) = (argument("database url")?, TenantId(argument("tenant")?.parse::<Uuid>()?));
    let (goal, reads) = (AgentableId(argument("goal")?.parse::<Uuid>()?), argument("reads")?);
    let config =
        Config { url, connections: houston_store::Sizes::ones(), acquire_timeout: Duration::from_secs(30) };
    let store = Store::open(&config)?;
    let (mut secured, mut free) = (Vec::new(), Vec::new());
    for _ in 0..reads.parse::<usize>()? {
        secured.push(read(store.tenant(tenant), goal).await?);
        free.push(read(store.runs().tenant(tenant), goal).await?);
    }
    println!("{}", serde_json::json!({"secured": median(secured), "free": median(free)}));
    Ok(())
}
