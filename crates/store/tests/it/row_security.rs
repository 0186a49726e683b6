//! Row-level security: for the role of a request, the rows of other tenants do not exist, whatever the query.

mod queries;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use houston_domain::id::TenantId;
use houston_store::erasure::Target;
use houston_store::row_security::RowSecurity;
use houston_store::{Config, Error, Store};

use crate::erasing::fill;
use crate::test_store::{TestStore, goal};

/// Tables without a tenant, and what requests may do with them: read, or nothing. A new table without `tenant_id` belongs
/// here and, if requests read it, into `row_security.sql`.
const WITHOUT_TENANT: [(&str, &str); 14] = [
    ("cron_ticks", ""),
    ("functions", ""),
    ("health_changes", ""),
    ("health_checks", ""),
    ("installation", "SELECT"),
    ("migrations", ""),
    ("moved_shards", "SELECT"),
    ("paused_lanes", "SELECT"),
    ("rates", ""),
    ("readers", "INSERT SELECT UPDATE"),
    ("resumed_lanes", ""),
    ("retention_walks", ""),
    ("settings", "SELECT"),
    ("workers", "SELECT"),
];

/// Takes the role for the rest of the statements, and names a tenant, or none.
fn as_request(tenant: Option<TenantId>) -> String {
    let named = tenant.map(|tenant| tenant.0.to_string()).unwrap_or_default();
    format!("set local role houston_api; select set_config('houston.tenant', '{named}', true);")
}

