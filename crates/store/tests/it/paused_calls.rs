//! Calls that pause: what they keep comes back as it was, and goes with the response.

use houston_domain::step::{Intent, RunTransition};
use houston_domain::tool_call::PausedCall;
use houston_domain::tool_call::{EffectClass, ToolResponse};
use serde_json::json;

use crate::test_store::TestStore;

#[tokio::test(flavor = "multi_thread")]
async fn paused_call_keeps_its_state_until_it_has_a_response() {
    let test = TestStore::start().await;
    test.post("hi").await;
    let claimed = test.claim().await.unwrap();
    let goes_on = || RunTransition::Continue { read: false, event: None };
    let (call, cell) = ("c1".to_owned(), test.ids.next());
    let mut step = test.step(&claimed, goes_on());
    let (name, effect) = ("book".to_owned(), EffectClass::Effect);
    step.intents.push(Intent { call: call.clone(), name, effect, cell });
    test.runs().commit(&claimed.fence, &step).await.unwrap();

    let state = json!({"request_state": "\u{0}\"\\\u{fffd}\u{1f600}", "number": 1.0});
    let paused = PausedCall { tool: "book".to_owned(), state, question: Some(test.ids.next()), until: None };
    let mut step = test.step(&claimed, goes_on());
    step.pauses.push((call.clone(), Some(paused.clone())));
    test.runs().commit(&claimed.fence, &step).await.unwrap();
    let stored = test.runs().committed_intents(claimed.run).await.unwrap();
    assert_eq!((&stored["c1"].response, &stored["c1"].paused), (&None, &Some(paused.clone())));

    let response = ToolResponse::success("booked");
    for (step_pause, step_response) in [(None, None), (Some(paused), None), (None, Some(response.clone()))] {
        let mut step = test.step(&claimed, goes_on());
        step.pauses.push((call.clone(), step_pause.clone()));
        step.responses.extend(step_response.clone().map(|response| (call.clone(), response)));
        test.runs().commit(&claimed.fence, &step).await.unwrap();
        let stored = test.runs().committed_intents(claimed.run).await.unwrap();
        assert_eq!((&stored["c1"].response, &stored["c1"].paused), (&step_response, &step_pause));
    }
}
