//! Real sockets, on loopback only.

use std::process::Command;

use houston_web::{Client, ListedHost, Request, Tls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::certificate;

/// Answers one request on each connection.
async fn server(body: &'static str) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            _ = stream.read(&mut buffer).await;
            let answer = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, tasks)
}

fn listed(url: &str, tls: Tls) -> Client {
    Client::listed(vec![ListedHost::of(url).unwrap()], tls).build()
}

#[tokio::test]
async fn listed_hosts_are_reached_over_tcp() {
    let (url, _server) = server("hello").await;
    let response = listed(&url, Tls::system().unwrap()).send(Request::get(&url)).await.unwrap();
    assert_eq!((response.status.as_u16(), &response.body[..]), (200, &b"hello"[..]));
    let named = url.replace("127.0.0.1", "localhost");
    let response = listed(&named, certificate::trusting()).send(Request::get(&named)).await.unwrap();
    assert_eq!(response.body, "hello");
}

#[tokio::test]
async fn a_guarded_client_does_not_reach_loopback() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = Client::guarded(certificate::trusting()).build();
    for host in ["127.0.0.1", "localhost", "0x7f.1", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        client.send(Request::get(format!("http://{host}:{port}/"))).await.unwrap_err();
    }
    let nothing = listener.accept().unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
}

/// Set in the process that this test starts: the address to ask for.
const ADDRESS: &str = "HOUSTON_TEST_ADDRESS";

/// Runs itself again with proxies in the environment; the proxy counts its connections.
#[tokio::test]
async fn proxies_of_the_environment_are_not_used() {
    if let Some(url) = std::env::var_os(ADDRESS) {
        let url = url.to_str().unwrap();
        let response = listed(url, certificate::trusting()).send(Request::get(url)).await.unwrap();
        assert_eq!(response.body, "direct");
        return;
    }
    let (url, _server) = server("direct").await;
    let (proxy, _proxy) = server("through the proxy").await;
    let me = std::env::current_exe().unwrap();
    let variables = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let run = move || {
        let mut command = Command::new(me);
        command.args(["--exact", "loopback::proxies_of_the_environment_are_not_used", "--nocapture"]);
        command.env(ADDRESS, url).env_remove("NO_PROXY").env_remove("no_proxy");
        command.envs(variables.map(|name| (name, proxy.clone()))).output()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}
