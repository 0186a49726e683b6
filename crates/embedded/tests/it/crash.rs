//! Killed processes: no data is lost and no process is left.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::supervisor::{Supervisor, is_alive, is_root, kill, open_folder, redis, sql, start, until};

/// Inserts 1, 2, 3, .. over one connection until it breaks, and calls `at` after 300 acknowledged rows. Returns how many rows
/// were acknowledged.
fn insert_until_killed(url: &str, at: impl FnOnce()) -> u64 {
    let mut psql = Command::new("psql");
    psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut psql = psql.stderr(Stdio::null()).spawn().unwrap();
    let mut input = psql.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        (1_u64..).try_for_each(|n| writeln!(input, "insert into t values ({n}) returning n;")).unwrap_err();
    });
    let mut at = Some(at);
    let mut acknowledged = 0;
    for line in BufReader::new(psql.stdout.take().unwrap()).lines() {
        acknowledged = line.unwrap().parse().unwrap();
        if acknowledged == 300 {
            at.take().unwrap()();
        }
    }
    writer.join().unwrap();
    psql.wait().unwrap();
    acknowledged
}

/// A crash of the machine may leave zeros where the file had grown.
#[test]
fn damaged_data_of_redis_are_set_aside() {
    let folder = open_folder();
    for round in 1..=2 {
        let mut supervisor = Supervisor::start(folder.path());
        assert_eq!(redis(&supervisor.redis_url, "EXISTS round"), ":0", "round {round}");
        assert_eq!(redis(&supervisor.redis_url, &format!("SET round {round}")), "+OK");
        kill("-9", &[supervisor.child.id(), supervisor.postgres, supervisor.redis]);
        supervisor.kill();
        let files = folder.path().join("houston/redis/appendonlydir");
        let files = fs::read_dir(files).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "aof")) {
            fs::File::options().append(true).open(file).unwrap().write_all(&[0; 4096]).unwrap();
        }
    }
    let supervisor = Supervisor::start(folder.path());
    assert_eq!(sql(&supervisor.database_url, "select 1").unwrap(), "1");
    let log = fs::read_to_string(folder.path().join("houston/redis.log")).unwrap();
    assert!(log.contains("were moved to") && folder.path().join("houston/redis.damaged").exists(), "{log}");
}

#[test]
fn killing_everything_loses_no_acknowledged_row() {
    let folder = open_folder();
    let mut supervisor = Supervisor::start(folder.path());
    sql(&supervisor.database_url, "create table t (n bigint)").unwrap();
    for round in 1..=3 {
        let pids = [supervisor.child.id(), supervisor.postgres, supervisor.redis];
        assert_eq!(redis(&supervisor.redis_url, &format!("SET round {round}")), "+OK");
        let acknowledged = insert_until_killed(&supervisor.database_url, || kill("-9", &pids));
        assert!(acknowledged >= 300);
        supervisor.kill();

        supervisor = Supervisor::start(folder.path());
        let found = sql(&supervisor.database_url, "select count(distinct n) from t").unwrap();
        let found: u64 = found.parse().unwrap();
        // One more row may have been written without its acknowledgement.
        assert!(
            (acknowledged..=acknowledged + 1).contains(&found),
            "{acknowledged} acknowledged, {found} found"
        );
        assert_eq!(redis(&supervisor.redis_url, "GET round"), round.to_string());
        sql(&supervisor.database_url, "truncate t").unwrap();
    }
}

#[test]
fn servers_end_when_their_owner_is_killed() {
    let folder = open_folder();
    let mut supervisor = Supervisor::start(folder.path());
    supervisor.kill();
    until("both servers are gone", || supervisor.are_servers_gone());
    let log = fs::read_to_string(folder.path().join("houston/postgres.log")).unwrap();
    assert!(log.contains("database system is shut down"), "{log}");
    assert!(start(folder.path()).is_owner());
}

#[test]
fn start_right_after_a_kill_waits_for_the_old_servers() {
    let folder = open_folder();
    let mut supervisor = Supervisor::start(folder.path());
    sql(&supervisor.database_url, "create table t as select 7 as n").unwrap();
    supervisor.kill();
    let servers = start(folder.path());
    assert!(servers.is_owner());
    assert_eq!(sql(servers.database_url().unwrap(), "select n from t").unwrap(), "7");
}

