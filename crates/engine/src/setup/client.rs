//! What the client of a run offers: tools that it carries out, and what it shows its user.

use std::sync::Arc;

use houston_domain::client_offer::{ClientOffer, ContextItem};
use houston_domain::guard::{ToolFacts, switched_off};
use houston_tools::SharedTool;
use houston_tools::client::offered;
use houston_tools::untrusted::marked;

use super::Setup;
use crate::hook::PromptSection;

/// The name of the section of the prompt with what the client shows.
const SECTION: &str = "client_context";

/// The setup with what the client offers, without tools whose names are taken and those that the guards switch off. Without an
/// offer it is the same setup.
pub(super) fn with_client(setup: Arc<Setup>, offer: Option<&ClientOffer>) -> Arc<Setup> {
    let Some(offer) = offer.filter(|offer| !offer.is_empty()) else { return setup };
    let mut setup = Setup::clone(&setup);
    if setup.model.description().supports_tools {
        let tools = tools(&setup, offer);
        setup.offer = setup.offer.with_of_run(&tools);
        setup.offer_with_results = setup.offer_with_results.with_of_run(&tools);
    }
    if !offer.context.is_empty() {
        let section = PromptSection { name: SECTION.to_owned(), text: context(&offer.context) };
        setup.sections = setup.sections.iter().cloned().chain([section]).collect();
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
