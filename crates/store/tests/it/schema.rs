//! `migrate` brings tables and functions to the version of the binary, and `check_schema` reports what differs.

use houston_store::Error;

use crate::test_store::TestStore;

/// The functions of this name in the database.
fn functions(test: &TestStore, name: &str) -> String {
    let all = test.sql(&format!(
        "select string_agg(oid::regprocedure::text, ' ' order by oid::regprocedure::text) from pg_proc
          where pronamespace = 'houston'::regnamespace and proname = '{name}'"
    ));
    // The schema is named unless the search path has it.
    all.trim().replace("houston.", "")
}

/// Which transaction wrote each row, and where it is: changes with every write.
fn versions(test: &TestStore) -> String {
    test.sql(
        "select string_agg(concat_ws(' ', name, xmin, ctid), ', ' order by name) from houston.functions
         union all
         select string_agg(concat_ws(' ', proname, xmin, ctid), ', ' order by oid) from pg_proc
          where pronamespace = 'houston'::regnamespace",
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_and_changed_functions_are_named_and_applied() {
    let test = TestStore::start().await;
    test.store.check_schema().await.unwrap();
    test.sql(
        "drop function houston.any_word(text);
         delete from houston.functions where name = 'any_word';
         create or replace function houston.setting(p_name text) returns integer language sql as 'select 7';
         update houston.functions set sha256 = '' where name = 'setting'",
    );
    let error = test.store.check_schema().await.unwrap_err();
    assert!(
        matches!(&error, Error::FunctionsDiffer { names } if names == &["any_word", "setting"]),
        "{error}"
    );
    assert!(error.to_string().contains("run `houston migrate` (any_word, setting)"), "{error}");
    test.store.migrate().await.unwrap();
    test.store.check_schema().await.unwrap();
    assert_eq!(test.sql("select houston.setting('fairness.max_running')").trim(), "10");
    assert_eq!(test.sql("select houston.any_word('it is')").trim(), "'it' | 'is'");
}

/// Postgres cannot replace a function by one with other names of arguments, and creates a second function for other
/// types of arguments.
#[tokio::test(flavor = "multi_thread")]
async fn functions_with_another_signature_are_replaced() {
    let test = TestStore::start().await;
    test.sql(
        "drop function houston.setting;
         create function houston.setting(p_key text) returns bigint language sql as 'select 7::bigint';
         create function houston.setting(p_key integer) returns integer language sql as 'select 7';
         create function houston.any_word(p_text text, p_twice boolean) returns text language sql as 'select $1';
         update houston.functions set sha256 = '' where name in ('setting', 'any_word')",
    );
    test.store.migrate().await.unwrap();
    assert_eq!(functions(&test, "setting"), "setting(text)");
    assert_eq!(functions(&test, "any_word"), "any_word(text)");
    assert_eq!(test.sql("select houston.setting('fairness.max_running')").trim(), "10");
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_an_earlier_release_are_dropped() {
    let test = TestStore::start().await;
    test.sql(
        "create function houston.earlier(p integer) returns integer language sql as 'select 1';
         create function houston.earlier(p text) returns integer language sql as 'select 1';
         insert into houston.functions (name, sha256) values ('earlier', ''), ('similarity', '');
         create function houston.of_another(p integer) returns integer language sql as 'select 1'",
    );
    test.store.check_schema().await.unwrap();
    test.store.migrate().await.unwrap();
    assert_eq!(functions(&test, "earlier"), "");
    assert_eq!(functions(&test, "of_another"), "of_another(integer)", "only recorded ones are dropped");
    assert_eq!(functions(&test, "similarity"), "similarity(text,text)", "it belongs to an extension");
    let recorded = "select count(*) from houston.functions where name in ('earlier', 'similarity')";
    assert_eq!(test.sql(recorded).trim(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn migrating_twice_at_once_works() {
    let test = TestStore::start().await;
    test.sql("update houston.functions set sha256 = ''");
    let (one, other) = tokio::join!(test.store.migrate(), test.store.migrate());
    one.unwrap();
    other.unwrap();
    test.store.check_schema().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn migrating_writes_nothing_when_nothing_differs() {
    let test = TestStore::start().await;
    let before = versions(&test);
    assert!(before.contains("post_message"), "{before}");
    test.store.migrate().await.unwrap();
    assert_eq!(versions(&test), before);
}
