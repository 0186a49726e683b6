//! Where a decision notes its steps.

use super::{Layer, Outcome, Step, StepTaken};

/// Takes the steps of a decision. `why` is only made when it is kept.
pub(super) trait Trace {
    fn note(&mut self, step: Step, layer: Option<&Layer>, outcome: Outcome, why: impl FnOnce() -> String);
}

/// Keeps nothing.
pub(super) struct NoTrace;

impl Trace for NoTrace {
    fn note(&mut self, _: Step, _: Option<&Layer>, _: Outcome, _: impl FnOnce() -> String) {}
}

impl Trace for Vec<StepTaken> {
    fn note(&mut self, step: Step, layer: Option<&Layer>, outcome: Outcome, why: impl FnOnce() -> String) {
        self.push(StepTaken {
            step,
            layer: layer.map(Layer::kind),
            name: layer.map(|layer| layer.name().to_owned()),
            outcome,
            why: why(),
        });
    }
}
