//! The folder: its path, its owner, and existing data.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use houston_embedded::{Error, Server, Servers};

use crate::supervisor::{Supervisor, config, is_root, open_folder, redis, sql, start};

fn socket_folder(servers: &Servers) -> PathBuf {
    let socket = servers.redis_url().unwrap().strip_prefix("redis+unix://").unwrap();
    Path::new(socket).parent().unwrap().to_owned()
}

#[test]
fn long_or_unusual_path_has_its_sockets_in_tmp() {
    let root = open_folder();
    for name in ["x".repeat(120), "a folder, with 'é' & more".to_owned()] {
        let folder = root.path().join(name);
        fs::create_dir(&folder).unwrap();
        let servers = start(&folder);
        let sockets = socket_folder(&servers);
        assert!(sockets.starts_with("/tmp") && sockets.to_str().unwrap().len() < 40, "{}", sockets.display());
        assert_eq!(fs::metadata(&sockets).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(sql(servers.database_url().unwrap(), "select 1").unwrap(), "1");
        assert_eq!(redis(servers.redis_url().unwrap(), "PING"), "+PONG");
        let attached = start(&folder);
        assert!(!attached.is_owner());
        assert_eq!(attached.redis_url(), servers.redis_url());
        servers.stop().unwrap();
        assert!(!sockets.exists());
    }
}

#[test]
fn socket_folder_that_others_can_open_is_refused() {
    let root = open_folder();
    let folder = root.path().join("x".repeat(120));
    fs::create_dir(&folder).unwrap();
    let servers = start(&folder);
    let sockets = socket_folder(&servers);
    servers.stop().unwrap();

    fs::create_dir(&sockets).unwrap();
    fs::set_permissions(&sockets, PermissionsExt::from_mode(0o777)).unwrap();
    let open = Servers::start(&config(&folder), &mut |_| {}).unwrap_err();
    fs::set_permissions(&sockets, PermissionsExt::from_mode(0o700)).unwrap();
    let foreign = is_root().then(|| {
        chown(&sockets, Some(12_345), Some(12_345)).unwrap();
        Servers::start(&config(&folder), &mut |_| {}).unwrap_err()
    });
    fs::remove_dir(&sockets).unwrap();
    assert!(open.to_string().contains("mode 777); remove it"), "{open}");
    if let Some(foreign) = foreign {
        assert!(foreign.to_string().contains("(owner uid 12345, "), "{foreign}");
    }
}

#[test]
fn cluster_of_another_major_version_is_not_changed() {
    let folder = open_folder();
    let data = folder.path().join("houston/pg");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("PG_VERSION"), "12\n").unwrap();
    let error = Servers::start(&config(folder.path()), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("was created by PostgreSQL 12"), "{error}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
}

#[test]
fn error_names_a_folder_that_is_a_file() {
    let folder = open_folder();
    fs::write(folder.path().join("houston"), "").unwrap();
    let error = Servers::start(&config(folder.path()), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("cannot create"), "{error}");
}

#[test]
fn failed_start_shows_the_log_and_stops_the_other_server() {
    let folder = open_folder();
    drop(start(folder.path()));
    let houston = folder.path().join("houston");
    fs::write(houston.join("pg/postgresql.auto.conf"), "no_such_setting = 1\n").unwrap();
    let error = Servers::start(&config(folder.path()), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Exited { server: Server::Postgres, .. }), "{error}");
    assert!(error.to_string().contains("no_such_setting"), "{error}");
    assert!(error.to_string().contains("postgres.log"), "{error}");
    // Redis removes its socket and pid file when it stops in an orderly way.
    assert!(!houston.join("redis/redis.pid").exists());
    assert!(fs::read_to_string(houston.join("redis.log")).unwrap().contains("bye bye"));
    // The log of the previous run still exists.
    let before = fs::read_to_string(houston.join("postgres.previous.log")).unwrap();
    assert!(before.contains("ready to accept connections"), "{before}");
}

#[test]
fn only_the_owner_has_access_and_nothing_is_inherited() {
    let folder = open_folder();
    let servers = start(folder.path());
    let sockets = socket_folder(&servers);
    assert_eq!(fs::metadata(&sockets).unwrap().mode() & 0o7777, 0o700);
    for pid in [servers.postgres_pid().unwrap(), servers.redis_pid().unwrap()] {
        // A session of its own: Ctrl-C in the terminal does not reach it.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let session = stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap();
        assert_eq!(session, pid.to_string());
        // It does not hold the lock.
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let mut files = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        assert!(!files.any(|file| file.ends_with("houston/lock")));
    }
    if is_root() {
        let url = servers.database_url().unwrap();
        let psql = ["--reuid=65534", "--regid=65534", "--clear-groups", "psql", "-X", url, "-c", "select 1"];
        let output = Command::new("setpriv").args(psql).output().unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("Permission denied"));
    }
}

/// Below a folder that only root can enter, Postgres runs in a user namespace and its files are root's.
#[test]
fn root_can_use_a_private_folder() {
    if !is_root() {
        return;
    }
    let folder = open_folder();
    let data = folder.path().join("houston/pg");
    // First with an open folder, so that the files belong to another user when it is closed; then open again.
    for (mode, private) in [(0o777, false), (0o700, true), (0o777, false)] {
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
        let servers = start(folder.path());
        assert_eq!(sql(servers.database_url().unwrap(), "select 1").unwrap(), "1");
        assert_eq!(redis(servers.redis_url().unwrap(), "PING"), "+PONG");
        let uid = fs::metadata(&data).unwrap().uid();
        assert_eq!(uid == 0, private);
        let process = fs::metadata(format!("/proc/{}", servers.postgres_pid().unwrap())).unwrap();
        assert_eq!(process.uid(), uid);
    }
}

#[test]
fn another_user_runs_separate_servers() {
    if !is_root() {
        return; // the other tests cover this case
    }
    let folder = open_folder();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut supervisor = Supervisor::start_by(folder.path(), &nobody);
    assert_eq!(sql(&supervisor.database_url, "select lower('É')").unwrap(), "é");
    let data = folder.path().join("houston/pg");
    assert_eq!(fs::metadata(&data).unwrap().uid(), 65_534);
    let attached = start(folder.path());
    assert!(!attached.is_owner());
    assert_eq!(attached.postgres_pid(), Some(supervisor.postgres));

    supervisor.kill();
    crate::supervisor::until("gone", || supervisor.are_servers_gone());
    // Root takes over, and the files keep their owner.
    let servers = start(folder.path());
    assert!(servers.is_owner());
    assert_eq!(sql(servers.database_url().unwrap(), "select 1").unwrap(), "1");
    assert_eq!(fs::metadata(&data).unwrap().uid(), 65_534);
    drop(servers);
    drop(Supervisor::start_by(folder.path(), &nobody));
}
