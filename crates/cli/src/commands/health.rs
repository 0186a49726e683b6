//! `houston health`: whether a process on this host can do its work, for the health checks of containers.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use houston_domain::health::HealthChange;

use super::agentable::{at, print_table};
use super::{Context, Failure, Result};
use crate::output::{print, print_json};
use crate::system::host;

/// The time limit of each part of a request.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The beginning of an answer that is read: its status, and what is not ready.
const MAX_ANSWER: u64 = 4096;
/// How many changes of checks are listed.
const LISTED: u16 = 50;

/// Check whether the API on this machine can do its work (`GET /readyz`), or with --worker, whether a worker of this host may
/// claim runs. Changes nothing. Exits 1 when not.
#[derive(Debug, Args)]
pub(crate) struct Health {
    /// Check that a worker of this host holds a lease, in Postgres
    #[arg(long)]
    worker: bool,
    /// Address of the API, `address:port` [default: HOUSTON_SERVER__ADDRESS, server.toml]
    #[arg(long, conflicts_with = "worker")]
    address: Option<String>,
    /// List when checks of the health monitor last changed their status and what they found, from Postgres
    #[arg(long, conflicts_with_all = ["worker", "address"])]
    history: bool,
    /// With --history: print one JSON object
    #[arg(long, requires = "history")]
    json: bool,
}

impl Health {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        if self.worker {
            return worker(&context);
        }
        if self.history {
            return history(&context, self.json);
        }
        let address = self.address.as_ref().unwrap_or(&context.loaded.settings.server.address);
        let address = reachable(address).map_err(Failure::Usage)?;
        let answer = ask(address).with_context(|| format!("the API at {address} does not answer"))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
        if head.split(' ').nth(1) != Some("200") {
            return Err(Failure::Other(anyhow!("the API at {address} is not ready: {}", body.trim())));
        }
        print("ready");
        Ok(())
    }
}

/// The address as this machine reaches it: a server that listens everywhere listens on the loopback interface, too.
fn reachable(address: &str) -> anyhow::Result<SocketAddr> {
    let mut found = address.to_socket_addrs().with_context(|| format!("the address `{address}`"))?;
    let mut found = found.next().with_context(|| format!("there is no address `{address}`"))?;
    if found.ip().is_unspecified() {
        found.set_ip(match found.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    Ok(found)
}

/// Sends `GET /readyz`.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether a worker of this host is alive in every cell.
fn worker(context: &Context) -> Result<()> {
    context.with_databases(async |stores, _| {
        for store in stores.iter() {
            if !store.runs().worker_is_alive_on(&host()).await? {
                return Err(Failure::Other(anyhow!("no worker of the host {} holds a lease", host())));
            }
        }
        print("ready");
        Ok(())
    })
}

/// Prints the latest changes of all cells, the newest first.
fn history(context: &Context, is_json: bool) -> Result<()> {
    context.with_databases(async |stores, _| {
        let mut changes = Vec::new();
        for (cell, store) in stores.named() {
            let cell = (stores.count() > 1).then(|| cell.to_string());
            for change in store.api().health_changes(None, None, i64::from(LISTED)).await? {
                changes.push(HealthChange { cell: cell.clone(), ..change });
            }
        }
        changes.sort_by(|one, other| {
            (other.at, &other.check, &other.cell).cmp(&(one.at, &one.check, &one.cell))
        });
        changes.truncate(usize::from(LISTED));
        if is_json {
            print_json(&serde_json::json!({"data": changes}));
        } else {
            print_table(["AT", "STATUS", "CHECK", "FOUND"], changes.into_iter().map(row));
        }
        Ok(())
    })
}

fn row(change: HealthChange) -> [String; 4] {
    let check = match change.cell {
        Some(cell) => format!("{} ({cell})", change.check),
        None => change.check,
    };
    [at(change.at.0), change.status.as_str().to_owned(), check, change.detail.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_listen_everywhere_are_asked_on_loopback() {
        for (address, expected) in
            [("0.0.0.0:8080", "127.0.0.1:8080"), ("[::]:80", "[::1]:80"), ("10.0.0.5:1", "10.0.0.5:1")]
        {
            assert_eq!(reachable(address).unwrap().to_string(), expected);
        }
        assert!(reachable("8080").is_err());
    }
}
