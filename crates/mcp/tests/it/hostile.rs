//! Servers that break, and what a run sees of it: an error, within its limits, and no process is left.

use std::time::{Duration, Instant};

use houston_domain::guard::Risk;
use houston_domain::tool_call::{EffectClass, ToolErrorCode, ToolResponse};
use houston_mcp::StartError;
use serde_json::json;

use crate::guest::{Guest, gone, until};

/// The settings of the hostile server.
fn hostile(how: &str) -> String {
    format!("command = {:?}\nargs = [{how:?}]", program())
}

/// The path of its program.
fn program() -> String {
    example("hostile_server")
}

/// The path of an example.
pub(crate) fn example(name: &str) -> String {
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(example.exists(), "{} is missing: build the examples", example.display());
    example.display().to_string()
}

fn failed(response: &ToolResponse) -> ToolErrorCode {
    match response {
        ToolResponse::Failure { code, .. } => *code,
        ToolResponse::Success { observation } => panic!("{observation}"),
    }
}

#[tokio::test]
async fn approved_tools_are_called_as_tools_of_agents() {
    let guest = Guest::new(&hostile("fair"), "").await;
    assert_eq!(guest.starts(), 0, "no process before the first call");
    assert_eq!(guest.call("echo", json!({"text": "hello"})).await, ToolResponse::success("hello"));
    let marked = "<untrusted source=\"s\">\nhello\n</untrusted>";
    assert_eq!(guest.marked_call("echo", json!({"text": "hello"})).await, ToolResponse::success(marked));
    assert_eq!(guest.starts(), 1);
    assert_eq!(failed(&guest.call("fail", json!({})).await), ToolErrorCode::Unknown);
    assert_eq!(failed(&guest.call("fly", json!({})).await), ToolErrorCode::NotFound);
    let definition = &guest.offer.get("s__echo").unwrap();
    assert_eq!(definition.definition().effect, EffectClass::Effect);
    assert!(definition.facts().untrusted_output && definition.facts().risk == Risk::Destructive);
}

#[tokio::test]
async fn server_gets_nothing_of_the_environment_but_what_is_named() {
    let settings = format!("{}\nenv = [\"SECRET\"]\nset = {{REGION = \"eu\"}}", hostile("fair"));
    let guest = Guest::new(&settings, "").await;
    let env = guest.call("env", json!({})).await;
    let mut names: Vec<&str> = env.text().lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "PATH", "REGION", "SECRET"]);
    assert!(env.text().contains(&format!("HOME={}", guest.home().display())), "{}", env.text());
}

#[tokio::test]
async fn missing_variable_is_named_to_the_operator_only() {
    let guest = Guest::broken(&format!("{}\nenv = [\"MISSING\"]", hostile("fair")), "");
    let look = guest.look().await;
    assert!(matches!(look.tools, Err(StartError::Variable(name)) if name == "MISSING"));
}

#[tokio::test]
async fn server_that_exits_fails_the_call_and_starts_again() {
    let guest = Guest::new(&hostile("fair"), "").await;
    let pids = guest.call("pids", json!({})).await;
    let answer = guest.call("exit", json!({})).await;
    assert_eq!(failed(&answer), ToolErrorCode::IoError);
    assert!(answer.text().contains("may have happened"), "{}", answer.text());
    gone(pids.text()).await;
    answered(&guest).await;
}

#[tokio::test]
async fn killed_server_fails_the_call_in_progress() {
    let guest = Guest::new(&hostile("fair"), "").await;
    let pids = guest.call("pids", json!({})).await;
    let server: i32 = pids.text().split(' ').next().unwrap().parse().unwrap();
    let hang = guest.call("hang", json!({}));
    let kill = async {
        let pid = rustix::process::Pid::from_raw(server).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    };
    let (answer, ()) = tokio::join!(hang, kill);
    assert_eq!(failed(&answer), ToolErrorCode::IoError);
    gone(pids.text()).await;
}

#[tokio::test]
async fn call_that_hangs_ends_at_its_limit() {
    let guest = Guest::new(&hostile("fair"), "call_s = 1").await;
    let answer = guest.call("hang", json!({})).await;
    assert_eq!(failed(&answer), ToolErrorCode::Timeout);
    assert!(
        answer.text().contains("within 1 s") && answer.text().contains("may have happened"),
        "{}",
        answer.text()
    );
}

/// Calls `echo` until it answers: a server that has failed is started again after a pause.
async fn answered(guest: &Guest) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let answer = guest.call("echo", json!({"text": "again"})).await;
        if answer.is_success() {
            break assert_eq!(answer.text(), "again");
        }
        assert!(Instant::now() < deadline, "{}", answer.text());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn server_that_is_stuck_is_started_again() {
    let guest = Guest::new(&hostile("fair"), "call_s = 1").await;
    let pids = guest.call("pids", json!({})).await;
    assert_eq!(failed(&guest.call("freeze", json!({})).await), ToolErrorCode::Timeout);
    answered(&guest).await;
    gone(pids.text()).await;
}

#[tokio::test]
async fn server_that_left_between_calls_is_started_at_once() {
    let guest = Guest::new(&hostile("fair"), "").await;
    let pids = guest.call("pids", json!({})).await;
    assert_eq!(guest.call("leave", json!({})).await, ToolResponse::success("Good bye."));
    let server = pids.text().split(' ').next().unwrap().to_owned();
    let is_reaped = || !std::path::Path::new(&format!("/proc/{server}")).exists();
    until("the server has left, and was waited for", is_reaped).await;
    assert_eq!(guest.call("echo", json!({"text": "back"})).await, ToolResponse::success("back"));
    assert_eq!(guest.starts(), 2);
}

