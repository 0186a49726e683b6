//! The master is lost for good: with sentinels and in a cluster, later hints come through the server that replaces it.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use houston_domain::clock::SystemClock;
use houston_domain::event::Live;
use houston_domain::id::AgentableId;
use houston_queue::{DeltaBus, HintSender, Lane, Received, Redis};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::server::eventually;
use crate::worker::{Worker, hint};

/// Redis processes that replicate each other, on ports of this machine.
struct Group {
    dir: tempfile::TempDir,
    servers: Vec<(u16, Child)>,
}

impl Group {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("houston-queue-").tempdir_in("/tmp").unwrap();
        Self { dir, servers: Vec::new() }
    }

    /// Starts a server on a free port with these lines in its configuration; returns the port.
    fn start(&mut self, mode: &[&str], lines: &str) -> u16 {
        let port = free_port();
        let folder = self.dir.path().join(port.to_string());
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("redis.conf");
        let common = "bind 127.0.0.1\nsave \"\"\nprotected-mode no\n";
        std::fs::write(&file, format!("port {port}\ndir {}\n{common}{lines}\n", folder.display())).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&file).args(mode).stdout(Stdio::null()).stderr(Stdio::null());
        self.servers.push((port, command.spawn().unwrap()));
        port
    }

    fn kill(&mut self, port: u16) {
        let (_, server) = self.servers.iter_mut().find(|(of, _)| *of == port).unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for (_, server) in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// A port that is free, and so is the one 10,000 above it, on which nodes of a cluster talk to each other.
fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let port = if port > 50_000 { port - 20_000 } else { port };
        if TcpListener::bind(("127.0.0.1", port)).is_ok()
            && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok()
        {
            return port;
        }
    }
}

async fn try_ask<T: redis::FromRedisValue>(port: u16, command: &[&str]) -> redis::RedisResult<T> {
    let client = redis::Client::open(("127.0.0.1", port))?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await
}

async fn says(port: u16, command: &[&str], wanted: &str) -> bool {
    try_ask::<String>(port, command).await.is_ok_and(|answer| answer.contains(wanted))
}

