//! Limits per client address before authentication: connections and wrong keys.
//!
//! Behind a proxy all clients have its address, so proxies are exempt (`server.clients.proxies`) and must limit their clients
//! themselves. `X-Forwarded-For` can be set by any client, so it is read only where a proxy adds to it
//! (`server.clients.forwarded`), and then only for wrong keys: of its addresses the last counts that is no proxy.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use axum::http::{Extensions, HeaderMap, HeaderName};
use ipnet::{IpNet, Ipv6Net};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{ApiError, Result};
use crate::state::config::ClientsConfig;
use crate::state::log_throttle::LogThrottle;

/// The window in which wrong keys are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Where proxies write the addresses of their clients.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Number of addresses from which entries without connections and recent wrong keys are removed. Removing looks at all
/// entries, so it happens again only when their number has doubled.
const MAX_ADDRESSES: usize = 10_000;
/// File descriptors reserved for the rest of the process: Postgres, Redis, files.
const RESERVED_FILES: u64 = 200;

/// The address of a client; for IPv6, its /64 network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(IpAddr);

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self(address)
    }
}

/// Copies the address of a client to a request that is sent to the API in its name, within this process: then wrong keys are
/// counted for that client. `X-Forwarded-For`, where it counts, is the caller's to copy.
pub fn carry_client(from: &Extensions, to: &mut Extensions) {
    if let Some(peer) = from.get::<Peer>() {
        to.insert(*peer);
    }
}

/// Addresses with open connections or recent wrong keys.
#[derive(Debug)]
pub(crate) struct Peers {
    config: ClientsConfig,
    /// Maximum number of connections: as configured, or fewer if the process may not open so many files.
    max_connections: usize,
    state: Mutex<PeerState>,
    refusals: LogThrottle,
}

#[derive(Debug, Default)]
struct PeerState {
    connections: usize,
    addresses: HashMap<IpAddr, Address>,
    /// Entries that the latest removal left.
    remaining: usize,
}

#[derive(Debug, Default)]
struct Address {
    connections: usize,
    wrong_keys: u32,
    /// When the first wrong key of the window came.
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
        let max_connections = config.max_connections.min(max_connections_by_open_files());
        Self { config, max_connections, state: Mutex::default(), refusals: LogThrottle::default() }
    }

    /// Logs a warning if fewer connections are possible than configured.
    pub(crate) fn log_limit(&self) {
        let (configured, connections) = (self.config.max_connections, self.max_connections);
        if connections < configured {
            tracing::warn!(
                connections,
                configured,
                "the limit on open files allows fewer connections than configured; raise it (ulimit -Hn)"
            );
        }
    }

    /// Counts a connection until the returned guard is dropped; `None` if there are too many.
    pub(crate) fn connect(&self, address: IpAddr) -> Option<ConnectionGuard<'_>> {
        let peer = self.peer(address);
        let mut state = self.state.lock();
        let own = state.addresses.get(&peer.0).map_or(0, |address| address.connections);
        let fits = state.connections < self.max_connections
            && (own < self.config.max_connections_per_address || self.is_proxy(peer));
        if !fits {
            drop(state);
            if let Some(connections) = self.refusals.count() {
                tracing::warn!(connections, latest = %address, "too many connections: some were closed");
            }
            return None;
        }
        state.connections += 1;
        state.address(peer).connections += 1;
        Some(ConnectionGuard { peers: self, peer })
    }

    /// Counts a key as wrong before it is looked up; [`KeyAttempt::uncount`] takes that back.
    ///
    /// # Errors
    /// [`ApiError::TooManyKeys`] when the address has sent too many wrong keys within a minute.
    pub(crate) fn attempt(&self, peer: Option<&Peer>) -> Result<KeyAttempt<'_>> {
        let peer = peer.copied().filter(|peer| !self.is_proxy(*peer));
        if let Some(peer) = peer {
            let mut state = self.state.lock();
            let address = state.address(peer);
            if address.wrong_keys(Instant::now()) >= self.config.wrong_keys_per_minute {
                return Err(ApiError::TooManyKeys);
            }
            address.wrong_keys += 1;
        }
        Ok(KeyAttempt { peers: self, peer })
    }

    /// The client of a request: the address that its proxies have written down, if they do, or else that of the connection.
    pub(crate) fn client(&self, peer: Peer, headers: &HeaderMap) -> Peer {
        if !self.config.forwarded || !self.is_proxy(peer) {
            return peer;
        }
        let texts = headers.get_all(FORWARDED_FOR).iter().rev().filter_map(|value| value.to_str().ok());
        let addresses = texts.flat_map(|text| text.rsplit(',')).map(|text| text.trim().parse::<IpAddr>());
        // What is before something else than an address was not written by a proxy.
        let mut clients = addresses.map_while(Result::ok).map(|address| self.peer(address));
        clients.find(|client| !self.is_proxy(*client)).unwrap_or(peer)
    }

    fn is_proxy(&self, peer: Peer) -> bool {
        self.config.proxies.iter().any(|proxies| proxies.contains(&peer.0))
    }

    /// The client of an address. An IPv6 client usually has a /64 network, so the network is counted as one client.
    fn peer(&self, address: IpAddr) -> Peer {
        let address = address.to_canonical();
        let network = match address {
            IpAddr::V6(v6) if !self.is_proxy(Peer(address)) => Ipv6Net::new(v6, 64).ok(),
            _ => None,
        };
        Peer(network.map_or(address, |network| IpNet::V6(network).network()))
    }
}

