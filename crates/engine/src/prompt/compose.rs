//! Composing the prompt from its sections.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use houston_domain::agent::Reply;
use houston_domain::agentable::AgentType;
use houston_domain::frame::FrameMark;
use houston_domain::guard::Layer;
use houston_domain::local_time::parse_zone;
use houston_domain::skill::{SkillSummary, entry};
use houston_llm::SystemPart;
use houston_store::run_context::{PromptUser, RunContext};
use houston_tools::{Offer, Situation, Skills};
use serde::{Deserialize, Serialize};

use super::sections::{
    SYSTEM_CONTEXT, Section, Stability, added, aim, automation, autonomy, base, capabilities,
    custom_instructions, earlier, frame_mark, knowledge, profile, skills as of_skills, time, tools,
    workspace,
};
use crate::hook::PromptSection;
use crate::setup::{Setup, has_skill_tools};

/// Everything a prompt is composed from.
#[derive(Clone, Copy)]
pub struct PromptInput<'a> {
    /// The agent type of the kind.
    pub agent_type: &'a AgentType,
    /// What the user reads of the agent's answers.
    pub reply: Reply,
    /// The tools the model is offered.
    pub offer: &'a Offer,
    /// What the agent may do with its tools.
    pub guards: &'a [Arc<Layer>],
    /// Sections that hooks added.
    pub added: &'a [PromptSection],
    /// The skills of the run.
    pub skills: &'a [SkillSummary],
    /// The kinds whose conversations the prompt lists.
    pub reached: &'a [AgentType],
    /// The agentable's title.
    pub title: &'a str,
    /// The agentable's description.
    pub description: &'a str,
    /// History, knowledge and settings, as read from Postgres.
    pub context: &'a RunContext,
    /// The current time.
    pub now: DateTime<Utc>,
    /// Characters that all sections together may have.
    pub most_chars: usize,
}

/// A composed prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The sections that have text, in order.
    pub sections: Vec<RenderedSection>,
    /// Items left out because of `most_chars`, in the order in which they were removed.
    pub left_out: Vec<Omission>,
    /// The mark of the system context's frame.
    pub mark: FrameMark,
}

/// A section as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedSection {
    /// Its name, such as `profile`.
    pub name: &'static str,
    /// How long the text stays the same.
    pub stability: Stability,
    /// Its text, with its elements.
    pub text: String,
}

/// Items of one section that were left out because of `most_chars`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omission {
    /// Name of the section.
    pub section: String,
    /// Number of items left out.
    pub items: usize,
    /// Whether the whole section is left out.
    pub whole: bool,
}

/// The prompt of an agentable with this title and description. Runs and previews both use this function, so a preview is
/// exactly what a model is sent.
pub fn compose(
    setup: &Setup,
    offer: &Offer,
    title: &str,
    description: &str,
    context: &RunContext,
    now: DateTime<Utc>,
    most_chars: usize,
) -> Prompt {
    let skills = skills(setup, context);
    let input = PromptInput {
        agent_type: &setup.agent_type,
        reply: setup.policy.reply,
        offer,
        guards: &setup.guards,
        added: &setup.sections,
        skills: skills.as_ref().map_or(&[][..], Skills::available),
        reached: &setup.reached,
        title,
        description,
        context,
        now,
        most_chars,
    };
    input.compose()
}

/// The tools of `setup` that are offered to a run with this context: without `read_result`, and with it for runs that have
/// large results. The prompt lists the former, because it must not change during a run.
pub fn offers(setup: &Setup, context: &RunContext) -> [Offer; 2] {
    // Tools that the history has calls of stay offered.
    let has_skills = has_skill_tools(&setup.offer)
        && (skills(setup, context).is_some() || entry::has_calls(&context.history));
    let has_sessions = context.has_sessions;
    let situation = Situation { has_sessions, has_skills, makes_plans: setup.makes_plans };
    [&setup.offer, &setup.offer_with_results].map(|offer| offer.in_situation(situation))
}

/// The skills of a run with this context; `None`: there are none, or its agent has no tools for them.
pub fn skills(setup: &Setup, context: &RunContext) -> Option<Skills> {
    let skills = Skills::of(&setup.skills, &context.skills)?;
    has_skill_tools(&setup.offer).then_some(skills)
}

