//! Starting, stopping, attaching, restarting.

use std::time::Instant;

use houston_embedded::{Config, Error, Server, Servers};

use crate::supervisor::{config, durable, is_alive, kill, open_folder, redis, sql, start, until};

#[test]
fn cold_start_provides_a_database_and_a_queue() {
    let folder = open_folder();
    let mut lines = Vec::new();
    let began = Instant::now();
    let servers = Servers::start(&durable(folder.path()), &mut |line| lines.push(line.to_owned())).unwrap();
    println!("cold start: {:?}", began.elapsed());
    assert!(servers.is_owner());
    let url = servers.database_url().unwrap();
    assert_eq!(sql(url, "select current_database() || current_user").unwrap(), "houstonhouston");
    // The locale lowers letters beyond ASCII, and the settings do not weaken durability.
    assert_eq!(sql(url, "select lower('ÉCOLE')").unwrap(), "école");
    for (setting, value) in
        [("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on"), ("jit", "off")]
    {
        assert_eq!(sql(url, &format!("show {setting}")).unwrap(), value, "{setting}");
    }
    assert_eq!(sql(url, "show listen_addresses").unwrap(), "");
    assert_eq!(redis(servers.redis_url().unwrap(), "SET k v"), "+OK");
    assert!(lines.iter().any(|line| line.starts_with("starting PostgreSQL")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("this happens once")), "{lines:?}");

    let pids = [servers.postgres_pid().unwrap(), servers.redis_pid().unwrap()];
    let began = Instant::now();
    servers.stop().unwrap();
    println!("stop: {:?}", began.elapsed());
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
}

#[test]
fn warm_start_finds_existing_data() {
    let folder = open_folder();
    let servers = start(folder.path());
    sql(servers.database_url().unwrap(), "create table t as select 7 as n").unwrap();
    redis(servers.redis_url().unwrap(), "SET k v");
    servers.stop().unwrap();

    for _ in 0..2 {
        let began = Instant::now();
        let servers = Servers::start(&durable(folder.path()), &mut |_| {}).unwrap();
        println!("warm start: {:?}", began.elapsed());
        assert_eq!(sql(servers.database_url().unwrap(), "select n from t").unwrap(), "7");
        assert_eq!(redis(servers.redis_url().unwrap(), "GET k"), "v");
    }
}

#[test]
fn second_start_attaches_and_does_not_stop_the_servers() {
    let folder = open_folder();
    let owner = start(folder.path());
    let mut lines = Vec::new();
    let second = Servers::start(&config(folder.path()), &mut |line| lines.push(line.to_owned())).unwrap();
    assert!(!second.is_owner());
    assert_eq!(second.database_url(), owner.database_url());
    assert_eq!(second.redis_url(), owner.redis_url());
    assert_eq!(second.postgres_pid(), owner.postgres_pid());
    assert_eq!(second.redis_pid(), owner.redis_pid());
    assert!(lines[0].contains(&format!("process {}", std::process::id())), "{lines:?}");
    second.stop().unwrap();
    assert_eq!(sql(owner.database_url().unwrap(), "select 1").unwrap(), "1");

    let mut second = start(folder.path());
    assert!(matches!(second.restart_postgres(), Err(Error::NotOwner(_))));
    drop(second);
    assert_eq!(redis(owner.redis_url().unwrap(), "PING"), "+PONG");
}

#[test]
fn attaching_waits_for_an_owner_that_is_still_starting() {
    let folder = open_folder();
    // With sockets in `/tmp`, so that their folder is checked while its owner changes.
    let deep = folder.path().join("x".repeat(120));
    let owners: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| start(&deep))).collect();
        let servers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        for servers in &servers {
            assert_eq!(sql(servers.database_url().unwrap(), "select 1").unwrap(), "1");
        }
        servers.iter().map(Servers::is_owner).collect()
    });
    assert_eq!(owners.iter().filter(|owner| **owner).count(), 1);
}

#[test]
fn error_names_a_server_the_owner_does_not_run() {
    let folder = open_folder();
    let only_redis = Config { postgres: false, ..config(folder.path()) };
    let owner = Servers::start(&only_redis, &mut |_| {}).unwrap();
    assert_eq!(owner.database_url(), None);
    assert_eq!(owner.postgres_pid(), None);
    let error = Servers::start(&config(folder.path()), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("does not run PostgreSQL there"), "{error}");
}

#[test]
fn server_without_fsync_has_the_configured_connections() {
    let folder = open_folder();
    let config = Config { redis: false, fsync: false, max_connections: 17, ..config(folder.path()) };
    let servers = Servers::start(&config, &mut |_| {}).unwrap();
    let url = servers.database_url().unwrap();
    assert_eq!(servers.redis_url(), None);
    assert_eq!(sql(url, "show fsync").unwrap(), "off");
    assert_eq!(sql(url, "show synchronous_commit").unwrap(), "on");
    assert_eq!(sql(url, "show max_connections").unwrap(), "17");
}

#[test]
fn children_outlive_the_thread_that_started_them() {
    let folder = open_folder();
    let path = folder.path().to_owned();
    let mut servers = std::thread::spawn(move || start(&path)).join().unwrap();
    // A death signal would have been sent by now: the thread has ended before `join` returns.
    assert_eq!(sql(servers.database_url().unwrap(), "select 1").unwrap(), "1");
    assert_eq!(redis(servers.redis_url().unwrap(), "PING"), "+PONG");
    assert!(servers.revive().unwrap().is_empty());
}

#[test]
fn restart_and_revive_keep_the_data() {
    let folder = open_folder();
    let mut servers = start(folder.path());
    let (database, queue) =
        (servers.database_url().unwrap().to_owned(), servers.redis_url().unwrap().to_owned());
    sql(&database, "create table t (n int)").unwrap();
    let before = (servers.postgres_pid().unwrap(), servers.redis_pid().unwrap());

    servers.restart_postgres().unwrap();
    servers.restart_redis().unwrap();
    let after = (servers.postgres_pid().unwrap(), servers.redis_pid().unwrap());
    assert!(before.0 != after.0 && before.1 != after.1);

    sql(&database, "insert into t values (1)").unwrap();
    redis(&queue, "SET k v");
    kill("-9", &[after.0, after.1]);
    // Killed processes exist for another moment, so each call of `revive` may find only one of them.
    let mut revived = Vec::new();
    until("both are revived", || {
        revived.extend(servers.revive().unwrap());
        revived.len() == 2
    });
    assert!(revived.contains(&Server::Postgres) && revived.contains(&Server::Redis), "{revived:?}");
    assert_eq!(sql(&database, "select n from t").unwrap(), "1");
    assert_eq!(redis(&queue, "GET k"), "v");

    kill("-9", &[servers.postgres_pid().unwrap()]);
    servers.restart_postgres().unwrap();
    assert_eq!(sql(&database, "select n from t").unwrap(), "1");
}

#[test]
fn dropped_database_is_created_again() {
    let folder = open_folder();
    let servers = start(folder.path());
    let postgres = servers.database_url().unwrap().replace("/houston?", "/postgres?");
    sql(&postgres, "drop database houston").unwrap();
    drop(servers);
    let servers = start(folder.path());
    assert_eq!(sql(servers.database_url().unwrap(), "select 1").unwrap(), "1");
}
