use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{APT_SCRIPT, Installer, candidate, outdated};
use crate::error::Error;
use crate::server::{Server, Version};

/// Runs the script on a file system of its own, with a fake apt-get that records its arguments and files.
fn run_script(root: &Path, exit: i32) -> bool {
    let bin = root.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let apt = bin.join("apt-get");
    let body = format!(
        "#!/bin/sh\necho \"$@\" >{0}/asked\nfind {0}/usr {0}/etc -type f >{0}/seen\ncat {0}/usr/sbin/policy-rc.d >{0}/policy\nexit {exit}\n",
        root.display()
    );
    fs::write(&apt, body).unwrap();
    fs::set_permissions(&apt, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::create_dir_all(root.join("usr")).unwrap();
    let mut script = Command::new("/bin/sh");
    script.args(["-eu", "-c", APT_SCRIPT, "apt.sh"]).arg(root).arg("postgresql");
    script.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).status().unwrap().success()
}

#[test]
fn apt_script_starts_no_servers_and_leaves_no_files() {
    for exit in [0, 1] {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(run_script(root.path(), exit), exit == 0);
        let read = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
        assert!(read("asked").contains("install -y -q --no-install-recommends postgresql"));
        assert!(read("seen").contains("usr/sbin/policy-rc.d"));
        assert!(read("seen").contains("etc/postgresql-common/createcluster.d/houston.conf"));
        assert!(read("policy").contains("exit 101"));
        assert!(!root.path().join("usr/sbin/policy-rc.d").exists());
        assert!(!root.path().join("etc/postgresql-common/createcluster.d/houston.conf").exists());
    }
}

#[test]
fn apt_script_keeps_existing_policy_file() {
    let root = tempfile::tempdir().unwrap();
    let policy = root.path().join("usr/sbin/policy-rc.d");
    fs::create_dir_all(policy.parent().unwrap()).unwrap();
    fs::write(&policy, "#!/bin/sh\nexit 0\n").unwrap();
    assert!(run_script(root.path(), 0));
    assert_eq!(fs::read_to_string(&policy).unwrap(), "#!/bin/sh\nexit 0\n");
}

#[test]
fn candidate_version_is_read() {
    let read = |text| candidate(text).map(|version| version.major);
    assert_eq!(read("postgresql:\n  Installed: (none)\n  Candidate: 15+248\n"), Some(15));
    assert_eq!(read("redis-server:\n  Installed: (none)\n  Candidate: 5:7.0.15-1~deb12u1\n"), Some(7));
    assert_eq!(read("postgresql:\n  Candidate: (none)\n"), None);
    assert_eq!(read(""), None);
}

#[test]
fn error_names_each_attempt_and_what_to_do() {
    let tried = [
        (Installer::Apt, Error::new("it needs root")),
        (Installer::Brew, Error::new("`brew` is not in PATH")),
        (Installer::Wheels, outdated("x", Some(Version { major: 6, minor: 2 }))),
    ];
    let error = Error::install(&[Server::Postgres, Server::Redis], &tried).to_string();
    assert_eq!(
        error,
        "cannot install PostgreSQL and Redis: apt-get (it needs root) and brew (`brew` is not in PATH) and pip (the \
         package `x` is too old: 6.2); install PostgreSQL 15 or newer and Redis 7.0 or newer (or Valkey 7.2 or \
         newer) yourself, or set DATABASE_URL and HOUSTON_REDIS_URL"
    );
}
