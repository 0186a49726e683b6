//! An agentable with nothing to do costs nothing but its rows.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use houston_domain::id::AgentableId;
use houston_domain::run::RunStatus;

use crate::rig::{Rig, assert_status, eventually};

/// Far more than there are slots, lanes or connections of anything.
const AGENTABLES: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn agentables_that_have_run_leave_no_key_and_no_task_behind() {
    let rig = Rig::start().await;
    let worker = rig.worker();
    run(&rig, &[rig.goal]).await;
    // What one run leaves behind is there however many there were; everything else has ended.
    let (keys, tasks) = (keys(&rig), rig.tracker.len());

    let mut goals = Vec::new();
    for _ in 0..AGENTABLES {
        goals.push(rig.new_goal().await);
    }
    run(&rig, &goals).await;
    let many = eventually("the queue forgets the runs", || async {
        let now = self::keys(&rig);
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
    eventually("the tasks of the runs end", || async { (rig.tracker.len() <= tasks).then_some(()) }).await;
    worker.drain().await;
}

/// One message each, answered.
async fn run(rig: &Rig, goals: &[AgentableId]) {
    let mut posted = Vec::new();
    for goal in goals {
        posted.push(rig.post(*goal, "hello").await);
    }
    for posted in posted {
        assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    }
}

/// Every key of Redis.
fn keys(rig: &Rig) -> BTreeSet<String> {
    let path = rig.servers.redis_url().strip_prefix("redis+unix://").unwrap();
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(b"KEYS *\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let mut lines = answer.lines();
    let count: usize = lines.next().and_then(|line| line.strip_prefix('*')).unwrap().parse().unwrap();
    // Each key comes after a line with its length.
    let keys: BTreeSet<String> = lines.skip(1).step_by(2).take(count).map(str::to_owned).collect();
    assert_eq!(keys.len(), count);
    keys
}
