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
