//! Tool calls from code: their order, their errors, and the same again after a crash.

use std::time::Duration;

use houston_sandbox::{Answer, Call, Error, Host, Limits, Outcome, Script};
use serde_json::{Value, json};

use crate::runs::{sandbox, script};
use crate::scripts::{run_with_tools, with_tools};

#[tokio::test]
async fn calls_made_at_once_are_answered_at_once() {
    struct Rounds(Vec<Vec<Call>>);
    impl Host for Rounds {
        async fn answer(&mut self, calls: Vec<Call>) -> Result<Vec<Answer>, String> {
            let answers = calls.iter().map(|call| Ok(json!(call.number))).collect();
            self.0.push(calls);
            Ok(answers)
        }
    }
    let code = "const first = await Promise.all([tools.add({a: 1}), tools.echo('x')]);\n\
        return [...first, await tools.add()]";
    let mut host = Rounds(Vec::new());
    let run = sandbox().run(&with_tools(code), &mut host).await.unwrap();
    assert_eq!(run.outcome, Outcome::Value(json!([1, 2, 3])));
    assert_eq!(run.calls, 3);
    let rounds: Vec<Vec<(usize, &str, Value)>> = host
        .0
        .iter()
        .map(|calls| calls.iter().map(|call| (call.number, call.tool.as_str(), call.input.clone())).collect())
        .collect();
    assert_eq!(
        rounds,
        [vec![(1, "add", json!({"a": 1})), (2, "echo", json!("x"))], vec![(3, "add", json!({}))],]
    );
}

#[tokio::test]
async fn tool_errors_are_thrown_where_the_tool_is_called() {
    let run =
        run_with_tools("try { await tools.fail({}) } catch (e) { return [e.name, e.message, e.tool] }").await;
    assert_eq!(run.outcome, Outcome::Value(json!(["ToolError", "fail fails", "fail"])));
    let run = run_with_tools("await tools.fail({})").await;
    assert!(run.outcome.text().contains("ToolError: fail fails"), "{}", run.outcome.text());
}

#[tokio::test]
async fn calls_without_await_are_made() {
    let run =
        run_with_tools("tools.echo({a: 1}); tools.add({}).then(() => tools.echo({a: 2})); return 'done'")
            .await;
    assert_eq!(run.outcome, Outcome::Value(json!("done")));
    assert_eq!(run.calls, 3);
}

#[tokio::test]
async fn large_inputs_are_asked_for_in_several_lines() {
    let code = "const x = 'x'.repeat(100000);\n\
        const r = await Promise.all([...Array(30).keys()].map((i) => tools.echo({i, x})));\n\
        return r.map((a) => a.i).join()";
    let run = run_with_tools(code).await;
    let expected: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    assert_eq!(run.outcome, Outcome::Value(json!(expected.join(","))));
    assert_eq!(run.calls, 30);
}

#[tokio::test]
async fn too_many_or_too_large_calls_are_errors() {
    let run = run_with_tools("for (;;) await tools.echo({})").await;
    assert!(run.outcome.text().contains("too many tool calls"), "{}", run.outcome.text());
    assert_eq!(run.calls, 1000);
    let run = run_with_tools("await tools.echo('x'.repeat(300000))").await;
    assert!(run.outcome.text().contains("the input of echo has 300002 bytes"), "{}", run.outcome.text());
}

#[tokio::test]
async fn time_does_not_run_while_tools_work() {
    struct Slow;
    impl Host for Slow {
        async fn answer(&mut self, calls: Vec<Call>) -> Result<Vec<Answer>, String> {
            tokio::time::sleep(Duration::from_secs(6)).await;
            Ok(calls.iter().map(|_| Ok(json!("late"))).collect())
        }
    }
    let limits = Limits { time: Duration::from_secs(5), ..Limits::default() };
    let slow = Script { limits, ..with_tools("return await tools.echo({})") };
    let run = sandbox().run(&slow, &mut Slow).await.unwrap();
    assert_eq!(run.outcome, Outcome::Value(json!("late")));
}

