//! Idle agentables cost only their rows.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use houston_domain::id::AgentableId;
use houston_domain::run::RunStatus;

use crate::cluster::{TestCluster, assert_status, eventually};

/// Far more than there are slots, lanes or connections.
const AGENTABLES: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn finished_agentables_leave_no_redis_key_and_no_task() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    run(&cluster, &[cluster.goal]).await;
    // Keys and tasks that exist after one run may exist after many; everything else must be gone.
    let (keys, tasks) = (keys(&cluster), cluster.tracker.len());

    let mut goals = Vec::new();
    for _ in 0..AGENTABLES {
        goals.push(cluster.new_goal().await);
    }
    run(&cluster, &goals).await;
    let many = eventually("the queue forgets the runs", || async {
        let now = self::keys(&cluster);
        (now.len() <= keys.len()).then_some(now)
    })
    .await;
    assert_eq!(many, keys);
    for key in &many {
        let hidden = |goal: &AgentableId| {
            key.contains(&goal.0.to_string()) || key.contains(&goal.0.simple().to_string())
        };
        assert!(!goals.iter().any(hidden), "{key} is an agentable's");
    }
    eventually("the tasks of the runs end", || async { (cluster.tracker.len() <= tasks).then_some(()) })
        .await;
    worker.drain().await;
}

/// Posts one message to each and waits for the answers.
async fn run(cluster: &TestCluster, goals: &[AgentableId]) {
    let mut posted = Vec::new();
    for goal in goals {
        posted.push(cluster.post(*goal, "hello").await);
    }
    for posted in posted {
        assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    }
}

/// All keys in Redis.
fn keys(cluster: &TestCluster) -> BTreeSet<String> {
    let path = cluster.servers.redis_url().strip_prefix("redis+unix://").unwrap();
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(b"KEYS *\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let mut lines = answer.lines();
    let count: usize = lines.next().and_then(|line| line.strip_prefix('*')).unwrap().parse().unwrap();
    // In the reply each key follows a line with its length.
    let keys: BTreeSet<String> = lines.skip(1).step_by(2).take(count).map(str::to_owned).collect();
    assert_eq!(keys.len(), count);
    keys
}