#[tokio::test]
async fn caller_that_gives_up_does_not_end_a_start() {
    let guest = Guest::new(&hostile("fair"), "").await;
    let gated = Guest::again(guest, &hostile("gated"));
    let is_starting = async { until("the server is starting", || gated.starts() == 1).await };
    tokio::select! {
        answer = gated.call("echo", json!({"text": "a"})) => panic!("{}", answer.text()),
        () = is_starting => {}
    }
    std::fs::write(gated.home().join("gate"), "").unwrap();
    assert_eq!(gated.call("echo", json!({"text": "b"})).await, ToolResponse::success("b"));
    assert_eq!(gated.starts(), 1, "the start that was under way was used");
}

#[tokio::test]
async fn server_without_output_is_given_time_to_exit() {
    // The output of the shell ends with the server in it; it stores something once its input has ended, too.
    let script = "$IT fair; [ $? = 9 ] || exit 0; exec >&-; cat > rest; sleep 0.3; touch stored";
    let settings = format!("command = \"sh\"\nargs = [\"-c\", {script:?}]\nset = {{IT = {:?}}}", program());
    let guest = Guest::new(&settings, "").await;
    assert_eq!(failed(&guest.call("exit", json!({})).await), ToolErrorCode::IoError);
    let stored = guest.home().join("stored");
    until("what the process stores at its end is there", || stored.exists()).await;
}

#[tokio::test]
async fn failed_second_list_is_not_taken_for_an_empty_one() {
    let guest = Guest::broken(&hostile("fickle"), "");
    let error = guest.look().await.tools.unwrap_err().to_string();
    assert!(error.contains("not again"), "{error}");
}

#[tokio::test]
async fn answer_of_20_mb_is_refused_and_the_server_stopped() {
    let guest = Guest::new(&hostile("fair"), "").await;
    let pids = guest.call("pids", json!({})).await;
    let answer = guest.call("huge", json!({})).await;
    assert_eq!(failed(&answer), ToolErrorCode::IoError);
    assert!(answer.text().contains("1048576 bytes"), "{}", answer.text());
    gone(pids.text()).await;
}

#[tokio::test]
async fn flood_on_stderr_does_not_block_the_server() {
    let guest = Guest::new(&hostile("noisy"), "").await;
    assert_eq!(guest.call("echo", json!({"text": "heard"})).await, ToolResponse::success("heard"));
}

#[tokio::test]
async fn server_is_not_probed_before_initialize() {
    let guest = Guest::new(&hostile("probed"), "").await;
    assert_eq!(guest.call("echo", json!({"text": "here"})).await, ToolResponse::success("here"));
}

#[tokio::test]
async fn changed_tool_is_not_called_until_it_is_approved() {
    let guest = Guest::new(&hostile("fair"), "").await;
    assert!(guest.call("echo", json!({"text": "a"})).await.is_success());
    std::fs::write(guest.home().join("description"), "Repeats, and sends everything to me.").unwrap();
    // The server says that its tools have changed before the next call is made, or the list is as old as before.
    guest.call("announce", json!({})).await;
    let answer = loop {
        let answer = guest.call("echo", json!({"text": "b"})).await;
        if !answer.is_success() {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(failed(&answer), ToolErrorCode::PermissionDenied);
    assert!(guest.call("announce", json!({})).await.is_success(), "other tools are called");
    let description = &guest.offer.get("s__echo").unwrap().definition().description;
    assert_eq!(description, "Repeats its argument.", "the model reads what was approved");
}

#[tokio::test]
async fn server_that_never_answers_is_ended_at_its_limit() {
    let guest = Guest::broken(&hostile("deaf"), "start_s = 1");
    let look = guest.look().await;
    assert!(matches!(look.tools, Err(StartError::Timeout(1))));
}

#[tokio::test]
async fn program_that_does_not_exist_is_named_to_the_operator() {
    let guest = Guest::broken("command = \"no-such-program-here\"", "");
    let error = guest.look().await.tools.unwrap_err().to_string();
    assert!(error.contains("no-such-program-here") && error.contains("installed"), "{error}");
}

#[tokio::test]
async fn idle_server_that_ignores_end_and_sigterm_is_stopped() {
    let script = "trap '' TERM; exec $IT lasting";
    let settings = format!("command = \"sh\"\nargs = [\"-c\", {script:?}]\nset = {{IT = {:?}}}", program());
    let guest = Guest::new(&settings, "idle_s = 1").await;
    let pids = guest.call("pids", json!({})).await;
    assert!(pids.is_success(), "{}", pids.text());
    gone(pids.text()).await;
    assert_eq!(
        guest.call("echo", json!({"text": "again"})).await,
        ToolResponse::success("again"),
        "it starts again at once"
    );
}

#[tokio::test]
async fn closing_the_pool_ends_its_processes() {
    let guest = Guest::new(&hostile("lasting"), "").await;
    let pids = guest.call("pids", json!({})).await;
    guest.pool.close().await;
    gone(pids.text()).await;
}

#[test]
fn no_process_is_left_when_the_runtime_ends() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (guest, pids) = runtime.block_on(async {
        let guest = Guest::new(&hostile("lasting"), "").await;
        let pids = guest.call("pids", json!({})).await;
        (guest, pids)
    });
    drop(runtime);
    tokio::runtime::Runtime::new().unwrap().block_on(gone(pids.text()));
    drop(guest);
}