#[test]
fn attached_process_becomes_the_owner_at_its_next_start() {
    let folder = open_folder();
    let mut supervisor = Supervisor::start(folder.path());
    let attached = start(folder.path());
    assert!(!attached.is_owner());
    supervisor.kill();
    until("both servers are gone", || supervisor.are_servers_gone());
    drop(attached);
    assert!(start(folder.path()).is_owner());
}

#[test]
fn killed_initdb_leaves_no_partial_cluster() {
    let mut folder = open_folder();
    for part in ["", "base", "global/pg_control"] {
        while !is_initdb_killed(folder.path(), part) {
            // It finished before it could be killed.
            folder = open_folder();
        }
    }
    let servers = start(folder.path());
    assert_eq!(sql(servers.database_url().unwrap(), "select 1").unwrap(), "1");
    assert!(!folder.path().join("houston/pg.init").exists());
}

/// Kills a supervisor once its `initdb` has created `part` of the cluster. Returns whether `initdb` was still running.
fn is_initdb_killed(folder: &Path, part: &str) -> bool {
    let (draft, data) = (folder.join("houston/pg.init"), folder.join("houston/pg"));
    let mut child = Supervisor::spawn(folder, &[]);
    until("initdb is at work", || draft.join(part).exists() || data.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    !data.exists()
}

/// A killed postmaster may leave a child process. Until that has ended, its shared memory is in use and a new postmaster
/// refuses to start.
#[test]
fn start_waits_for_a_remaining_child_of_postgres() {
    let folder = open_folder();
    let mut servers = start(folder.path());
    let url = servers.database_url().unwrap().to_owned();
    let mut sleeper = Command::new("psql")
        .args(["-Xq", &url, "-c", "select pg_sleep(60)"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let query =
        "select pid from pg_stat_activity where query like '%pg_sleep(60)%' and pid <> pg_backend_pid()";
    let mut child = String::new();
    until("the child is at work", || {
        child = sql(&url, query).unwrap();
        !child.is_empty()
    });
    let child = child.parse().unwrap();
    kill("-STOP", &[child]);
    kill("-9", &[servers.postgres_pid().unwrap()]);
    std::thread::scope(|scope| {
        scope.spawn(|| servers.restart_postgres().unwrap());
        let log = folder.path().join("houston/postgres.log");
        until("Postgres has refused to start", || {
            fs::read_to_string(&log).unwrap().contains("pre-existing shared memory block")
        });
        kill("-CONT", &[child]);
    });
    assert_eq!(sql(&url, "select 1").unwrap(), "1");
    sleeper.wait().unwrap();
}

/// Without a death signal (macOS), servers outlive a killed owner.
#[test]
fn servers_left_running_are_stopped_before_a_start() {
    let folder = open_folder();
    let servers = start(folder.path());
    let programs = [servers.postgres_pid(), servers.redis_pid()].map(|pid| {
        let line = fs::read_to_string(format!("/proc/{}/cmdline", pid.unwrap())).unwrap();
        line.split('\0').next().unwrap().to_owned()
    });
    drop(servers);
    let houston = folder.path().join("houston");
    let (data, sockets) = (houston.join("pg"), houston.join("run"));
    let socket = sockets.join("redis.sock");
    let uid = fs::metadata(&data).unwrap().uid();
    let spawn = |program: &str, arguments: Vec<String>| {
        let mut command = Command::new(program);
        if is_root() {
            command.uid(uid);
        }
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Leftover(command.current_dir("/").process_group(0).spawn().unwrap())
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let directory = format!("unix_socket_directories={}", sockets.display());
    let arguments = ["-D", &text(&data), "-c", "listen_addresses=", "-c", &directory].map(str::to_owned);
    let postgres = spawn(&programs[0], arguments.to_vec());
    let pid_file = text(&houston.join("redis/redis.pid"));
    let line = format!("--port 0 --set-proc-title no --pidfile {pid_file} --unixsocket {}", text(&socket));
    let arguments = line.split(' ').chain(["--save", ""]).map(str::to_owned);
    let queue = spawn(&programs[1], arguments.collect());
    until("the leftovers are up", || {
        socket.exists() && Path::new(&pid_file).exists() && sockets.join(".s.PGSQL.5432").exists()
    });

    let servers = start(folder.path());
    assert!(servers.is_owner());
    assert!(!is_alive(postgres.0.id()) && !is_alive(queue.0.id()));
    assert_eq!(sql(servers.database_url().unwrap(), "select 1").unwrap(), "1");
}

/// A server without a supervisor; dropping stops it.
struct Leftover(Child);

impl Drop for Leftover {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
