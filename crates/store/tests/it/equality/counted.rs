//! What a claim says of its run, counted from the claims and steps before it.

use houston_domain::event::Event;
use houston_domain::id::RunId;
use houston_domain::model::Usage;
use houston_store::claim::ClaimedRun;

use super::sequence::{End, Shape};

/// The run that was claimed last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    run: RunId,
    attempts: i32,
    /// In a row, without a committed step.
    claims: i32,
    failed_attempts: i32,
    /// The number that all steps of the test state, once there was one.
    iterations: i32,
    /// That used tokens.
    steps: u64,
    /// Whether a step wrote the run's error message.
    has_error: bool,
    /// Whether a step has released the run since it was claimed.
    is_released: bool,
}

impl Counted {
    /// Counts a claim, and asserts that it says the same of its run.
    pub(super) fn of(last: Option<Self>, claimed: &ClaimedRun) -> Self {
        let begun = Self {
            run: claimed.run,
            attempts: 0,
            claims: 0,
            failed_attempts: 0,
            iterations: 0,
            steps: 0,
            has_error: false,
            is_released: true,
        };
        let mut counted = last.filter(|last| last.run == claimed.run).unwrap_or(begun);
        counted.attempts += 1;
        counted.claims += 1;
        let Self { attempts, claims, failed_attempts, iterations, steps, .. } = counted;
        assert_eq!(
            (claimed.attempt, claimed.claims, claimed.failed_attempts, claimed.iterations),
            (attempts, claims, failed_attempts, iterations),
            "{claimed:?}"
        );
        let usage = Usage {
            input_tokens: 7 * steps,
            output_tokens: 5 * steps,
            reasoning_tokens: steps,
            ..Usage::default()
        };
        assert_eq!((claimed.usage, claimed.error.is_some()), (usage, counted.has_error), "{claimed:?}");
        let started = Event::AttemptStarted {
            attempt: attempts,
            iteration: u32::try_from(iterations).unwrap() + 1,
            next_message_id: claimed.next_message,
            takeover: !counted.is_released,
            resumed: false,
        };
        assert_eq!(claimed.event.event, started);
        counted.is_released = false;
        counted
    }

    /// Counts a step that was committed.
    pub(super) fn commit(&mut self, shape: &Shape) {
        self.iterations = 1;
        // One that only looks for messages shows nothing.
        if matches!(shape.end, End::Poll) {
            return;
        }
        self.claims = 0;
        self.steps += 1;
        self.failed_attempts += i32::from(matches!(shape.end, End::Retry { counts: true }));
        self.has_error |= shape.messages > 1;
        self.is_released |= matches!(shape.end, End::Retry { .. } | End::Release);
    }
}