/// The last line of what `psql` prints.
fn last(test: &TestStore, sql: &str) -> String {
    test.sql(sql).lines().last().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_has_a_policy_or_is_named_here() {
    let test = TestStore::start().await;
    assert_eq!(test.store.row_security().await.unwrap(), RowSecurity::On);
    let rights = test.sql(
        "select c.relname || '|' || coalesce((select string_agg(p.privilege_type, ' ' order by p.privilege_type)
                   from aclexplode(c.relacl) p where p.grantee = 'houston_api'::regrole), '')
           from pg_class c
          where c.relnamespace = 'houston'::regnamespace and c.relkind in ('r', 'p')
            and not (c.relrowsecurity and exists (
                     select from pg_policy p
                      where p.polrelid = c.oid and not p.polpermissive and p.polcmd = '*'
                        and p.polroles = array['houston_api'::regrole::oid]
                        and pg_get_expr(p.polqual, c.oid) ~ 'houston.tenant'))",
    );
    let open: BTreeSet<(&str, &str)> = rights.lines().filter_map(|line| line.split_once('|')).collect();
    assert_eq!(open, BTreeSet::from(WITHOUT_TENANT), "give the table a tenant_id, or decide about it");
    let views = test.sql(
        "select relname from pg_class where relnamespace = 'houston'::regnamespace and relkind in ('v', 'm')
            and coalesce(reloptions::text, '') not like '%security_invoker=true%'",
    );
    assert_eq!(views, "", "a view reads with the rights of its owner unless it says so");
    let definers = test.sql(
        "select oid::regprocedure from pg_proc where pronamespace = 'houston'::regnamespace and prosecdef",
    );
    assert_eq!(definers, "", "and so does such a function");
    let role = test.sql(
        "select rolsuper or rolbypassrls or rolcanlogin or rolcreaterole or exists (
                    select from pg_class c where c.relowner = r.oid and c.relnamespace = 'houston'::regnamespace)
           from pg_roles r where rolname = 'houston_api'",
    );
    assert_eq!(role, "f", "no superuser, no owner");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_others_are_neither_read_nor_changed() {
    let test = TestStore::start().await;
    fill(&test, test.goal, "canary");
    let stranger: TenantId = test.store.operator().ensure_tenant(test.ids.next(), "stranger").await.unwrap();
    let tables = test.sql(
        "select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
          where c.relnamespace = 'houston'::regnamespace and c.relkind in ('r', 'p') order by 1",
    );
    let mut filled = 0;
    for table in tables.lines() {
        let own = test.tenant;
        let count = format!("select count(*) from houston.{table} where tenant_id = '{}'", own.0);
        let there = last(&test, &count);
        filled += usize::from(there != "0");
        for (named, sees) in [(Some(own), there.as_str()), (Some(stranger), "0"), (None, "0")] {
            assert_eq!(last(&test, &format!("{}{count}", as_request(named))), sees, "{table}: {named:?}");
            let change = |how: &str| {
                let done = format!("with done as ({how} returning 1) select count(*) from done; rollback");
                last(&test, &format!("begin; {}{done}", as_request(named)))
            };
            if sees == "0" {
                let update = format!("update houston.{table} set tenant_id = tenant_id");
                assert_eq!(change(&update), "0", "{table}: {named:?}");
                assert_eq!(change(&format!("delete from houston.{table}")), "0", "{table}: {named:?}");
            }
        }
        let copied = format!(
            "create temp table copied as select * from houston.{table} where tenant_id = '{}' limit 1;
             grant select on copied to houston_api;",
            own.0
        );
        let generated = test.sql(&format!(
            "select string_agg(attname, ', ') from pg_attribute
              where attrelid = 'houston.{table}'::regclass and attnum > 0 and not attisdropped and attgenerated = ''"
        ));
        let insert = format!("insert into houston.{table} ({generated}) select {generated} from copied");
        let refused = test.try_sql(&format!("begin; {copied}{}{insert}", as_request(Some(stranger))));
        let is_refused = refused.as_ref().is_err_and(|error| error.contains("violates row-level security"));
        assert!(is_refused || there == "0", "{table}: {refused:?}");
    }
    assert!(filled > 35, "only {filled} tables had rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_keeps_neither_role_nor_tenant() {
    let test = TestStore::start().await;
    let one = Config {
        url: test.database.url().to_owned(),
        connections: houston_store::Sizes::ones(),
        acquire_timeout: Duration::from_secs(30),
    };
    let store = Store::open(&one).unwrap();
    let stranger = test.store.operator().ensure_tenant(test.ids.next(), "stranger").await.unwrap();
    for _ in 0..2 {
        assert!(store.tenant(stranger).agentable("goal", test.goal).await.is_err());
        // A statement that fails ends its transaction, too.
        let failed = store.tenant(stranger).create_approval_link(test.ids.next(), "\0", Some("\0")).await;
        assert!(matches!(failed, Err(Error::Database(_))), "{failed:?}");
        let tenant = store.operator().tenant_of_thing(test.goal.0).await.unwrap();
        assert_eq!(tenant, Some(test.tenant), "the operator is under no role");
        assert_eq!(store.tenant(test.tenant).agentable("goal", test.goal).await.unwrap().id, test.goal);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_work_where_the_role_may_do_nothing() {
    let test = TestStore::start().await;
    test.sql("revoke usage on schema houston from houston_api");
    assert_eq!(test.store.row_security().await.unwrap(), RowSecurity::NotApplied);
    let store = crate::test_store::open(test.database.url());
    assert_eq!(store.tenant(test.tenant).agentable("goal", test.goal).await.unwrap().title, "Tokyo");
    test.store.migrate().await.unwrap();
    assert_eq!(test.store.row_security().await.unwrap(), RowSecurity::On, "migrating repairs it");
}

/// How often a word is in the statements that Postgres has executed.
fn logged(test: &TestStore, word: &str) -> usize {
    let log = test.database.server().unwrap().folder().join("postgres.log");
    std::fs::read_to_string(log).unwrap().matches(word).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_posts_and_streams_take_no_role() {
    let test = TestStore::start_with_own_postgres().await;
    test.sql("alter system set log_statement = 'all'");
    test.sql("select pg_reload_conf()");
    // Connections read the setting some time after the reload.
    let reading = async {
        while logged(&test, "houston_api") == 0 {
            test.requests().agentable("goal", test.goal).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.expect("a read of a request takes the role");
    let before = logged(&test, "houston_api");
    for text in ["one", "two"] {
        test.post(text).await;
        let run = test.claim().await.unwrap();
        crate::step::done(
            test.runs().commit(&run.fence, &crate::step::answer(&test, &run, "hello")).await.unwrap(),
        );
        assert!(!test.requests().events_after(test.goal, 0, 10).await.unwrap().is_empty());
        assert!(!test.runs().tenant(test.tenant).history(test.goal, 0, 10).await.unwrap().is_empty());
    }
    assert_eq!(logged(&test, "store::message::batch::post"), 2);
    assert_eq!(logged(&test, "houston_api"), before);
}

/// A managed Postgres: the login of Houston is no superuser and may create no roles.
#[tokio::test(flavor = "multi_thread")]
async fn login_without_rights_works_with_and_without_the_roles() {
    let test = TestStore::start_with_own_postgres().await;
    test.sql("drop owned by houston_api, houston_app");
    test.sql("drop role houston_api; drop role houston_app; create role limited login");
    test.sql("create database managed owner limited");
    let url = test.database.url().replace("//houston@", "//limited@").replace("/houston?", "/managed?");
    let store = crate::test_store::open(&url);
    store.migrate().await.unwrap();
    assert_eq!(store.row_security().await.unwrap(), RowSecurity::NoRole);
    let tenant = store.operator().ensure_tenant(test.ids.next(), "managed").await.unwrap();
    let goal = goal(&store, &test.ids, tenant).await;
    store.tenant(tenant).agentable("goal", goal).await.unwrap();

    test.sql("create role houston_api; create role houston_app");
    assert_eq!(store.row_security().await.unwrap(), RowSecurity::NotMember);
    test.sql("grant houston_api to limited");
    assert_eq!(store.row_security().await.unwrap(), RowSecurity::NotApplied);
    store.migrate().await.unwrap();
    assert_eq!(store.row_security().await.unwrap(), RowSecurity::On);
    let store = crate::test_store::open(&url);
    store.tenant(tenant).agentable("goal", goal).await.unwrap();
    let stranger = store.operator().ensure_tenant(test.ids.next(), "stranger").await.unwrap();
    assert!(store.tenant(stranger).agentable("goal", goal).await.is_err());

    let one =
        Config { url, connections: houston_store::Sizes::ones(), acquire_timeout: Duration::from_secs(30) };
    let one = Store::open(&one).unwrap();
    one.tenant(tenant).agentable("goal", goal).await.unwrap();
    test.sql("revoke houston_api from limited");
    one.tenant(tenant).agentable("goal", goal).await.expect_err("no transaction can be begun");
    one.api().list_workers().await.expect("the connection is in no transaction");
    test.sql("grant houston_api to limited");
    one.tenant(tenant).agentable("goal", goal).await.unwrap();

    let erased =
        store.tenant(tenant).request_erasure(Target::Agentable("goal", goal), test.ids.next(), None).await;
    assert_eq!(erased.unwrap().agentables, [goal]);
}

/// Clients hang up at any moment. A connection that was left with an open transaction would be given to others, and what they
/// wrote would be lost with it.
#[tokio::test(flavor = "multi_thread")]
async fn request_that_is_given_up_leaves_no_transaction_open() {
    let test = TestStore::start().await;
    let one = Config {
        url: test.database.url().to_owned(),
        connections: houston_store::Sizes::ones(),
        acquire_timeout: Duration::from_secs(60),
    };
    let one = Store::open(&one).unwrap();
    let asks = one.tenant(test.tenant);
    asks.agentable("goal", test.goal).await.unwrap();
    let of_others =
        "from pg_stat_activity where datname = current_database() and application_name = 'houston'";
    let open = format!("select count(*) {of_others} and state like 'idle in transaction%'");
    let connections = || test.sql(&format!("select string_agg(pid::text, ' ' order by pid) {of_others}"));
    let before = connections();
    for polls in (1..=6).cycle().take(18) {
        {
            let mut asked = std::pin::pin!(asks.agentable("goal", test.goal));
            for _ in 0..polls {
                if poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_ready())).await {
                    break;
                }
                // The answer to what was sent may come meanwhile.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        let until = tokio::time::Instant::now() + Duration::from_secs(60);
        while test.sql(&open) != "0" {
            assert!(tokio::time::Instant::now() < until, "{} transactions are open", test.sql(&open));
        }
    }
    // After some seconds Postgres ends a connection with an open transaction.
    assert_eq!(connections(), before, "no connection had to be ended");
}
