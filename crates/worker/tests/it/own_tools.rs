//! Tools of a tenant's own: its endpoints are called with its secrets, which appear nowhere.

use std::sync::{Arc, Mutex};

use houston_domain::id::AgentableId;
use houston_domain::run::RunStatus;
use houston_domain::sealed::{Purpose, SecretKeys};
use houston_domain::tool_source::{SourceType, purpose};
use houston_engine::OwnToolsParts;
use houston_store::tool_source::{NewSource, Placed};
use houston_tools::outside::Web;
use houston_web::{Limits, ListedHost};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::cluster::{TestCluster, assert_status};
use crate::guarded::Remembering;
use crate::workers::simulated;

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
const SECRET: &str = "s3cret-of-acme";

/// A server that remembers the head of each request. Returns its address.
async fn crm(heads: &Arc<Mutex<Vec<String>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, heads) = (listener.local_addr().unwrap(), Arc::clone(heads));
    TaskTracker::new().spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { break };
                head.push(byte);
            }
            heads.lock().unwrap().push(String::from_utf8(head).unwrap());
            let body = r#"{"orders": ["A-17"]}"#;
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_of_a_tenant_are_tools_of_its_agents() {
    let mut cluster = TestCluster::start_with_own_postgres().await;
    cluster.servers.sql("alter system set log_statement = 'all'").unwrap();
    cluster.servers.sql("select pg_reload_conf()").unwrap();
    let heads = Arc::default();
    let base = crm(&heads).await;
    let keys = SecretKeys::parse(KEY).unwrap();
    let hosts = vec![ListedHost::of(&base).unwrap()];
    cluster.own_tools = OwnToolsParts {
        web: Arc::new(Web::new(hosts, Limits::default(), None)),
        keys: Some(keys.clone()),
        servers: None,
    };
    let model = Arc::new(Remembering::new(simulated()));
    let worker = cluster.worker_with(Arc::clone(&model) as _, vec![]);
    let ends = async |goal: AgentableId, message: &str| {
        let posted = cluster.post(goal, message).await;
        assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
        model.last()
    };
    let before = ends(cluster.goal, "hello").await;
    let document = format!(
        "base = \"{base}\"\nauth = {{ secret = \"crm\" }}\n[[endpoint]]\nname = \"list_orders\"\n\
         description = \"Orders.\"\nmethod = \"GET\"\npath = \"/orders\"\n"
    );
    let what = purpose(SourceType::Endpoints, "crm");
    let of = Purpose { tenant: cluster.tenant, what: &what };
    let sealed = keys.seal(of, [3; 12], &format!("{{\"crm\": \"{SECRET}\"}}")).unwrap();
    let new = NewSource {
        source: SourceType::Endpoints,
        name: "crm",
        document: &document,
        kinds: &["goal".to_owned()],
        tools: &["list_orders".to_owned()],
        secrets: Some((&["crm".to_owned()], Some(&sealed))),
    };
    assert!(matches!(cluster.requests().put_tool_source(&new).await.unwrap(), Placed::Done(_)));
    // In one session the second call would ask: it could send out what the first has read.
    for goal in [cluster.goal, cluster.new_goal().await] {
        let offered = ends(goal, "/sim tool=list_orders").await;
        assert_eq!(offered, [before.as_slice(), &["list_orders".to_owned()]].concat(), "after the others");
    }
    let sent = heads.lock().unwrap().clone();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent[0].to_lowercase().contains(&format!("authorization: bearer {SECRET}")), "{}", sent[0]);
    let events = format!("{:?}", cluster.events(cluster.goal).await);
    assert!(events.contains("A-17") && !events.contains(SECRET), "{events}");
    let stored = cluster.servers.sql("select s::text from houston.tool_sources s").unwrap();
    assert!(!stored.contains(SECRET) && stored.contains("list_orders"), "{stored}");
    let log = cluster.servers.postgres_log().unwrap();
    assert!(!log.contains(SECRET));
    let reads = log.lines().filter(|line| line.contains("execute") && line.contains("tool_source::of_run"));
    assert_eq!(reads.count(), 1, "compiled once");
    cluster.requests().delete_tool_source(SourceType::Endpoints, "crm").await.unwrap();
    assert_eq!(ends(cluster.goal, "hello").await, before);
    worker.drain().await;
}
