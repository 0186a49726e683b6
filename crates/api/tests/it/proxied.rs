//! A server that reaches Postgres through a fault proxy, so that Postgres can hang only for this server.

use std::net::SocketAddr;
use std::path::Path;

use houston_api::{Config, State, serve};
use houston_store::Store;
use houston_testkit::fault_proxy::{FaultProxy, Target};
use tokio::net::TcpListener;

use crate::http::PATIENCE;
use crate::test_api::TestApi;

/// Starts proxy and server. Returns the proxy and the server's address.
pub(crate) async fn start(
    api: &TestApi,
    max_connections: u32,
    change: impl FnOnce(&mut Config),
) -> (FaultProxy, SocketAddr) {
    let url = api.servers.database_url();
    let folder = url.split_once("host=").unwrap().1.split('&').next().unwrap();
    let proxy = FaultProxy::start(Target::Unix(Path::new(folder).join(".s.PGSQL.5432"))).await.unwrap();
    let (user, rest) = url.split_once('@').unwrap();
    let database = rest.split_once('/').unwrap().1.split('?').next().unwrap();
    let url = format!("{user}@{}/{database}", proxy.address());
    let connections = houston_store::Sizes { requests: max_connections, ..houston_store::Sizes::ones() };
    let config = houston_store::Config { url, connections, acquire_timeout: PATIENCE / 4 };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut state = State { store: Store::open(&config).unwrap().api(), ..api.state.clone() };
    change(&mut state.config);
    tokio_util::task::TaskTracker::new().spawn(serve(listener, state, api.stop.clone()));
    (proxy, address)
}
