//! The state that an agentable shares with front ends: its section of the prompt, and the tool that changes it.

use std::sync::Arc;

use houston_domain::guard::{ToolFacts, switched_off};
use houston_domain::shared_state::{SharedState, UPDATE_STATE};
use houston_tools::shared_state::update_state;
use houston_tools::untrusted::marked;
use serde_json::Value;

use super::Setup;
use crate::hook::PromptSection;

/// The name of the section of the prompt.
const SECTION: &str = "shared_state";

/// The setup with the state as it is when an attempt starts; `None`: nothing has changed it.
pub(crate) fn with_state(
    setup: Arc<Setup>,
    declared: &Arc<SharedState>,
    state: Option<&Value>,
) -> Arc<Setup> {
    let mut setup = Setup::clone(&setup);
    let is_on = switched_off(&setup.guards, UPDATE_STATE, &ToolFacts::default()).is_none();
    if setup.model.description().supports_tools
        && is_on
        && setup.offer_with_results.get(UPDATE_STATE).is_none()
    {
        let tools = [update_state(declared)];
        setup.offer = setup.offer.with_of_run(&tools);
        setup.offer_with_results = setup.offer_with_results.with_of_run(&tools);
    }
    // Front ends write it, and no one checks more than its schema.
    let state = state.unwrap_or(&declared.initial).to_string();
    let text = format!(
        "What you share with your user's screen, as it was when this run began. {UPDATE_STATE} changes it.\n{}",
        marked("the shared state", &state)
    );
    let section = PromptSection { name: SECTION.to_owned(), text };
    setup.sections = setup.sections.iter().cloned().chain([section]).collect();
    Arc::new(setup)
}
