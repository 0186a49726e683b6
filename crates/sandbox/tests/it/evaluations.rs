//! Evaluations: many by one child, and what takes too much ends that child alone.

use houston_sandbox::{Evaluators, NoAnswer};

use crate::runs::program;

#[tokio::test]
async fn hostile_evaluations_end_only_their_child() {
    let evaluators = Evaluators::new(program(), 2);
    for nth in 0..50 {
        let request = format!(r#"{{"nth":{nth}}}"#);
        assert_eq!(evaluators.evaluate(&request).await.unwrap().get(), request);
    }
    let (spun, grown, answered) = tokio::join!(
        evaluators.evaluate(r#""spin""#),
        evaluators.evaluate(r#""grow""#),
        evaluators.evaluate("[1,2]"),
    );
    assert!(matches!(spun, Err(NoAnswer::Time)), "{spun:?}");
    assert!(matches!(grown, Err(NoAnswer::Memory)), "{grown:?}");
    assert_eq!(answered.unwrap().get(), "[1,2]");
}

#[tokio::test]
async fn killed_child_that_waits_costs_no_evaluation() {
    let evaluators = Evaluators::new(program(), 1);
    assert_eq!(evaluators.evaluate("1").await.unwrap().get(), "1");
    let own = std::process::id().to_string();
    let found = std::process::Command::new("pgrep").args(["-P", &own, "-f", "evaluation"]).output().unwrap();
    let children = String::from_utf8(found.stdout).unwrap();
    let last = children.split_whitespace().max_by_key(|pid| pid.parse::<u32>().unwrap()).unwrap();
    assert!(std::process::Command::new("kill").args(["-9", last]).status().unwrap().success());
    for _ in 0..2 {
        assert_eq!(evaluators.evaluate("2").await.unwrap().get(), "2");
    }
}