impl PromptInput<'_> {
    /// The ten sections without a limit. Aim and frame mark belong to the base: the aim comes after the last section that is
    /// stable for an agentable, the frame mark before the first that is stable for a session.
    pub fn sections(&self) -> Vec<Section> {
        let nobody = PromptUser::default();
        let about_user = self.agent_type.prompt.about_user;
        // Needed even without `about_user`: it decides what "tomorrow" means.
        let zone = parse_zone(&self.context.user.time_zone);
        let user = if about_user { &self.context.user } else { &nobody };
        let parent = self.context.setting.parent.as_ref();
        let first = [
            Some(base(self.agent_type, self.reply)),
            Some(profile(user)),
            Some(custom_instructions(&user.custom_instructions)),
            Some(tools(self.offer, self.guards)),
            Some(automation(&self.context.check_ins, zone)),
            Some(workspace(self.agent_type)),
            Some(capabilities(self.offer)),
            Some(of_skills(self.skills)),
            Some(autonomy(self.agent_type.autonomy)),
            parent.map(|parent| aim(&parent.kind, &parent.title, &parent.description)),
            Some(aim(&self.agent_type.kind, self.title, self.description)),
            Some(frame_mark(&self.context.mark)),
            Some(time(self.now, zone)),
        ];
        let conversation = [
            earlier(self.context, self.agent_type.archives),
            knowledge(self.context, about_user, self.reached),
        ];
        // What a hook adds matters more than what is left out first.
        first.into_iter().flatten().chain(self.added.iter().map(added)).chain(conversation).collect()
    }

    /// Composes the prompt: the sections, cut to `most_chars`.
    pub fn compose(&self) -> Prompt {
        let sections = self.sections().into_iter().map(|section| {
            let text = section.write();
            (section, text)
        });
        let mut sections: Vec<(Section, String)> = sections.collect();
        let left_out = cut(&mut sections, self.most_chars);
        let written = sections.into_iter().filter(|(_, text)| !text.is_empty());
        let sections = written
            .map(|(section, text)| RenderedSection { name: section.name, stability: section.stability, text })
            .collect();
        Prompt { sections, left_out, mark: self.context.mark.clone() }
    }
}

/// Leaves out items from the end until the sections have at most `most` characters.
fn cut(sections: &mut [(Section, String)], most: usize) -> Vec<Omission> {
    let mut chars: Vec<usize> = sections.iter().map(|(_, text)| text.chars().count()).collect();
    let mut left_out: Vec<Omission> = Vec::new();
    while chars.iter().sum::<usize>() > most {
        let is_more = |(section, text): &(Section, String)| section.name != "base" && !text.is_empty();
        let Some(at) = sections.iter().rposition(is_more) else { break };
        let (section, text) = &mut sections[at];
        let items = usize::from(section.shorten());
        *text = section.write();
        // The shortened section may be longer than expected: it names the tool that reads the rest.
        chars[at] = text.chars().count();
        let whole = text.is_empty();
        match left_out.last_mut().filter(|last| last.section == section.name) {
            Some(last) => (last.items, last.whole) = (last.items + items, whole),
            None => left_out.push(Omission { section: section.name.to_owned(), items, whole }),
        }
    }
    left_out
}

impl Prompt {
    /// The parts of the system prompt: what all agentables of the kind share, what is stable for the agentable, and what is
    /// stable for its session. Providers may cache all of them.
    pub fn parts(&self) -> Vec<SystemPart> {
        let is_system = |section: &&RenderedSection| section.stability != Stability::Changing;
        let system: Vec<&RenderedSection> = self.sections.iter().filter(is_system).collect();
        // Only the base: the kind's other sections come after those of the user.
        let shared = usize::from(system.first().is_some_and(|section| section.name == "base"));
        let (shared, own) = system.split_at(shared);
        let own_end = own.iter().take_while(|section| section.stability < Stability::Session).count();
        let (own, of_session) = own.split_at(own_end);
        let part = |sections: &[&RenderedSection]| SystemPart {
            text: sections.iter().map(|section| section.text.as_str()).collect(),
            cached: true,
        };
        [shared, own, of_session].map(part).into_iter().filter(|part| !part.text.is_empty()).collect()
    }

    /// The system context, sent after the history: the changing sections in one element. `None` when there are none.
    pub fn system_context(&self) -> Option<String> {
        let changing = self.sections.iter().filter(|section| section.stability == Stability::Changing);
        let text: String = changing.map(|section| section.text.as_str()).collect();
        (!text.trim().is_empty()).then(|| self.mark.frame(SYSTEM_CONTEXT, &text) + "\n")
    }
}

#[cfg(test)]
mod tests;
