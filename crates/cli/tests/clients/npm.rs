//! Runs the `*.test.mjs` scripts of this folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dev::Dev;

/// The folder with the installed packages: that of `cargo xtask test`, or a copy under `target`.
fn prepared() -> PathBuf {
    if let Some(folder) = std::env::var_os("XTASK_CLIENTS").map(PathBuf::from)
        && folder.join("node_modules").is_dir()
    {
        return folder;
    }
    let source = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/clients");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("clients");
    std::fs::create_dir_all(&folder).unwrap();
    let mark = folder.join("node_modules/.installed-lock");
    let lock = std::fs::read(source.join("package-lock.json")).unwrap();
    for file in std::fs::read_dir(&source).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "mjs" || extension == "json") {
            std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
        }
    }
    if std::fs::read(&mark).ok().as_ref() != Some(&lock) {
        succeed("npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], &folder);
        std::fs::write(mark, lock).unwrap();
    }
    folder
}

fn succeed(program: &str, arguments: &[&str], folder: &Path) {
    let output =
        command(program, folder).args(arguments).output().unwrap_or_else(|error| missing(program, &error));
    assert!(
        output.status.success(),
        "{program} {}:\n{}{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    command
}

fn missing(program: &str, error: &std::io::Error) -> ! {
    panic!(
        "{program} cannot be started ({error}): `cargo xtask test` installs Node and npm, and runs this test"
    );
}

#[test]
fn npm_clients_agree_with_the_thread() {
    let folder = prepared();
    let dev = Dev::start();
    let mut node = command("node", &folder);
    node.args(["--test", "--test-reporter=spec", "--test-concurrency=3"])
        .env("HOUSTON_URL", &dev.url)
        .env("HOUSTON_API_KEY", &dev.key)
        .env("HOUSTON_HOOKS_PORT", dev.hooks.to_string())
        .env("HOUSTON_SERVER__HEARTBEAT_S", "1")
        // The streams are on this machine.
        .env("NO_PROXY", "127.0.0.1")
        .env_remove("NODE_OPTIONS");
    let output = node.output().unwrap_or_else(|error| missing("node", &error));
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "node --test:\n{report}{}", String::from_utf8_lossy(&output.stderr));
    // `node --test` succeeds when it finds no tests.
    for file in ["AG-UI", "AG-UI interrupts", "EventSource", "resumable fetch", "webhooks"] {
        assert!(report.contains(&format!("✔ {file}: ")), "no test of {file} ran:\n{report}");
    }
}
