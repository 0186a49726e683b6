//! `houston chat` with a message as arguments, or lines from a pipe.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use houston_testkit::process::{Process, Signal};
use serde_json::Value;

use crate::dev::{Dev, houston, run, text};

fn is_note(reply: &str) -> bool {
    let id = reply.strip_prefix("I wrote it down as note_").and_then(|rest| rest.strip_suffix(".\n"));
    id.is_some_and(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The last goal of `houston chat` in this folder.
fn last_goal(folder: &std::path::Path) -> String {
    let kept: Value = serde_json::from_slice(&std::fs::read(folder.join("chat.json")).unwrap()).unwrap();
    kept["last_goals"].as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
}

#[test]
fn chat_answers_arguments_and_piped_lines() {
    let dev = Dev::start();

    let once = dev.chat(&["Please create a note:", "buy milk"], "");
    assert_eq!(once.status.code(), Some(0), "{once:?}");
    assert!(is_note(text(&once.stdout)), "{once:?}");
    assert_eq!(text(&once.stderr), "⚙ Create note … done\n");

    let piped = dev.chat(&[], "what time is it?\n\n  Please create a note: buy bread\nlast words");
    assert_eq!(piped.status.code(), Some(0), "{piped:?}");
    let replies: Vec<&str> = text(&piped.stdout).lines().collect();
    assert!(replies.len() == 3 && replies[0].starts_with("It is 2"), "{replies:?}");
    assert!(replies[2].ends_with("You asked: last words"), "{replies:?}");
    assert_eq!(text(&piped.stderr), "⚙ Get current time … done\n⚙ Create note … done\n");

    let left = dev.chat(&[], "hello\n/quit\nnever sent");
    assert_eq!(left.status.code(), Some(0), "{left:?}");
    assert!(text(&left.stdout).ends_with("You asked: hello\n"), "{left:?}");

    let goal = last_goal(dev.folder.path());
    let demo: Value =
        serde_json::from_slice(&std::fs::read(dev.folder.path().join("demo.json")).unwrap()).unwrap();
    assert_eq!(demo["goal"], goal.as_str());
    let kept = dev.folder.path().join("chat.json");
    assert_eq!(std::fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o600);

    let json = dev.chat(&["--json", "Please create a note: buy salt"], "");
    assert_eq!((json.status.code(), text(&json.stderr)), (Some(0), ""), "{json:?}");
    let events: Vec<Value> =
        text(&json.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["type"], "RUN_STARTED");
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
    let said: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    let thread = dev.get(&format!("/v1/goals/{goal}/messages?limit=1"));
    assert!(said.ends_with(thread["data"][0]["content"].as_str().unwrap()), "{said}");
}

#[test]
fn failures_have_exit_codes_and_say_what_to_do() {
    let dev = Dev::start();
    let failed = dev.chat(&["/sim fail=authentication_error"], "");
    assert_eq!((failed.status.code(), text(&failed.stdout)), (Some(1), ""));
    assert_eq!(text(&failed.stderr), "✗ ordered by /sim fail (AUTHENTICATION_ERROR)\n");

    let retried = dev.chat(&[], "/sim fail=network_error\nhello");
    assert_eq!(retried.status.code(), Some(1), "one of them failed");
    assert!(text(&retried.stderr).contains("✗ ordered by /sim fail; retry 1 of 3 in "), "{retried:?}");
    assert!(text(&retried.stdout).ends_with("You asked: hello\n"), "{retried:?}");

    let nowhere = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let output = run(houston(nowhere.path()).arg("chat").args(arguments), "");
        assert_eq!(text(&output.stdout), "");
        (output.status.code().unwrap(), text(&output.stderr).to_owned())
    };
    let unknown_goal = format!("goal_{:032x}", 1);
    for (arguments, code, words) in [
        (&["--url", "http://127.0.0.1:1", "--key", "hou_x", "hi"][..], 3, "start `houston dev`"),
        (&["--url", &dev.url, "--key", "hou_wrong", "hi"], 4, "rejects the API key from --key"),
        (&["--url", &dev.url, "hi"], 4, "HOUSTON_API_KEY"),
        (&["--url", &dev.url, "--key", &dev.key, "--goal", &unknown_goal, "hi"], 5, &unknown_goal),
        (&["--url", "example", "--key", "hou_x", "hi"], 2, "--url takes one like http://"),
        (&["--url", &dev.url, "--key", &dev.key], 2, "no message"),
    ] {
        let (refusal, message) = refused(arguments);
        assert_eq!(refusal, code, "{arguments:?}: {message}");
        assert!(message.starts_with("houston: ") && message.contains(words), "{arguments:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn first_chat_in_a_folder_creates_a_goal_and_saves_it() {
    let dev = Dev::start();
    let place = || {
        let folder = tempfile::tempdir().unwrap();
        let chat = |message: &str| {
            let mut command = houston(folder.path());
            command
                .args(["chat", "--url", &format!("{}/", dev.url), message])
                .env("HOUSTON_API_KEY", &dev.key);
            let output = run(&mut command, "");
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            last_goal(folder.path())
        };
        let goal = chat("first");
        assert_eq!(chat("second"), goal);
        dev.get(&format!("/v1/goals/{goal}"))
    };
    // In the second folder the user's name is taken, possibly by another person.
    let (first, second) = (place(), place());
    assert_eq!((&first["title"], &second["title"]), (&"Chat".into(), &"Chat".into()));
    assert_ne!(first["user_id"], second["user_id"]);
    let user = |goal: &Value| dev.get(&format!("/v1/users/{}", goal["user_id"].as_str().unwrap()));
    assert_eq!(user(&first)["external_id"], "ann");
    assert!(user(&second)["external_id"].as_str().unwrap().starts_with("ann-"));
    let thread = dev.get(&format!("/v1/goals/{}/messages", first["id"].as_str().unwrap()));
    assert_eq!(thread["data"].as_array().unwrap().len(), 4);
}

#[test]
fn ctrl_c_cancels_the_run() {
    let dev = Dev::start();
    let mut command = houston(dev.folder.path());
    command.args(["chat", "--json", "/sim chunks=50000 delay_ms=5"]).stdin(Stdio::null());
    let mut chat = Process::spawn(&mut command).unwrap();
    let patience = Duration::from_secs(30);
    chat.wait_for_line(patience, |line| line.contains("TEXT_MESSAGE_CONTENT")).unwrap();
    chat.signal(Signal::INT).unwrap();
    assert_eq!(chat.wait(patience).unwrap().code(), Some(130), "{}", chat.log());
    assert!(
        chat.log().lines().any(|line| line.contains(r#""outcome":{"type":"cancelled"}"#)),
        "{}",
        chat.log()
    );
    let goal = dev.get(&format!("/v1/goals/{}", last_goal(dev.folder.path())));
    assert_eq!(dev.get(&format!("/v1/runs/{}", goal["run_id"].as_str().unwrap()))["status"], "cancelled");
}

#[test]
fn server_crash_during_an_answer_loses_no_text() {
    let mut dev = Dev::start();
    let mut command = houston(dev.folder.path());
    command.args(["chat", "--json", "/sim chunks=300 delay_ms=20"]);
    let mut chat = Process::spawn(&mut command).unwrap();
    let patience = Duration::from_secs(60);
    chat.wait_for_line(patience, |line| line.contains("TEXT_MESSAGE_CONTENT")).unwrap();
    dev.kill();
    dev.start_again();
    assert_eq!(chat.wait(patience).unwrap().code(), Some(0), "{}", chat.log());

    let thread = dev.get(&format!("/v1/goals/{}/messages", last_goal(dev.folder.path())));
    let answer = &thread["data"][0];
    assert_eq!(answer["content"].as_str().unwrap().split(' ').count(), 300);
    let log = chat.log();
    let events: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let deltas =
        |event: &&Value| event["type"] == "TEXT_MESSAGE_CONTENT" && event["messageId"] == answer["id"];
    let said: String = events.iter().filter(deltas).filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(said, answer["content"].as_str().unwrap());
    // The answer that the dead worker had begun was never stored, and is taken back.
    let begun = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_START").count();
    let taken_back = events.iter().filter(|event| event["type"] == "MESSAGES_SNAPSHOT").count();
    assert_eq!((begun, taken_back), (2, 1), "{log}");
}
