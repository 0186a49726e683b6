//! Which server a new connection goes to: the one of the URL, the master that a sentinel names, or the node of a cluster
//! that has Houston's keys. It is asked anew for each connection, and a connection that fails is opened again: so
//! connections follow a failover without a restart. A connection to a former master need not fail: it is asked now and then
//! whether another server takes the writes ([`Servers::check`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError,
    RedisResult, Value,
};

use crate::error::{Failure, within};

/// Time limit for connecting.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The port of a sentinel whose address has none.
const SENTINEL_PORT: u16 = 26_379;

/// The servers of a URL.
pub(crate) struct Servers {
    asked: Asked,
    /// The servers that are asked for the one to use, or the only one.
    seeds: Vec<Client>,
    /// How to connect to the server that is found: everything but its address.
    found: ConnectionInfo,
    /// The seed that answered last: it is asked first.
    first: AtomicUsize,
}

/// What the seeds are asked.
enum Asked {
    /// Nothing: there is one server.
    Nothing,
    /// Sentinels: the address of the master with this name.
    Master(String),
    /// Nodes of a cluster: which of them has the slot of this key.
    Owner(String),
}

fn invalid(what: &'static str) -> RedisError {
    (ErrorKind::InvalidClientConfig, what).into()
}

fn no_server(what: &'static str) -> Failure {
    Failure::Redis((ErrorKind::Client, what).into())
}

/// For a connection that is opened only to see whether the server is the right one.
fn brief() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(CONNECT_TIMEOUT))
}

/// A URL for one host of a list, in the form that the `redis` crate parses.
fn url_of(scheme: &str, login: &str, host: &str, port: Option<u16>, db: &str) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match port.filter(|_| !has_port) {
        Some(port) => format!("{scheme}://{login}{host}:{port}/{db}"),
        None => format!("{scheme}://{login}{host}/{db}"),
    }
}

