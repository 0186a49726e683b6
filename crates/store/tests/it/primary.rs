//! A URL with several hosts, or with a pooler.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use houston_domain::id::WorkerId;
use houston_store::lease::LeaseConnection;
use houston_store::{Config, Sizes, Store};
use houston_testkit::fault_proxy::{Fault, FaultProxy, Target};
use houston_testkit::servers::TestServers;
use uuid::Uuid;

use crate::test_store::TestStore;

const PATIENCE: Duration = Duration::from_secs(60);

/// Two ways to one Postgres, as if it were two hosts.
struct TwoHosts {
    hosts: [FaultProxy; 2],
    _servers: TestServers,
}

impl TwoHosts {
    async fn start() -> Self {
        let servers = TestServers::start_with(|config| config.redis = false).unwrap();
        let socket = servers.postgres_socket().unwrap();
        let proxy = async || FaultProxy::start(Target::Unix(socket.clone())).await.unwrap();
        Self { hosts: [proxy().await, proxy().await], _servers: servers }
    }

    fn url(&self, parameters: &str) -> String {
        let [first, second] = self.hosts.each_ref().map(FaultProxy::address);
        match parameters {
            "direct" => format!("postgres://houston@{first}/houston?sslmode=disable&direct={second}"),
            other => format!("postgres://houston@{first},{second}/houston?sslmode=disable{other}"),
        }
    }

    /// Only this host can be reached.
    fn leave(&self, host: usize) {
        self.hosts[host].set(Fault::None);
        self.hosts[1 - host].set(Fault::Reset);
    }
}

fn open(url: String) -> Store {
    Store::open(&Config { url, connections: Sizes::ones(), acquire_timeout: Duration::from_secs(5) }).unwrap()
}

async fn answers(store: &Store) {
    let begun = Instant::now();
    while let Err(error) = store.event_position().await {
        assert!(begun.elapsed() < PATIENCE, "no answer: {error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn pool_and_lease_move_to_the_host_that_answers() {
    let two = TwoHosts::start().await;
    let store = open(two.url("&target_session_attrs=read-write"));
    store.find_primary().await.unwrap();
    store.migrate().await.unwrap();
    let moves = async {
        for (nth, host) in (1..).zip([0, 1, 0]) {
            two.leave(host);
            answers(&store).await;
            let worker = WorkerId(Uuid::from_u128(nth));
            let lease = LeaseConnection::open(&two.url(""), worker, Duration::from_secs(60)).await.unwrap();
            assert!(lease.is_locked());
        }
    };
    tokio::select! {
        () = moves => {}
        () = store.follow_primary() => panic!("it follows as long as the process lives"),
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn former_primary_is_refused_while_the_new_one_is_away() {
    let former = TestServers::start_with(|config| config.redis = false).unwrap();
    let promoted = tokio::task::block_in_place(|| former.start_standby()).unwrap();
    let proxy = async |servers: &TestServers| {
        FaultProxy::start(Target::Unix(servers.postgres_socket().unwrap())).await.unwrap()
    };
    let (first, second) = (proxy(&former).await, proxy(&promoted).await);
    let url = format!("postgres://houston@{},{}/houston?sslmode=disable", first.address(), second.address());
    let store = open(url.clone());
    store.find_primary().await.unwrap();
    store.event_position().await.unwrap();
    let mut notifications = store.runs().listen().await.unwrap();
    // The former primary lives on, as if it had been cut off: no connection to it breaks.
    tokio::task::block_in_place(|| promoted.promote()).unwrap();
    store.find_primary().await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, notifications.recv()).await.unwrap().unwrap_err();
    assert!(ended.to_string().contains("former primary"), "{ended}");
    drop(notifications);
    let left = "select count(*) from pg_stat_activity where application_name = 'houston'";
    let begun = Instant::now();
    while former.sql(left).unwrap() != "0" {
        // Whatever is idle is looked at when it is used.
        store.event_position().await.unwrap();
        assert!(begun.elapsed() < PATIENCE, "a connection to the former primary is kept");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    second.set(Fault::Reset);
    let refused = store.find_primary().await.unwrap_err();
    assert!(refused.is_transient() && refused.to_string().contains("former primary"), "{refused}");
    let worker = WorkerId(Uuid::from_u128(1));
    let refused = LeaseConnection::open(&url, worker, Duration::from_secs(60)).await.unwrap_err();
    assert!(refused.to_string().contains("former primary"), "{refused}");
    // Points to the first host, as before a search.
    let other =
        Store::open(&Config { url, connections: Sizes::ones(), acquire_timeout: Duration::from_millis(500) })
            .unwrap();
    other.event_position().await.unwrap_err();
    other.close().await;

    second.set(Fault::None);
    store.find_primary().await.unwrap();
    answers(&store).await;
    store.close().await;
}

#[tokio::test]
async fn pooled_connections_lack_the_settings_of_sessions() {
    let two = TwoHosts::start().await;
    let pooled = open(two.url("direct"));
    pooled.migrate().await.unwrap();
    let missing = pooled.missing_timeouts().await.unwrap();
    assert_eq!(missing, ["idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout"]);
    // The pooler is away: what needs a session does not care.
    two.leave(1);
    pooled.runs().listen().await.unwrap();
    let store = open(two.url(""));
    store.find_primary().await.unwrap();
    assert!(store.missing_timeouts().await.unwrap().is_empty());
    pooled.close().await;
    store.close().await;
}

/// A server that closes what is idle, a pooler that is started again, a failover that is over: no request pays for it,
/// whether the connections have been idle for long or were used just now.
#[tokio::test]
async fn connections_closed_while_idle_cost_no_request() {
    let test = TestStore::start().await;
    let store = Store::open(&Config {
        url: test.database.url().to_owned(),
        connections: Sizes { requests: 10, ..Sizes::ones() },
        acquire_timeout: PATIENCE,
    })
    .unwrap();
    let api = store.api();
    let reads =
        || async { join_all((0..20).map(|_| async { store.event_position().await.map(drop) })).await };
    let transactions = || async { join_all((0..20).map(|_| api.check_disk_space())).await };
    for pause in [Duration::ZERO, Duration::ZERO, Duration::from_millis(1_100)] {
        for is_read in [true, false] {
            reads().await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
            tokio::time::sleep(pause).await;
            test.sql(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity
                  where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'",
            );
            let done = if is_read { reads().await } else { transactions().await };
            let refused: Vec<_> = done.into_iter().filter_map(Result::err).collect();
            assert!(refused.is_empty(), "{refused:?}");
        }
    }
    store.close().await;
}
