//! Whether a message seems to need several operations, by rules: a sentence in the prompt of an agent that makes plans. And
//! whether its run begins with a plan in any case.

use houston_domain::agentable::Planning;
use houston_domain::analysis::{Vocabulary, analyse, hint};
use houston_domain::event::Event;
use houston_domain::frame::FrameMark;
use houston_domain::history::{Entry, Role};
use houston_store::run_context::RunContext;
use houston_tools::Needs;
use houston_tools::builtin::{self, CREATE_PLAN};

use crate::hook::PromptSection;
use crate::setup::Setup;
use crate::setup::guards::user_texts;

/// The element around the sentence.
const ELEMENT: &str = "analysis";

/// What is said about the message that the run begins with, and the event for streams. `None`: there is nothing to say,
/// the model has answered already, or the agent makes no plans.
pub(crate) fn analysis(setup: &Setup, context: &RunContext) -> Option<(PromptSection, Event)> {
    if !setup.makes_plans || setup.offer.get(CREATE_PLAN).is_none() {
        return None;
    }
    let own = context.history.get(context.history.len().saturating_sub(context.run_entries)..)?;
    if own.iter().any(|entry| entry.role == Role::Assistant) {
        return None;
    }
    let text = user_texts(own, setup, &context.mark).join("\n");
    if text.is_empty() {
        return None;
    }
    let (strategy, operations) = analyse(&text, setup.vocabulary.get_or_init(|| vocabulary(setup)));
    let text = hint(strategy, operations, CREATE_PLAN)?;
    Some((PromptSection { name: ELEMENT.to_owned(), text }, Event::Analysed { strategy, operations }))
}

/// The tool that the run must begin with: its kind plans for each message. `own`: the entries of the run.
pub(crate) fn forced_tool(setup: &Setup, own: &[Entry], mark: &FrameMark) -> Option<&'static str> {
    let forces = setup.makes_plans && setup.agent_type.plans == Planning::Force;
    let begins = forces && own.iter().all(|entry| entry.role == Role::User);
    let is_new = begins && !user_texts(own, setup, mark).is_empty();
    (is_new && setup.offer.get(CREATE_PLAN).is_some()).then_some(CREATE_PLAN)
}

/// The words of what the agent can do, apart from plans.
fn vocabulary(setup: &Setup) -> Vocabulary {
    let definitions = setup.offer.tools().iter().map(|tool| tool.definition());
    let others = definitions.filter(|tool| builtin::needs(&tool.name) != Some(Needs::Plans));
    Vocabulary::new(others.flat_map(|tool| [tool.name.as_str(), tool.description.as_str()]))
}