impl PeerState {
    fn address(&mut self, peer: Peer) -> &mut Address {
        if self.addresses.len() >= MAX_ADDRESSES.max(2 * self.remaining) {
            let now = Instant::now();
            self.addresses.retain(|_, address| address.connections > 0 || address.wrong_keys(now) > 0);
            self.remaining = self.addresses.len();
        }
        self.addresses.entry(peer.0).or_default()
    }
}

/// Guard of a counted connection.
#[derive(Debug)]
pub(crate) struct ConnectionGuard<'p> {
    peers: &'p Peers,
    pub(crate) peer: Peer,
}

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.peers.state.lock();
        state.connections -= 1;
        if let Some(address) = state.addresses.get_mut(&self.peer.0) {
            address.connections -= 1;
            if address.connections == 0 && address.wrong_keys == 0 {
                state.addresses.remove(&self.peer.0);
            }
        }
    }
}

/// A key that was counted as wrong, if its address is known and no proxy.
#[derive(Debug)]
pub(crate) struct KeyAttempt<'p> {
    peers: &'p Peers,
    peer: Option<Peer>,
}

impl KeyAttempt<'_> {
    /// Takes the count back: the key was valid, or could not be looked up.
    pub(crate) fn uncount(self) {
        let mut state = self.peers.state.lock();
        if let Some(address) = self.peer.and_then(|peer| state.addresses.get_mut(&peer.0)) {
            address.wrong_keys = address.wrong_keys.saturating_sub(1);
        }
    }
}

/// How many connections the limit on open files allows.
fn max_connections_by_open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = limit.map_or(u64::MAX, |limit| limit.saturating_sub(RESERVED_FILES).max(16));
    usize::try_from(files).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::config::Config;

    fn peers(change: impl FnOnce(&mut ClientsConfig)) -> Peers {
        let shipped = include_str!("../../../../jobs/server.toml");
        let mut config = toml::from_str::<Config>(shipped).unwrap();
        change(&mut config.clients);
        Peers::new(config.clients)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn connections_are_limited_per_address() {
        let peers = peers(|config| config.max_connections_per_address = 2);
        let first = peers.connect(address("192.0.2.1"));
        let _second = peers.connect(address("192.0.2.1"));
        assert!(first.is_some() && peers.connect(address("192.0.2.1")).is_none());
        assert!(peers.connect(address("192.0.2.2")).is_some());
        drop(first);
        assert!(peers.connect(address("::ffff:192.0.2.1")).is_some(), "the same address in another notation");
        let many: Vec<_> = (0..100).filter_map(|_| peers.connect(address("127.0.0.1"))).collect();
        assert_eq!(many.len(), 100, "a proxy has many clients");
        let _one = peers.connect(address("2001:db8::1"));
        let _two = peers.connect(address("2001:db8::2"));
        assert!(peers.connect(address("2001:db8::3")).is_none(), "a network is one client");
        assert!(peers.connect(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn connections_are_limited_in_total() {
        let peers = peers(|config| config.max_connections = 2);
        let held = [peers.connect(address("127.0.0.1")), peers.connect(address("192.0.2.1"))];
        assert!(held.iter().all(Option::is_some) && peers.connect(address("192.0.2.2")).is_none());
    }

    #[test]
    fn client_behind_proxies_is_the_last_address_that_is_none() {
        let peers = |forwarded| {
            peers(|config| {
                config.proxies.push("10.0.0.0/8".parse().unwrap());
                config.forwarded = forwarded;
            })
        };
        let client = |forwarded, from: &str, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED_FOR, line.parse().unwrap());
            }
            peers(forwarded).client(Peer(address(from)), &headers).0.to_string()
        };
        let written = ["6.6.6.6, 192.0.2.1", "10.0.0.7"];
        assert_eq!(client(true, "10.0.0.5", &written), "192.0.2.1");
        assert_eq!(client(false, "10.0.0.5", &written), "10.0.0.5");
        assert_eq!(client(true, "203.0.113.9", &written), "203.0.113.9", "who is no proxy is not believed");
        assert_eq!(client(true, "10.0.0.5", &[]), "10.0.0.5");
        assert_eq!(client(true, "10.0.0.5", &["6.6.6.6, unknown"]), "10.0.0.5");
        assert_eq!(client(true, "10.0.0.5", &["2001:db8::9"]), "2001:db8::", "a network is one client");
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_without_recent_activity_are_forgotten() {
        let peers = peers(|config| config.wrong_keys_per_minute = 2);
        let guess = |from: std::ops::Range<u32>| {
            for number in from {
                drop(peers.attempt(Some(&Peer(IpAddr::V4(number.into())))));
            }
            peers.state.lock().addresses.len()
        };
        assert_eq!(guess(0..15_000), 15_000, "all are recent");
        tokio::time::advance(WINDOW).await;
        let left = guess(15_000..22_000);
        assert!(left < 10_000, "{left} addresses are kept");
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_keys_are_limited_per_address_and_minute() {
        let peers = peers(|config| config.wrong_keys_per_minute = 2);
        let guesser = Peer(address("192.0.2.1"));
        for _ in 0..5 {
            peers.attempt(Some(&guesser)).unwrap().uncount();
        }
        assert!(peers.attempt(Some(&guesser)).is_ok() && peers.attempt(Some(&guesser)).is_ok());
        assert!(matches!(peers.attempt(Some(&guesser)), Err(ApiError::TooManyKeys)));
        assert!(peers.attempt(Some(&Peer(address("192.0.2.2")))).is_ok(), "another address");
        tokio::time::advance(WINDOW).await;
        assert!(peers.attempt(Some(&guesser)).is_ok());
    }
}