impl Servers {
    /// Parses `redis://…`, `redis+unix://…`, `redis+sentinel://[user:password@]host[:port],…/master[/db]` or
    /// `redis+cluster://[user:password@]host[:port],…`; the last two also as `rediss+…`, over TLS. `key` is one of those
    /// that will be used, with their hash tag. User and password are those of Redis: sentinels are asked without.
    pub(crate) fn parse(url: &str, key: impl FnOnce() -> String) -> RedisResult<Self> {
        let parts = url.split_once("://").and_then(|(scheme, rest)| Some((scheme.split_once('+')?, rest)));
        let Some(((tls @ ("redis" | "rediss"), kind @ ("sentinel" | "cluster")), rest)) = parts else {
            let client = Client::open(url)?;
            let found = client.get_connection_info().clone();
            return Ok(Self {
                asked: Asked::Nothing,
                seeds: vec![client],
                found,
                first: AtomicUsize::new(0),
            });
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), authority),
        };
        let (name, db) =
            if kind == "sentinel" { path.split_once('/').unwrap_or((path, "")) } else { ("", path) };
        let (asked, own_login, port) = match kind {
            "sentinel" if name.is_empty() => return Err(invalid("the name of the master is missing")),
            "sentinel" => (Asked::Master(name.to_owned()), "", Some(SENTINEL_PORT)),
            _ if !db.is_empty() && db != "0" => return Err(invalid("a cluster has the database 0 only")),
            _ => (Asked::Owner(key()), login.as_str(), None),
        };
        let seeds: RedisResult<Vec<Client>> =
            hosts.split(',').map(|host| Client::open(url_of(tls, own_login, host, port, ""))).collect();
        let host = hosts.split(',').next().unwrap_or_default();
        let found = url_of(tls, &login, host, None, db).into_connection_info()?;
        Ok(Self { asked, seeds: seeds?, found, first: AtomicUsize::new(0) })
    }

    /// Whether the URL is that of a cluster, whose commands take keys of one slot only.
    pub(crate) fn is_cluster(url: &str) -> bool {
        url.starts_with("redis+cluster://") || url.starts_with("rediss+cluster://")
    }

    /// Whether connections are encrypted.
    pub(crate) fn has_tls(&self) -> bool {
        matches!(self.found.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// The addresses, without passwords.
    pub(crate) fn address(&self) -> String {
        let addresses: Vec<String> =
            self.seeds.iter().map(|seed| seed.get_connection_info().addr().to_string()).collect();
        addresses.join(",")
    }

    /// A client for the server that takes writes.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        if let (Asked::Nothing, [only]) = (&self.asked, &*self.seeds) {
            return Ok(only.clone());
        }
        let config = brief();
        Ok(Box::pin(self.connect(&config)).await?.0)
    }

    /// The server that the first seed names which answers.
    async fn find(&self) -> Result<Client, Failure> {
        let mut last = no_server("no address is given");
        let first = self.first.load(Relaxed);
        for nth in (0..self.seeds.len()).map(|nth| (first + nth) % self.seeds.len()) {
            match within(CONNECT_TIMEOUT, self.ask(&self.seeds[nth])).await {
                Ok(client) => {
                    self.first.store(nth, Relaxed);
                    return Ok(client);
                }
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// Fails when more seeds name another server than name this one, and that one takes writes. Some may be cut off together with
    /// a former master, so the first answer is not enough; some may have another name for the same server; and those that know
    /// less may be more: without a look at the other server, connections would be given up again and again. While none of them
    /// answers, none does.
    pub(crate) async fn check(&self, client: &Client) -> Result<(), Failure> {
        if let Asked::Nothing = self.asked {
            return Ok(());
        }
        let address = client.get_connection_info().addr().to_string();
        let asked: Vec<_> = self.seeds.iter().map(|seed| within(CONNECT_TIMEOUT, self.ask(seed))).collect();
        let named = join_all(asked).await;
        let mut by_name: BTreeMap<String, Vec<(usize, Client)>> = BTreeMap::new();
        for (nth, named) in named.into_iter().enumerate() {
            if let Ok(named) = named {
                let name = named.get_connection_info().addr().to_string();
                by_name.entry(name).or_default().push((nth, named));
            }
        }
        let own = by_name.remove(&address).map_or(0, |seeds| seeds.len());
        let others = by_name.into_values().max_by_key(Vec::len).filter(|others| others.len() > own);
        let Some((first, other)) = others.and_then(|others| others.into_iter().next()) else { return Ok(()) };
        let config = brief();
        if Box::pin(self.open(&other, &config)).await.is_err() {
            return Ok(());
        }
        self.first.store(first, Relaxed);
        Err(no_server("another server takes the writes by now"))
    }

    /// Finds the server that takes writes, and connects to it.
    pub(crate) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
    ) -> Result<(Client, MultiplexedConnection), Failure> {
        let connected = match self.find().await {
            Ok(client) => self.open(&client, config).await.map(|connection| (client, connection)),
            Err(failure) => Err(failure),
        };
        if connected.is_err() {
            // The seed may know less than the others: another one is asked next time.
            self.first.store((self.first.load(Relaxed) + 1) % self.seeds.len(), Relaxed);
        }
        connected
    }

    async fn open(
        &self,
        client: &Client,
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, Failure> {
        let mut connection = client.get_multiplexed_async_connection_with_config(config).await?;
        if let Asked::Master(_) = self.asked {
            // A sentinel may name the former master for a while, which may be a replica by now.
            let role = redis::cmd("ROLE");
            let role: Vec<Value> = within(CONNECT_TIMEOUT, role.query_async(&mut connection)).await?;
            let role = role.into_iter().next().and_then(|role| redis::from_redis_value::<String>(role).ok());
            if role.as_deref() != Some("master") {
                return Err(no_server("the server that a sentinel named is no master"));
            }
        }
        Ok(connection)
    }

    async fn ask(&self, seed: &Client) -> Result<Client, Failure> {
        let (host, port) = match &self.asked {
            Asked::Nothing => return Ok(seed.clone()),
            Asked::Master(name) => {
                let mut connection = seed.get_multiplexed_async_connection().await?;
                let mut command = redis::cmd("SENTINEL");
                command.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
                let named: Option<(String, u16)> = command.query_async(&mut connection).await?;
                named.ok_or_else(|| no_server("a sentinel does not know a master with this name"))?
            }
            Asked::Owner(key) => {
                let mut connection = seed.get_multiplexed_async_connection().await?;
                let mut commands = redis::pipe();
                commands.cmd("CLUSTER").arg("KEYSLOT").arg(key).cmd("CLUSTER").arg("SLOTS");
                let (slot, ranges): (u16, Vec<Vec<Value>>) = commands.query_async(&mut connection).await?;
                let (host, port) = owner(slot, ranges)
                    .ok_or_else(|| no_server("no node of the cluster has the slot of Houston's keys"))?;
                (host.unwrap_or_else(|| host_of(seed)), port)
            }
        };
        Ok(Client::open(self.found.clone().set_addr(self.at(host, port)))?)
    }

    fn at(&self, host: String, port: u16) -> ConnectionAddr {
        match self.found.addr() {
            ConnectionAddr::TcpTls { insecure, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: None }
            }
            _ => ConnectionAddr::Tcp(host, port),
        }
    }
}

fn host_of(client: &Client) -> String {
    match client.get_connection_info().addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => String::new(),
    }
}

