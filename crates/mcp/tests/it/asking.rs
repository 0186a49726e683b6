//! Servers whose calls do not end at once: they ask a person, or begin a task.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use houston_domain::id::MessageId;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_tools::{Acted, CallQuestion, Pause, Paused, Progress, Report, Reports, Until};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::guest::{Guest, until};
use crate::hostile::example;

async fn modern() -> Guest {
    let settings =
        format!("command = {:?}\nargs = [\"modern\"]\nprotocol = \"2026-07-28\"", example("asking_server"));
    Guest::new(&settings, "").await
}

/// The requests that the server got.
fn log(guest: &Guest) -> String {
    std::fs::read_to_string(guest.home().join("log")).unwrap_or_default()
}

fn paused(acted: Acted) -> (Value, Until) {
    match acted {
        Acted::Paused(Pause { state, until }) => (state, until),
        Acted::Done(response) => panic!("{response:?}"),
    }
}

fn done(acted: Acted) -> ToolResponse {
    match acted {
        Acted::Done(response) => response,
        Acted::Paused(pause) => panic!("{pause:?}"),
    }
}

fn again(state: Value) -> Paused {
    Paused { state, answer: None }
}

#[tokio::test]
async fn question_is_answered_with_what_the_server_wants_back() {
    let guest = modern().await;
    let (state, until) = paused(guest.begin("ask").await);
    let Until::Answered(CallQuestion { text, content, .. }) = until else { panic!("{until:?}") };
    assert_eq!(text, "s asks, to go on with ask, in its own words: “Who is it for?”.");
    assert_eq!(content.unwrap()["required"], json!(["name"]));
    // As it is stored.
    let state: Value = serde_json::from_str(&state.to_string()).unwrap();
    for (answer, words) in [
        (
            json!({"action": "accept", "content": {"name": "Ada"}}),
            "{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}",
        ),
        (json!({"action": "decline"}), "{\"action\":\"decline\"}"),
        (json!({"action": "cancel"}), "{\"action\":\"cancel\"}"),
    ] {
        let response = done(guest.go_on("ask", Paused { state: state.clone(), answer: Some(answer) }).await);
        assert!(response.text().contains(&format!("answered {{\"who\":{words}}}")), "{}", response.text());
        assert!(response.text().starts_with("<untrusted"), "{}", response.text());
    }
    assert_eq!(log(&guest).matches("tools/call ask").count(), 4);
}

#[tokio::test]
async fn what_a_server_wants_too_much_fails_the_call() {
    let guest = modern().await;
    for (tool, words) in [("greedy", "at most 65536"), ("sample", "call a model")] {
        let response = done(guest.begin(tool).await);
        assert!(response.text().contains(words), "{}", response.text());
        assert!(response.text().contains("may have happened"), "{}", response.text());
    }
    assert!(done(guest.begin("busy").await).text().contains("now"), "sent again without a person");
    let mut acted = guest.begin("insist").await;
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    for _ in 0..10 {
        acted = guest.go_on("insist", Paused { state: paused(acted).0, answer: Some(answer.clone()) }).await;
    }
    let response = done(acted);
    assert!(response.text().contains("more than 10 times"), "{}", response.text());
}

#[tokio::test]
async fn task_is_kept_before_it_is_asked_for() {
    let guest = modern().await;
    let (state, until) = paused(guest.begin("task").await);
    assert_eq!(until, Until::Elapsed(Duration::ZERO));
    assert!(!log(&guest).contains("tasks/get"), "not before it is stored");
    let response = done(guest.go_on("task", again(state)).await);
    assert!(response.is_success() && response.text().contains("the task is done"), "{}", response.text());
    assert_eq!(log(&guest).matches("tools/call").count(), 1);
    // The server says to come back in a minute: the run waits.
    let (state, until) = paused({
        let (state, _) = paused(guest.begin("slow").await);
        guest.go_on("slow", again(state)).await
    });
    assert_eq!(until, Until::Elapsed(Duration::from_mins(1)));
    guest.give_up("slow", state).await;
    assert!(log(&guest).contains("tasks/cancel slow"));
}

#[tokio::test]
async fn task_asks_a_person_and_says_why_it_failed() {
    let guest = modern().await;
    let (state, _) = paused(guest.begin("asking_task").await);
    let (state, until) = paused(guest.go_on("asking_task", again(state)).await);
    assert!(matches!(until, Until::Answered(_)));
    let answer = Some(json!({"action": "accept", "content": {"name": "Ada"}}));
    let (state, until) = paused(guest.go_on("asking_task", Paused { state, answer }).await);
    assert_eq!(until, Until::Elapsed(Duration::ZERO), "the answer is delivered, and that is stored");
    assert!(log(&guest).contains("tasks/update asking_task"));
    let response = done(guest.go_on("asking_task", again(state)).await);
    assert!(response.text().contains("no person of that name"), "{}", response.text());
}

#[tokio::test]
async fn task_that_is_gone_is_not_begun_again() {
    let guest = modern().await;
    let (state, _) = paused(guest.begin("lost").await);
    let response = done(guest.go_on("lost", again(state)).await);
    assert!(response.text().contains("no such task"), "{response:?}");
    assert!(response.text().contains("may have happened"), "{response:?}");
    assert!(
        matches!(response, ToolResponse::Failure { code: ToolErrorCode::ValidationError, .. }),
        "{response:?}"
    );
    // The server dies whenever it is asked for this one.
    let mut acted = guest.begin("die").await;
    for _ in 0..7 {
        match acted {
            Acted::Paused(Pause { state, .. }) => acted = guest.go_on("die", again(state)).await,
            Acted::Done(_) => break,
        }
    }
    let response = done(acted);
    assert!(response.text().contains("may have happened"), "{}", response.text());
    assert_eq!(log(&guest).matches("tools/call die").count(), 1);
}

#[tokio::test]
async fn task_of_a_cancelled_run_is_cancelled() {
    let guest = modern().await;
    let (state, _) = paused(guest.begin("endless").await);
    let stop = CancellationToken::new();
    let followed = guest.followed("endless", again(state), stop.clone());
    let cancelled = async {
        until("the task was asked for", || log(&guest).contains("tasks/get endless")).await;
        stop.cancel();
    };
    tokio::select! {
        acted = followed => panic!("{acted:?}"),
        () = cancelled => {}
    }
    until("the task is cancelled", || log(&guest).contains("tasks/cancel endless")).await;
}

#[derive(Default)]
struct Seen(Mutex<Vec<Report>>);

impl Reports for Seen {
    fn report(&self, report: Report) {
        self.0.lock().unwrap().push(report);
    }

    fn is_due(&self) -> bool {
        true
    }

    fn runs_as(&self, _: MessageId) {}
}

#[tokio::test]
async fn progress_of_a_call_is_passed_on() {
    let guest = modern().await;
    let seen = Arc::new(Seen::default());
    done(guest.watched("report", Progress::to(seen.clone())).await);
    let half = Report { progress: 1.0, total: Some(2.0), message: "half".to_owned() };
    until("the report has arrived", || *seen.0.lock().unwrap() == [half.clone()]).await;
}

#[tokio::test]
async fn question_of_an_older_server_is_declined_with_a_note() {
    let settings = format!("command = {:?}\nargs = [\"legacy\"]", example("asking_server"));
    let guest = Guest::new(&settings, "").await;
    let response = done(guest.begin("elicit").await);
    assert!(response.text().contains("\"action\":\"decline\""), "{}", response.text());
    assert!(
        response.text().starts_with("[during this call the server asked a person"),
        "{}",
        response.text()
    );
}
