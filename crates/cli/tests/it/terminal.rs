//! Text of users and models cannot control the terminal of an operator.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::people::People;
use crate::test_houston::{environment, houston_command};

/// Escape sequences that retitle the window, clear the screen, colour (as a C1 control) and reorder text.
const HOSTILE: &str = "PWNED\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\u{202e}end";
const COMMANDS: [&str; 5] = ["\u{1b}]0;", "\u{7}", "\u{1b}[2J", "\u{9b}", "\u{202e}"];

fn assert_harmless(what: &str, shown: &str) {
    assert!(shown.contains("PWNED"), "{what} did not show the text: {shown:?}");
    for command in COMMANDS {
        assert!(!shown.contains(command), "{what} shows {command:?}: {shown:?}");
    }
}

/// The output of a command on a pseudo-terminal (`script` of util-linux).
fn on_a_terminal(people: &People, arguments: &[&str]) -> String {
    let quoted: Vec<String> = arguments.iter().map(|argument| format!("'{argument}'")).collect();
    let line = format!("exec {} {}", env!("CARGO_BIN_EXE_houston"), quoted.join(" "));
    let servers = people.houston.servers.lock().unwrap();
    let mut command = environment(Command::new("script"), &servers, people.houston.folder.path());
    command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
    command.env("SHELL", "/bin/sh").env("TERM", "xterm").stdin(Stdio::null());
    String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_prints_escape_sequences_of_users() {
    let (people, _) = People::start().await;
    let user = people.create("/v1/users", &json!({"name": HOSTILE})).await;
    let goal = people.create("/v1/goals", &json!({"user_id": user, "title": HOSTILE})).await;
    let message = people.houston.post(&goal, "hostile", HOSTILE).await;
    assert_eq!(people.houston.wait_until_answered(&message).await["status"], "answered");
    let agents: [&[&str]; 11] = [
        &["state", &goal],
        &["history", &goal],
        &["prompt", &goal],
        &["stats", &goal],
        &["list", "goals"],
        &["list", "users"],
        &["list", "runs"],
        &["list", "--json"],
        &["export", &goal],
        &["history", &goal, "--json"],
        &["prompt", &goal, "--json"],
    ];
    for arguments in agents {
        let output = people.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        assert_harmless(&format!("{arguments:?}"), &(text(&output.stdout) + &text(&output.stderr)));
        assert_harmless(&format!("{arguments:?} on a terminal"), &on_a_terminal(&people, arguments));
    }
    let folder = people.houston.folder.path().join("chat");
    let chat = [
        "--folder",
        folder.to_str().unwrap(),
        "chat",
        "--url",
        &people.houston.url(""),
        "--key",
        &people.houston.key,
        "--goal",
        &goal,
        "PWNED\u{1b}[2J\u{7}",
    ];
    let output = people.run(&chat);
    assert!(output.status.success(), "{output:?}");
    assert_harmless("chat", &String::from_utf8(output.stdout).unwrap());
    assert_harmless("chat on a terminal", &on_a_terminal(&people, &chat));
    let output = houston_command().args(["state", HOSTILE]).output().unwrap();
    assert_harmless("an error", &String::from_utf8(output.stderr).unwrap());
    let output = houston_command().args([HOSTILE]).output().unwrap();
    assert_harmless("a wrong command", &String::from_utf8(output.stderr).unwrap());
}