/// Host and port of the master of `slot`, from the answer to CLUSTER SLOTS; no host: that of the node that was asked.
fn owner(slot: u16, ranges: Vec<Vec<Value>>) -> Option<(Option<String>, u16)> {
    ranges.into_iter().find_map(|range| {
        let mut parts = range.into_iter();
        let first: u16 = redis::from_redis_value(parts.next()?).ok()?;
        let last: u16 = redis::from_redis_value(parts.next()?).ok()?;
        let master: Vec<Value> = redis::from_redis_value(parts.next()?).ok()?;
        if !(first..=last).contains(&slot) {
            return None;
        }
        let mut master = master.into_iter();
        let host: Option<String> = redis::from_redis_value(master.next()?).ok()?;
        let port: u16 = redis::from_redis_value(master.next()?).ok()?;
        Some((host.filter(|host| !host.is_empty() && host != "?"), port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: Value, port: i64) -> Vec<Value> {
        let node = |host, port| Value::Array(vec![host, Value::Int(port)]);
        let replica = node(Value::BulkString(b"replica".to_vec()), 1);
        vec![Value::Int(first), Value::Int(last), node(host, port), replica]
    }

    #[test]
    fn owner_of_a_slot_is_the_master_of_its_range() {
        let ranges = || {
            let host = Value::BulkString(b"b".to_vec());
            vec![range(0, 99, Value::Nil, 7000), range(100, 16_383, host, 7001)]
        };
        assert_eq!(owner(99, ranges()), Some((None, 7000)), "no host: that of the node that was asked");
        assert_eq!(owner(100, ranges()), Some((Some("b".to_owned()), 7001)));
        assert_eq!(owner(0, vec![range(1, 2, Value::Nil, 7000)]), None);
    }

    #[test]
    fn hosts_of_a_list_get_a_port_and_the_login() {
        assert_eq!(url_of("redis", "u:p@", "a", Some(26_379), ""), "redis://u:p@a:26379/");
        assert_eq!(url_of("rediss", "", "a:7000", Some(26_379), ""), "rediss://a:7000/");
        assert_eq!(url_of("redis", "", "[::1]", Some(1), "3"), "redis://[::1]:1/3");
    }

    #[test]
    fn sentinels_are_asked_without_the_password_of_redis() {
        let url = "redis+sentinel://u:secret@a,b:5000/main/2";
        let servers = Servers::parse(url, String::new).unwrap();
        assert_eq!(servers.address(), "a:26379,b:5000");
        assert!(servers.seeds[0].get_connection_info().redis_settings().password().is_none());
        assert_eq!(servers.found.redis_settings().password(), Some("secret"));
        assert_eq!(servers.found.redis_settings().db(), 2);
        assert!(matches!(&servers.asked, Asked::Master(name) if name == "main"));
    }
}
