//! What a run has of its client: tools that it carries out, what it shows its user, the form that it wants answers in; and the
//! state that an agentable shares with front ends: its section of the prompt, and the tool that changes it.

use std::sync::Arc;

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::client_offer::{ClientOffer, ContextItem};
use houston_domain::guard::{ToolFacts, switched_off};
use houston_domain::shared_state::{SharedState, UPDATE_STATE};
use houston_llm::instruction;
use houston_store::run_context::RunContext;
use houston_tools::SharedTool;
use houston_tools::client::offered;
use houston_tools::shared_state::update_state;
use houston_tools::untrusted::marked;
use serde_json::Value;

use super::{Setup, answer_schema, reply_of};

/// The name of the section of the prompt with what the client shows.
const SECTION: &str = "client_context";
/// The name of the section with the form of the answer.
const OUTPUT: &str = "output";

/// The name of the section with the shared state.
const STATE_SECTION: &str = "shared_state";

/// The setup whose answers have the form that the client, the team, the agent or the kind wants. Without one it is the same
/// setup.
pub(super) fn with_output(setup: Arc<Setup>, context: &RunContext) -> Arc<Setup> {
    let of_message = context.client.as_ref().and_then(|offer| offer.output.as_ref());
    let wanted = of_message.or(context.serving.output()).or(setup.agent_type.output.as_ref());
    let Some(output) = wanted.filter(|_| !setup.agent_type.is_plan()).cloned() else { return setup };
    let mut setup = Setup::clone(&setup);
    // The answer is the text of the last turn.
    setup.change_offers(|offer| {
        let names = offer.tools().iter().map(|tool| tool.definition().name.clone());
        offer.limited_to(&names.filter(|name| name != SEND_MESSAGE).collect::<Vec<_>>())
    });
    setup.policy.reply = reply_of(setup.policy.reply, &setup.offer);
    setup.add_section(OUTPUT, instruction(&answer_schema(&output)));
    setup.wanted.output = Some(output);
    Arc::new(setup)
}

/// The setup with what the client offers, without tools whose names are taken and those that the guards switch off. Without an
/// offer it is the same setup.
pub(super) fn with_client(setup: Arc<Setup>, offer: Option<&ClientOffer>) -> Arc<Setup> {
    let Some(offer) = offer.filter(|offer| !offer.is_empty()) else { return setup };
    let mut setup = Setup::clone(&setup);
    setup.agent_type.model_policy = offer.model_policy.over(setup.agent_type.model_policy);
    if setup.model.description().supports_tools {
        let tools = tools(&setup, offer);
        let names = || tools.iter().map(|tool| tool.definition().name.clone());
        setup.wanted.must_call = names().filter(|name| offer.must_call.contains(name)).collect();
        setup.wanted.one_call_of = names().filter(|_| offer.one_call).collect();
        setup.change_offers(|offer| offer.with_of_run(&tools));
    }
    setup.agent_type.sampling = offer.sampling.over(&setup.agent_type.sampling);
    let limits = setup.policy.limits;
    setup.policy.limits = limits.with(offer.limits.within(limits));
    if !offer.context.is_empty() {
        setup.add_section(SECTION, context(&offer.context));
    }
    Arc::new(setup)
}

fn tools(setup: &Setup, offer: &ClientOffer) -> Vec<SharedTool> {
    let is_free = |name: &str| {
        let is_taken = setup.offer_with_results.get(name).is_some();
        if is_taken {
            tracing::warn!(tool = name, "a tool of a client has a name that is taken");
        }
        !is_taken && switched_off(&setup.guards, name, &ToolFacts::default()).is_none()
    };
    offer.tools.iter().filter(|tool| is_free(&tool.name)).map(offered).collect()
}

/// What the client shows, between marks: no one has checked it.
fn context(items: &[ContextItem]) -> String {
    let texts: Vec<String> = items
        .iter()
        .map(|ContextItem { description, value }| match description.as_str() {
            "" => value.clone(),
            description => format!("{description}: {value}"),
        })
        .collect();
    marked("what the user's client shows", &texts.join("\n"))
}

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
        setup.change_offers(|offer| offer.with_of_run(&tools));
    }
    // Front ends write it, and no one checks more than its schema.
    let state = state.unwrap_or(&declared.initial).to_string();
    let text = format!(
        "What you share with your user's screen, as it was when this run began. {UPDATE_STATE} changes it.\n{}",
        marked("the shared state", &state)
    );
    setup.add_section(STATE_SECTION, text);
    Arc::new(setup)
}
