//! What an application may do with a login that has the role `houston_app` and nothing else.

use houston_store::listen::Notification;

use crate::test_store::TestStore;

/// A login of an application, for the time of a test: roles belong to the server, which tests share.
struct Application<'t> {
    test: &'t TestStore,
    login: String,
}

impl<'t> Application<'t> {
    fn of(test: &'t TestStore) -> Self {
        let login = format!("application_{}", test.goal.0.simple());
        test.sql(&format!("create role {login} login; grant houston_app to {login}"));
        Self { test, login }
    }

    /// The output of `psql` with this login, or its error message.
    fn sql(&self, text: &str) -> Result<String, String> {
        let text = format!("set session authorization {};\n{text}", self.login);
        let output = self.test.database.psql(&text).output().unwrap();
        let read = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(read(&output.stdout)) } else { Err(read(&output.stderr)) }
    }
}

impl Drop for Application<'_> {
    fn drop(&mut self) {
        let _ = self.test.try_sql(&format!("drop role {}", self.login));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn application_posts_and_closes_in_its_own_transaction() {
    let test = TestStore::start().await;
    let application = Application::of(&test);
    let mut notifications = test.runs().listen().await.unwrap();
    let goal = test.goal.0;
    assert_eq!(application.sql("select houston_app.version()").unwrap(), "1");
    let post = format!("select houston_app.post_message('{goal}', 'from sql', 'key 1')");
    application.sql(&format!("begin; {post}; rollback")).unwrap();
    assert!(test.claim().await.is_none(), "a rolled-back post opens no run");
    let first = application.sql(&post).unwrap();
    assert_eq!(application.sql(&post).unwrap(), first, "the same key, the same message");
    assert_eq!(notifications.recv().await.unwrap(), Some(Notification::Posted(test.goal)));
    assert_eq!(test.sql("select id, content from houston.messages"), format!("{first}|from sql"));
    let close = format!("select houston_app.close_session('{goal}')");
    assert_eq!(application.sql(&close).unwrap(), "nothing");
    assert!(test.claim().await.is_some());
    assert_eq!(application.sql(&close).unwrap(), "deferred", "a run has read the message");
    for (call, word) in [
        (format!("select houston_app.post_message('{goal}', ' ')"), "empty"),
        (format!("select houston_app.post_message('{goal}', 'hi', null, 'reject')"), "is open"),
        ("select houston_app.post_message(gen_random_uuid(), 'hi')".to_owned(), "not found"),
        ("select houston_app.close_session(gen_random_uuid())".to_owned(), "not found"),
    ] {
        let result = application.sql(&call);
        assert!(result.as_ref().is_err_and(|error| error.contains(word)), "{result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn application_may_do_nothing_else() {
    let test = TestStore::start().await;
    let application = Application::of(&test);
    test.post("secret").await;
    let tables = test.sql(
        "select relname from pg_class where relnamespace = 'houston'::regnamespace and relkind in ('r', 'p', 'v')",
    );
    let mut tried = 0;
    for table in tables.lines() {
        for statement in ["select * from", "delete from", "truncate", "drop table"] {
            let refused = application.sql(&format!("{statement} houston.{table}"));
            let is_refused = refused.as_ref().is_err_and(|error| {
                error.contains("permission denied for schema houston") || error.contains("must be owner")
            });
            assert!(is_refused, "{statement} {table}: {refused:?}");
            tried += 1;
        }
    }
    assert!(tried > 180);
    let goal = test.goal.0;
    for (statement, word) in [
        (format!("select houston.post_message('{goal}', 'hi')"), "permission denied for schema houston"),
        ("set role houston_api; select 1".to_owned(), "permission denied to set role"),
        ("create table houston_app.mine ()".to_owned(), "permission denied for schema houston_app"),
        (
            "create or replace function houston_app.version() returns integer language sql as 'select 2'"
                .to_owned(),
            "permission denied for schema houston_app",
        ),
    ] {
        let refused = application.sql(&statement);
        assert!(refused.as_ref().is_err_and(|error| error.contains(word)), "{statement}: {refused:?}");
    }
    // Its own objects take no place of those that the functions use, whose search path is fixed.
    let unfixed = test.sql(
        "select oid::regprocedure from pg_proc where pronamespace = 'houston_app'::regnamespace and prosecdef
            and coalesce(proconfig::text, '') not like '%search_path=pg_catalog, pg_temp%'",
    );
    assert_eq!(unfixed, "");
    let others = test.sql(
        "select p.proname from pg_proc p where p.pronamespace = 'houston_app'::regnamespace
            and has_function_privilege('public', p.oid, 'execute')",
    );
    assert_eq!(others, "", "only with the role they may be called");
}
