//! The shards of ids after everything that makes ids: see `houston_domain::id::Shard`.

use houston_domain::id::{Shard, TenantId, UserId, shard};
use houston_testkit::installation::TestInstallation;
use houston_testkit::model_server::{Call, ModelServer, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::tasks::{is_task, says, tools_answered, worker};
use crate::test_houston::TestHouston;

/// Creates a task on the message "task", whose report it answers with "done"; a note, a learning and a check-in on
/// "note"; one feed item per feed.
fn script(call: &Call) -> Reply {
    let asked = call.last_user_text();
    match (is_task(call), tools_answered(call)) {
        (true, _) => Reply::text("Found two hotels."),
        (false, _) if asked.contains("<task_ended") => says("done"),
        (false, true) if asked.starts_with("<feed_generation") => Reply::text("written"),
        (false, false) if asked.starts_with("<feed_generation") => {
            Reply::tool("create_feed_item", json!({"title": "Hotels", "content": "Two were found."}))
        }
        (false, false) if asked == "task" => {
            Reply::tool("create_task", json!({"title": "Find hotels", "instructions": "In Tokyo."}))
        }
        (false, false) if asked == "note" => {
            Reply::tool("create_note", json!({"title": "Milk", "content": "buy it"}))
                .then_tool("schedule_check_in", json!({"in_minutes": 600, "reason": "Ask about Rome"}))
        }
        _ => says("Hello."),
    }
}

/// The tables without a row.
fn empty_tables(houston: &TestHouston) -> Vec<String> {
    let tables = [
        "users",
        "agentables",
        "runs",
        "messages",
        "events",
        "history",
        "knowledge_items where kind = 'note'",
        "knowledge_items where kind = 'learning'",
        "knowledge_items where kind = 'memory'",
        "knowledge_items where kind = 'custom_instruction'",
        "knowledge_items where kind = 'feed_item'",
        "sessions",
        "session_states",
        "feeds",
        "check_ins",
        "model_calls",
        "spending",
        "erasures",
    ];
    let empty = |table: &&str| houston.sql(&format!("select count(*) from houston.{table}")) == "0";
    tables.into_iter().filter(empty).map(str::to_owned).collect()
}

/// Tables whose rows belong to no user, or name one thing of a user only.
const TABLES: [&str; 8] =
    ["audit", "tenants", "api_keys", "agents", "teams", "team_agents", "workers", "idempotency_keys"];

/// Columns with ids that belong to no user: nothing of a user is found by them.
const COLUMNS: [&str; 11] = [
    "tenant_id",
    "agent_id",
    "team_id",
    "api_key_id",
    "webhook_id",
    "claim",
    "worker_id",
    "holder",
    "run_token",
    "write_id",
    "last_write_id",
];

/// The ids in another shard than the other ids of the same row, as `table.column id`. All ids in one row belong to
/// one user, and each thing of a user names the user or an agentable of theirs. Also users in another cell than that
/// of their shard, unless they were moved there. Empty in an installation that works.
///
/// An imported or copied large result (`tool_results.id`) keeps the id that texts name, and is found by its
/// agentable.
pub(crate) fn ids_in_wrong_shards(installation: &TestInstallation) -> Vec<String> {
    let list = |names: &[&str]| names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let columns = installation
        .sql_of(
            "0000",
            &format!(
                "select table_name || '.' || column_name from information_schema.columns
          where table_schema = 'houston' and udt_name = 'uuid' and is_generated = 'NEVER'
            and table_name not in ({}) and column_name not in ({})
          order by table_name, column_name in ('agentable_id', 'user_id') desc, column_name",
                list(&TABLES),
                list(&COLUMNS)
            ),
        )
        .unwrap();
    let mut wrong = Vec::new();
    let mut first = ("", "");
    for (table, column) in columns.lines().filter_map(|line| line.split_once('.')) {
        if first.0 != table {
            first = (table, column);
            continue;
        }
        let imported = match (table, column) {
            ("tool_results", "id") => {
                "exists (select from houston.history h where h.agentable_id = t.agentable_id and h.epoch = 0)"
            }
            // Accounts of users at servers of their tenant.
            ("mcp_accounts" | "mcp_logins", "owner_id") => "t.owner_id = t.tenant_id",
            _ => "false",
        };
        wrong.push(format!(
            "select '{table}.{column} ' || t.{column} from houston.{table} t
              where right(t.{column}::text, 4) <> right(t.{}::text, 4) and not {imported}",
            first.1
        ));
    }
    // Events name things by their public ids; the ids of messages that a client sent in a text are not among them.
    for name in ["message_id", "next_message_id", "session_id", "task_id", "task_run_id", "run_id"] {
        wrong.push(format!(
            "select 'events.data.{name} ' || (e.data ->> '{name}') from houston.events e
              where right(e.data ->> '{name}', 4) <> right(e.agentable_id::text, 4)"
        ));
    }
    let mut found: Vec<String> = Vec::new();
    for (first, last, _) in installation.ranges() {
        let mut here = wrong.clone();
        here.push(format!(
            "select 'users.id in the cell {first:04x}-{last:04x} ' || u.id from houston.users u
              where right(u.id::text, 4) not between '{first:04x}' and '{last:04x}'
                and not exists (select from houston.moved_shards h
                                 where h.is_here and ('x' || right(u.id::text, 4))::bit(16)::integer between h.first and h.last)"
        ));
        let wrong = installation.sql_of(&format!("{first:04x}"), &here.join("\nunion all\n")).unwrap();
        found.extend(wrong.lines().map(str::to_owned));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn all_ids_of_a_user_have_the_shard_of_the_user() {
    let houston = TestHouston::start();
    let server = ModelServer::start(script).await.unwrap();
    let _worker = worker(&houston, &server, &[("HOUSTON_SESSION_ARCHIVE__EVERY_MS", "100")]);
    let create = async |path: &str, body: Value| {
        houston.create(path, &format!("{path} {}", body.to_string().len()), &body).await
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();

    let user = text(&create("/v1/users", json!({"name": "Ada", "external_id": "ada"})).await["id"]);
    let goal = json!({"user_id": user, "title": "Tokyo", "message": {"content": "task"}});
    let made = create("/v1/goals", goal).await;
    let goal = text(&made["id"]);
    let goal_path = format!("/v1/goals/{goal}");
    houston.wait_until_answered(&made["message"]).await;
    houston.wait_until_answered(&houston.post(&goal, "note", "note").await).await;
    let done = |page: &Value| page["data"].as_array().unwrap().iter().any(|one| one["content"] == "done");
    houston.wait_until(&format!("{goal_path}/messages?limit=100"), "the report", done).await;
    for (collection, body) in [
        (format!("{goal_path}/learnings"), json!({"content": "likes trains"})),
        (format!("{goal_path}/check-ins"), json!({"in_minutes": 90, "reason": "Ask"})),
        (format!("/v1/users/{user}/memories"), json!({"content": "lives in Rome"})),
        (format!("/v1/users/{user}/custom-instructions"), json!({"content": "Be brief."})),
    ] {
        create(&collection, body).await;
    }
    let feed = create(&format!("/v1/users/{user}/feed/generate"), json!({})).await;
    let run = format!("/v1/runs/{}", text(&feed["run_id"]));
    houston.wait_until(&run, "the feed", |run| !run["ended_at"].is_null()).await;

    // What makes ids in SQL: an application's own transaction.
    let id = goal.rsplit('_').next().unwrap();
    let posted = houston.sql_of(
        id,
        &format!("select 'msg_' || replace(houston.post_message('{id}', 'from SQL')::text, '-', '')"),
    );
    houston.wait_until_answered(&json!({"id": posted})).await;
    let is_waiting = |goal: &Value| goal["status"] == "waiting";
    houston.wait_until(&goal_path, "the end of its run", is_waiting).await;
    assert_eq!(houston.sql_of(id, &format!("select houston.close_session('{id}', 'reset')")), "closed");

    let fork = create(&format!("{goal_path}/fork"), json!({})).await;
    let conversation = houston.get(&format!("{goal_path}/export")).await;
    let other = json!({"title": "Rome", "user": {"name": "Ben"}, "message": {"content": "Hello?"}});
    let other = create("/v1/goals", other).await;
    create("/v1/goals/import", json!({"user_id": other["user_id"], "conversation": conversation})).await;
    houston.ask(Method::DELETE, &format!("/v1/goals/{}", text(&fork["id"]))).await;

    let tenant: TenantId = houston
        .sql_of(&user, "select 'tenant_' || replace(id::text, '-', '') from houston.tenants")
        .parse()
        .unwrap();
    assert_eq!(shard(user.parse::<UserId>().unwrap()), Shard::of_external_id(tenant, "ada"));
    assert_ne!(
        shard(text(&other["user_id"]).parse::<UserId>().unwrap()),
        Shard::of_external_id(tenant, "ada")
    );
    assert_eq!(empty_tables(&houston), Vec::<String>::new());
    assert_eq!(ids_in_wrong_shards(&houston.servers.lock().unwrap()), Vec::<String>::new());
}
