//! What may come from one address before it is known who calls: connections, and wrong keys.
//!
//! `X-Forwarded-For` is not read: anybody can write it. Behind a proxy all clients have its address, so proxies are
//! exempt (`server.clients.proxies`), and bound their clients themselves.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::{IpNet, Ipv6Net};
use tokio::time::Instant;

use crate::config::ClientsConfig;
use crate::error::ApiError;
use crate::summary::Summary;

/// For how long wrong keys are counted together.
const WINDOW: Duration = Duration::from_secs(60);
/// How many addresses are remembered before those are forgotten of which nothing is known any more.
const MOST_ADDRESSES: usize = 10_000;
/// File descriptors that connections of clients leave to the rest of the process: Postgres, Redis, files.
const KEPT_FILES: u64 = 200;

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(IpAddr);

/// The addresses that are connected, or have sent wrong keys.
#[derive(Debug)]
pub(crate) struct Peers {
    config: ClientsConfig,
    /// Connections at once: fewer than are configured, when the process may not open so many files.
    most_connections: usize,
    known: Mutex<Known>,
    refusals: Summary,
}

#[derive(Debug, Default)]
struct Known {
    connections: usize,
    addresses: HashMap<IpAddr, Address>,
}

#[derive(Debug, Default)]
struct Address {
    connections: usize,
    wrong_keys: u32,
    /// When the first of the wrong keys came.
    since: Option<Instant>,
}

impl Address {
    fn wrong_keys(&mut self, now: Instant) -> u32 {
        if self.since.is_none_or(|since| now >= since + WINDOW) {
            (self.wrong_keys, self.since) = (0, Some(now));
        }
        self.wrong_keys
    }
}

impl Peers {
    pub(crate) fn new(config: ClientsConfig) -> Self {
        let most_connections = config.max_connections.min(files());
        Self { config, most_connections, known: Mutex::default(), refusals: Summary::default() }
    }

    /// Says in the log when fewer connections are possible than are configured.
    pub(crate) fn note_limit(&self) {
        let (configured, connections) = (self.config.max_connections, self.most_connections);
        if connections < configured {
            tracing::warn!(
                connections,
                configured,
                "the limit on open files is low: raise it (ulimit -Hn) for as many connections as are configured"
            );
        }
    }

    /// Counts a connection, until the answer is dropped; `None` when there are too many.
    pub(crate) fn connect(&self, address: IpAddr) -> Option<Connected<'_>> {
        let peer = self.peer(address);
        let mut known = self.lock();
        let own = known.addresses.get(&peer.0).map_or(0, |address| address.connections);
        let fits = known.connections < self.most_connections
            && (own < self.config.max_connections_per_address || self.is_proxy(peer));
        if !fits {
            drop(known);
            if let Some(connections) = self.refusals.note() {
                tracing::warn!(connections, latest = %address, "connections were refused: there are too many");
            }
            return None;
        }
        known.connections += 1;
        known.address(peer).connections += 1;
        Some(Connected { peers: self, peer })
    }

    /// Counts a key that is not known to be right, as if it were wrong.
    ///
    /// # Errors
    /// [`ApiError::TooManyKeys`] when the address has sent too many.
    pub(crate) fn attempt(&self, peer: &Peer) -> Result<Attempt<'_>, ApiError> {
        if !self.is_proxy(*peer) {
            let mut known = self.lock();
            let address = known.address(*peer);
            if address.wrong_keys(Instant::now()) >= self.config.wrong_keys_per_minute {
                return Err(ApiError::TooManyKeys);
            }
            address.wrong_keys += 1;
        }
        Ok(Attempt { peers: self, peer: *peer })
    }

    fn is_proxy(&self, peer: Peer) -> bool {
        self.config.proxies.iter().any(|proxies| proxies.contains(&peer.0))
    }

    /// Whoever has one address of IPv6 has 2^64: the network stands for all of them.
    fn peer(&self, address: IpAddr) -> Peer {
        let address = address.to_canonical();
        let network = match address {
            IpAddr::V6(v6) if !self.is_proxy(Peer(address)) => Ipv6Net::new(v6, 64).ok(),
            _ => None,
        };
        Peer(network.map_or(address, |network| IpNet::V6(network).network()))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn address(&mut self, peer: Peer) -> &mut Address {
        if self.addresses.len() >= MOST_ADDRESSES {
            let now = Instant::now();
            self.addresses.retain(|_, address| address.connections > 0 || address.wrong_keys(now) > 0);
        }
        self.addresses.entry(peer.0).or_default()
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connected<'p> {
    peers: &'p Peers,
    pub(crate) peer: Peer,
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        let mut known = self.peers.lock();
        known.connections -= 1;
        if let Some(address) = known.addresses.get_mut(&self.peer.0) {
            address.connections -= 1;
            if address.connections == 0 && address.wrong_keys == 0 {
                known.addresses.remove(&self.peer.0);
            }
        }
    }
}

/// A key that counts as wrong.
#[derive(Debug)]
pub(crate) struct Attempt<'p> {
    peers: &'p Peers,
    peer: Peer,
}

impl Attempt<'_> {
    /// It was right, or nobody could say.
    pub(crate) fn forgive(self) {
        if let Some(address) = self.peers.lock().addresses.get_mut(&self.peer.0) {
            address.wrong_keys = address.wrong_keys.saturating_sub(1);
        }
    }
}

/// How many connections the limit on open files leaves room for.
fn files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = limit.map_or(u64::MAX, |limit| limit.saturating_sub(KEPT_FILES).max(16));
    usize::try_from(files).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(change: impl FnOnce(&mut ClientsConfig)) -> Peers {
        let mut config = ClientsConfig::default();
        change(&mut config);
        Peers::new(config)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_its_connections_and_others_have_theirs() {
        let peers = peers(|config| config.max_connections_per_address = 2);
        let first = peers.connect(address("192.0.2.1"));
        let _second = peers.connect(address("192.0.2.1"));
        assert!(first.is_some() && peers.connect(address("192.0.2.1")).is_none());
        assert!(peers.connect(address("192.0.2.2")).is_some());
        drop(first);
        assert!(peers.connect(address("::ffff:192.0.2.1")).is_some(), "the same address, written otherwise");
        let many: Vec<_> = (0..100).filter_map(|_| peers.connect(address("127.0.0.1"))).collect();
        assert_eq!(many.len(), 100, "a proxy has many clients");
        let _one = peers.connect(address("2001:db8::1"));
        let _two = peers.connect(address("2001:db8::2"));
        assert!(peers.connect(address("2001:db8::3")).is_none(), "a network is one client");
        assert!(peers.connect(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn all_connections_together_have_a_bound() {
        let peers = peers(|config| config.max_connections = 2);
        let held = [peers.connect(address("127.0.0.1")), peers.connect(address("192.0.2.1"))];
        assert!(held.iter().all(Option::is_some) && peers.connect(address("192.0.2.2")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_keys_of_an_address_are_counted_for_a_minute() {
        let peers = peers(|config| config.wrong_keys_per_minute = 2);
        let guesser = Peer(address("192.0.2.1"));
        for _ in 0..5 {
            peers.attempt(&guesser).unwrap().forgive();
        }
        assert!(peers.attempt(&guesser).is_ok() && peers.attempt(&guesser).is_ok());
        assert!(matches!(peers.attempt(&guesser), Err(ApiError::TooManyKeys)));
        assert!(peers.attempt(&Peer(address("192.0.2.2"))).is_ok(), "another address");
        tokio::time::advance(WINDOW).await;
        assert!(peers.attempt(&guesser).is_ok());
    }
}
