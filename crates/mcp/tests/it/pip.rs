//! Real servers from PyPI, each in a virtual environment of its own: their dependencies exclude each other.

use std::path::{Path, PathBuf};
use std::process::Command;

use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use serde_json::json;

use crate::guest::Guest;

fn succeed(program: &Path, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{} {arguments:?} failed", program.display());
}

/// With the uv of `cargo xtask test`; without it with pip, which takes ten times as long.
fn install(folder: &str, wanted: &str) {
    let Some(uv) = std::env::var_os("XTASK_UV").map(PathBuf::from) else {
        succeed(Path::new("python3"), &["-m", "venv", "--clear", folder]);
        let pip = Path::new(folder).join("bin/pip");
        return succeed(&pip, &["install", "--quiet", "--disable-pip-version-check", wanted]);
    };
    succeed(&uv, &["venv", "--quiet", "--clear", folder]);
    succeed(&uv, &["pip", "install", "--quiet", "--python", &format!("{folder}/bin/python"), wanted]);
}

/// The settings of the server that a package installs.
fn settings(package: &str, version: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{package}-{version}"));
    let mark = folder.join("installed");
    if !mark.exists() {
        install(&folder.display().to_string(), &format!("{package}=={version}"));
        std::fs::write(mark, "").unwrap();
    }
    let program = folder.join("bin").join(package).display().to_string();
    format!("command = {program:?}\ntrust = \"hints\"")
}

#[tokio::test]
async fn time_server_answers_and_refuses_unknown_zones() {
    let settings = tokio::task::spawn_blocking(|| settings("mcp-server-time", "2026.10.19")).await.unwrap();
    let guest = Guest::new(&settings, "").await;
    let now = guest.call("get_current_time", json!({"timezone": "UTC"})).await;
    assert!(now.is_success() && now.text().contains("UTC"), "{}", now.text());
    let wrong = guest.call("get_current_time", json!({"timezone": "Mars/Base"})).await;
    assert!(!wrong.is_success() && wrong.text().contains("Mars"), "{}", wrong.text());
}

#[tokio::test]
async fn git_server_reads_a_repository() {
    let settings = tokio::task::spawn_blocking(|| settings("mcp-server-git", "2026.10.19")).await.unwrap();
    let repository = tempfile::tempdir().unwrap();
    let path = repository.path().display().to_string();
    succeed(Path::new("git"), &["init", "--quiet", &path]);
    std::fs::write(repository.path().join("new.txt"), "").unwrap();
    let guest = Guest::new(&settings, "").await;
    let status = guest.call("git_status", json!({"repo_path": path})).await;
    assert!(status.is_success() && status.text().contains("new.txt"), "{}", status.text());
    let wrong = guest.call("git_status", json!({})).await;
    assert!(
        matches!(wrong, ToolResponse::Failure { code, .. } if code != ToolErrorCode::IoError),
        "{}",
        wrong.text()
    );
}
