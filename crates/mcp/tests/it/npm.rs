//! Real servers from npm: those of the protocol's own project that need no key and no network.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use houston_domain::tool_call::{EffectClass, ToolErrorCode, ToolResponse};
use serde_json::json;

use crate::guest::{Guest, until};

/// The folder with the installed packages of `tests/servers`.
fn installed() -> PathBuf {
    let source = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/servers");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("servers");
    std::fs::create_dir_all(&folder).unwrap();
    let mark = folder.join("node_modules/.installed-lock");
    let lock = std::fs::read(source.join("package-lock.json")).unwrap();
    if std::fs::read(&mark).ok().as_ref() != Some(&lock) {
        for file in ["package.json", "package-lock.json"] {
            std::fs::copy(source.join(file), folder.join(file)).unwrap();
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"])
            .current_dir(&folder);
        assert!(npm.status().unwrap().success(), "npm ci in {} failed", folder.display());
        std::fs::write(mark, lock).unwrap();
    }
    folder
}

/// The settings of one of the installed servers.
fn settings(folder: &Path, name: &str, arguments: &[&str]) -> String {
    let program = folder.join("node_modules/.bin").join(format!("mcp-server-{name}"));
    let program = std::fs::canonicalize(program).unwrap().display().to_string();
    let arguments: Vec<&str> = std::iter::once(program.as_str()).chain(arguments.iter().copied()).collect();
    format!("command = \"node\"\nargs = {arguments:?}\ntrust = \"hints\"")
}

/// One test, because they share what is installed.
#[tokio::test]
async fn official_servers_list_their_tools_and_answer() {
    let folder = tokio::task::spawn_blocking(installed).await.unwrap();
    everything(&folder).await;
    everything_over_http(&folder).await;
    filesystem(&folder).await;
    memory(&folder).await;
}

async fn everything(folder: &Path) {
    let guest = Guest::new(&settings(folder, "everything", &["stdio"]), "").await;
    let echo = guest.call("echo", json!({"message": "hello"})).await;
    assert!(echo.is_success() && echo.text().contains("hello"), "{}", echo.text());
    let image = guest.call("get-tiny-image", json!({})).await;
    assert!(image.text().contains("[an image, image/png") && image.text().len() < 1000, "{}", image.text());
    let env = guest.call("get-env", json!({})).await;
    assert!(env.text().contains("HOME") && !env.text().contains("CARGO"), "{}", env.text());
    let wrong = guest.call("get-sum", json!({"a": "many"})).await;
    assert!(!wrong.is_success(), "{}", wrong.text());
    let answers = futures_util::future::join_all((0..50).map(|nth| {
        let (guest, text) = (&guest, format!("call {nth}"));
        async move { guest.call("echo", json!({"message": text})).await.text().contains(&text) }
    }));
    assert!(answers.await.into_iter().all(|is_own| is_own), "each call gets its own answer");
}

/// The same server over HTTP, on a port that was free.
async fn everything_over_http(folder: &Path) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let program = std::fs::canonicalize(folder.join("node_modules/.bin/mcp-server-everything")).unwrap();
    let start = async || {
        let mut node = tokio::process::Command::new("node");
        node.arg(&program).arg("streamableHttp").env("PORT", port.to_string()).kill_on_drop(true);
        let node = node.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        until("the server listens", listens).await;
        node
    };
    let mut node = start().await;
    let url = format!("url = \"http://127.0.0.1:{port}/mcp\"\nprivate = true\ntrust = \"hints\"");
    let guest = Guest::new(&url, "call_s = 5").await;
    let echo = guest.call("echo", json!({"message": "hello"})).await;
    assert!(echo.is_success() && echo.text().contains("hello"), "{}", echo.text());
    let answers = futures_util::future::join_all((0..50).map(|nth| {
        let (guest, text) = (&guest, format!("call {nth}"));
        async move { guest.call("echo", json!({"message": text})).await.text().contains(&text) }
    }));
    assert!(answers.await.into_iter().all(|is_own| is_own), "each call gets its own answer");
    let long = guest.call("trigger-long-running-operation", json!({"duration": 600, "steps": 2})).await;
    assert!(matches!(long, ToolResponse::Failure { code: ToolErrorCode::Timeout, .. }), "{}", long.text());
    node.kill().await.unwrap();
    let gone = guest.call("echo", json!({"message": "anybody?"})).await;
    assert!(!gone.is_success(), "{}", gone.text());
    let _node = start().await;
    // Calls fail until the pause is over; then there is a new session.
    let deadline = Instant::now() + Duration::from_secs(120);
    while !guest.call("echo", json!({"message": "again"})).await.is_success() {
        assert!(Instant::now() < deadline, "the server is not connected again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn filesystem(folder: &Path) {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("a.txt"), "hello").unwrap();
    let root = std::fs::canonicalize(files.path()).unwrap().display().to_string();
    let guest = Guest::new(&settings(folder, "filesystem", &[&root]), "").await;
    let read = guest.call("read_text_file", json!({"path": format!("{root}/a.txt")})).await;
    assert_eq!(read, ToolResponse::success("hello"));
    let outside = guest.call("read_text_file", json!({"path": "/etc/passwd"})).await;
    assert!(
        matches!(outside, ToolResponse::Failure { code: ToolErrorCode::Unknown, .. }),
        "{}",
        outside.text()
    );
    let effect = |tool: &str| guest.offer.get(&format!("s__{tool}")).unwrap().definition().effect;
    assert_eq!(effect("read_text_file"), EffectClass::Read, "as its hints say");
    assert_ne!(effect("edit_file"), EffectClass::Read);
}

async fn memory(folder: &Path) {
    let guest = Guest::new(&settings(folder, "memory", &[]), "").await;
    let entity = json!({"name": "Ada", "entityType": "person", "observations": ["likes tea"]});
    let created = guest.call("create_entities", json!({"entities": [entity]})).await;
    assert!(created.is_success(), "{}", created.text());
    let found = guest.call("search_nodes", json!({"query": "Ada"})).await;
    assert!(found.text().contains("likes tea"), "{}", found.text());
}