/// Sends hints before and after `master` is killed, until a later one is handled.
async fn hints_come_after_the_loss_of(group: &mut Group, master: u16, url: &str) {
    let redis = Redis::open(url, "test", Arc::new(SystemClock)).unwrap();
    let worker = Worker::quick(Some(redis.clone()), 4);
    let sender = HintSender::start(Some(redis), &TaskTracker::new(), CancellationToken::new());
    // A busy machine may take the master for lost; what is sent then is lost with it.
    eventually("a hint of each lane comes", async || {
        for (lane, n) in Lane::ALL.into_iter().zip(1..) {
            sender.send(lane, hint(n));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        (1..=3).all(|n| worker.log.ended().contains(&hint(n)))
    })
    .await;
    group.kill(master);
    eventually("a later hint comes", async || {
        sender.send(Lane::Background, hint(4));
        tokio::time::sleep(Duration::from_millis(50)).await;
        worker.log.ended().contains(&hint(4))
    })
    .await;
    assert!(worker.health.is_up());
    worker.end().await;
}

#[tokio::test]
async fn hints_come_through_the_master_sentinels_chose() {
    let mut group = Group::new();
    let master = group.start(&[], "");
    let replica = group.start(&[], &format!("replicaof 127.0.0.1 {master}"));
    eventually("the replica follows", async || says(replica, &["INFO"], "master_link_status:up").await).await;
    let watched = format!(
        "sentinel monitor main 127.0.0.1 {master} 2\nsentinel down-after-milliseconds main 500\n\
         sentinel failover-timeout main 3000"
    );
    let sentinels: Vec<u16> = (0..3).map(|_| group.start(&["--sentinel"], &watched)).collect();
    for sentinel in &sentinels {
        eventually("the sentinels know each other and the replica", async || {
            says(*sentinel, &["INFO", "sentinel"], "slaves=1,sentinels=3").await
        })
        .await;
    }
    let hosts: Vec<String> = sentinels.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let url = format!("redis+sentinel://{}/main", hosts.join(","));
    hints_come_after_the_loss_of(&mut group, master, &url).await;
}

#[tokio::test]
async fn events_come_through_the_master_that_sentinels_name_now() {
    let mut group = Group::new();
    let (former, master) = (group.start(&[], ""), group.start(&[], ""));
    for server in [former, master] {
        eventually("the server answers", async || says(server, &["PING"], "PONG").await).await;
    }
    let sentinel = group.start(&["--sentinel"], &format!("sentinel monitor main 127.0.0.1 {former} 1"));
    eventually("the sentinel answers", async || says(sentinel, &["PING"], "PONG").await).await;
    let url = format!("redis+sentinel://127.0.0.1:{sentinel}/main");
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let start = |id: u128| {
        let redis = Redis::open(&url, "test", Arc::new(SystemClock)).unwrap();
        DeltaBus::start(Some(redis), Uuid::from_u128(id), &tracker, stop.clone())
    };
    let (here, there) = (start(1), start(2));
    let agentable = AgentableId(Uuid::from_u128(1));
    let mut subscription = there.subscribe(agentable);
    // Not a nudge: a subscription that is confirmed gets one.
    let event = || Live::Committed(Vec::new());
    let mut publish = async || {
        here.publish(agentable, event());
        tokio::time::sleep(Duration::from_millis(50)).await;
        let received = std::iter::from_fn(|| subscription.try_recv());
        received.filter(|one| matches!(one, Received::Item(item) if item.live == event())).count()
    };
    eventually("an item comes", async || publish().await > 0).await;
    // The former master stays one, as if it were cut off: nothing breaks the connections to it.
    try_ask::<()>(sentinel, &["SENTINEL", "REMOVE", "main"]).await.unwrap();
    try_ask::<()>(sentinel, &["SENTINEL", "MONITOR", "main", "127.0.0.1", &master.to_string(), "1"])
        .await
        .unwrap();
    eventually("both have left the former master", async || {
        publish().await;
        let clients: String = try_ask(former, &["CLIENT", "LIST"]).await.unwrap();
        !clients.contains(" sub=1") && !clients.contains("cmd=publish")
    })
    .await;
    eventually("a later item comes", async || publish().await > 0).await;
    stop.cancel();
    tracker.close();
    tracker.wait().await;
}

#[tokio::test]
async fn hints_come_through_the_replica_of_a_cluster() {
    let mut group = Group::new();
    let settings = "cluster-enabled yes\ncluster-node-timeout 1000";
    let nodes: Vec<u16> = (0..6).map(|_| group.start(&[], settings)).collect();
    let hosts: Vec<String> = nodes.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    for node in &nodes {
        eventually("the node answers", async || says(*node, &["PING"], "PONG").await).await;
    }
    let mut create = Command::new("redis-cli");
    create.args(["--cluster", "create"]).args(&hosts).args(["--cluster-replicas", "1", "--cluster-yes"]);
    let created = create.output().unwrap();
    assert!(created.status.success(), "{created:?}");
    for node in &nodes {
        eventually("the cluster is whole", async || {
            says(*node, &["CLUSTER", "INFO"], "cluster_state:ok").await
                && says(*node, &["CLUSTER", "NODES"], "slave").await
        })
        .await;
    }
    let slot: u16 = try_ask(nodes[0], &["CLUSTER", "KEYSLOT", "{test}:"]).await.unwrap();
    // With six nodes the first three are masters of a third each.
    let master = nodes[usize::from(slot) * 3 / 16_384];
    let replicas = async || says(master, &["INFO", "replication"], "state=online").await;
    eventually("its replica follows", replicas).await;
    let url = format!("redis+cluster://{}", hosts.join(","));
    hints_come_after_the_loss_of(&mut group, master, &url).await;
}