#[tokio::test]
async fn a_host_can_end_the_script() {
    struct Refuses;
    impl Host for Refuses {
        async fn answer(&mut self, _: Vec<Call>) -> Result<Vec<Answer>, String> {
            Err("the lease is lost".to_owned())
        }
    }
    let error = sandbox().run(&with_tools("return await tools.echo({})"), &mut Refuses).await.unwrap_err();
    assert!(matches!(&error, Error::Stopped(reason) if reason == "the lease is lost"), "{error}");
}

/// Records calls and answers them with numbers that differ at each call.
#[derive(Default)]
struct Recorder {
    /// Answers of an earlier run, by position.
    recorded: Vec<Answer>,
    calls: Vec<Call>,
    answers: Vec<Answer>,
    /// Where this run ends, as in a crash.
    crash_at: Option<usize>,
}

impl Host for Recorder {
    async fn answer(&mut self, calls: Vec<Call>) -> Result<Vec<Answer>, String> {
        let mut answers = Vec::new();
        for call in calls {
            if self.crash_at == Some(call.number) {
                return Err("crash".to_owned());
            }
            let answer = match self.recorded.get(call.number - 1) {
                Some(answer) => answer.clone(),
                None if call.number % 5 == 0 => Err(format!("call {} fails", call.number)),
                None => Ok(json!({"number": call.number, "text": format!("answer {}", call.number)})),
            };
            answers.push(answer.clone());
            self.answers.push(answer);
            self.calls.push(call);
        }
        Ok(answers)
    }
}

/// Uses all that could differ between two runs.
const DECIDES_BY_CHANCE: &str = "
const log = [];
const step = async (name) => {
  const pick = Math.random() < 0.5 ? tools.echo : tools.add;
  try {
    const r = await pick({ name, at: Date.now(), now: new Date().toISOString(), id: crypto.randomUUID() });
    log.push([name, r.number]);
  } catch (e) { log.push([name, e.message]); }
};
const later = (ms) => new Promise((done) => setTimeout(done, ms));
await Promise.all([...'abcdef'].map(async (name) => { await later(Math.random() * 100); await step(name); }));
for (let i = 0; i < 10; i++) { await step('n' + i); if (Math.random() < 0.3) await later(1000); }
const real = new (Object.getPrototypeOf(new Date()).constructor)().getTime() === Date.now();
return { log, end: Date.now(), real, random: Math.random() };
";

#[tokio::test]
async fn a_replay_makes_the_same_calls_in_the_same_order() {
    let script = with_tools(DECIDES_BY_CHANCE);
    let mut first = Recorder::default();
    let whole = sandbox().run(&script, &mut first).await.unwrap();
    assert_eq!(first.calls.len(), 16, "{}", whole.outcome.text());
    let Outcome::Value(value) = &whole.outcome else { panic!("{}", whole.outcome.text()) };
    assert_eq!(value["real"], json!(true), "the real clock can be reached");
    for crash_at in [1, 2, 7, 16] {
        let mut crashed = Recorder { crash_at: Some(crash_at), ..Recorder::default() };
        sandbox().run(&script, &mut crashed).await.unwrap_err();
        let mut again = Recorder { recorded: crashed.answers, ..Recorder::default() };
        let replayed = sandbox().run(&script, &mut again).await.unwrap();
        assert_eq!(again.calls, first.calls, "after a crash at call {crash_at}");
        assert_eq!(replayed, whole, "after a crash at call {crash_at}");
    }
}

#[tokio::test]
async fn another_seed_or_clock_is_another_run() {
    let values = |seed, now_ms| async move {
        let script =
            Script { seed, now_ms, ..script("return [Math.random(), Date.now(), crypto.randomUUID()]") };
        let run = sandbox().run(&script, &mut Recorder::default()).await.unwrap();
        let Outcome::Value(value) = run.outcome else { panic!("{}", run.outcome.text()) };
        value
    };
    let first = values(1, 5).await;
    assert_eq!(first, values(1, 5).await);
    let other = values(1 << 40, 6).await;
    assert_ne!(first[0], other[0]);
    assert_eq!((&first[1], &other[1]), (&json!(5), &json!(6)));
    assert_ne!(first[2], other[2]);
}
