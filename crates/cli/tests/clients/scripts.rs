//! Runs scripts of this folder against a Houston: Node with the packages of `package.json`, Python with those of
//! `requirements.txt`, both in the versions that stand there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::dev::Dev;

/// This folder.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/clients")
}

/// Node, in this folder. Scripts find the Houston in `HOUSTON_URL` and `HOUSTON_API_KEY`.
pub(crate) fn node(dev: &Dev) -> Command {
    let folder = folder();
    let mark = folder.join("node_modules/.installed-lock");
    let lock = std::fs::read(folder.join("package-lock.json")).unwrap();
    if std::fs::read(&mark).ok().as_ref() != Some(&lock) {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
        succeed(npm.current_dir(&folder));
        std::fs::write(mark, lock).unwrap();
    }
    // The version that `package.json` names, else that of the machine.
    let packaged = ["x64", "arm64"].map(|cpu| folder.join(format!("node_modules/node-linux-{cpu}/bin/node")));
    let node = packaged.into_iter().find(|node| node.is_file()).unwrap_or_else(|| "node".into());
    let mut command = Command::new(&node);
    prepare(&mut command, dev);
    command.env_remove("NODE_OPTIONS").env("NODE_NO_WARNINGS", "1");
    command
}

/// Python, in this folder, with the packages of `requirements.txt`.
pub(crate) fn python(dev: &Dev) -> Command {
    let mut command = python_alone();
    prepare(&mut command, dev);
    command
}

/// Python with the packages of `requirements.txt`, for a program that knows no Houston.
pub(crate) fn python_alone() -> Command {
    let environment = std::env::var_os("XTASK_CLIENTS_PYTHON").map_or_else(environment, PathBuf::from);
    let mut command = Command::new(environment.join("bin/python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
    command
}

/// The virtual environment of tests that `cargo xtask` did not start.
fn environment() -> PathBuf {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients-python");
    let wanted = std::fs::read_to_string(folder().join("requirements.txt")).unwrap();
    let mark = environment.join("installed");
    if std::fs::read_to_string(&mark).ok().as_ref() != Some(&wanted) {
        succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
        let mut pip = Command::new(environment.join("bin/pip"));
        pip.args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary",
            ":all:",
        ]);
        succeed(pip.arg("--requirement").arg(folder().join("requirements.txt")));
        std::fs::write(mark, wanted).unwrap();
    }
    environment
}

fn prepare(command: &mut Command, dev: &Dev) {
    command
        .current_dir(folder())
        .env("HOUSTON_URL", &dev.url)
        .env("HOUSTON_API_KEY", &dev.key)
        .env("HOUSTON_PID", dev.pid().to_string())
        .env("HOUSTON_HOOKS_PORT", dev.hooks.to_string())
        .env("CLIENTS", "1")
        // The streams are on this machine.
        .env("NO_PROXY", "127.0.0.1,localhost")
        .env("no_proxy", "127.0.0.1,localhost");
}

/// Runs a command to its end; returns what it has written.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| missing(command, &error));
    let (report, program) = (text(&output), command.get_program().display().to_string());
    assert!(output.status.success(), "{program}: {}\n{report}", output.status);
    report
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn missing(command: &Command, error: &std::io::Error) -> ! {
    panic!(
        "{} cannot be started ({error}): `cargo xtask test` installs what this test needs",
        command.get_program().display()
    );
}
