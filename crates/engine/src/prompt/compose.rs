//! Putting the sections together.

use chrono::{DateTime, Utc};
use houston_domain::agentable::{AgentType, Reply};
use houston_domain::frame::FrameMark;
use houston_domain::local_time::zone;
use houston_llm::SystemPart;
use houston_store::history::{KnownUser, RunContext};
use houston_tools::Offer;

use super::section::{Place, SYSTEM_CONTEXT, Section, Stability};
use super::sections::automation::automation;
use super::sections::autonomy::autonomy;
use super::sections::base::{aim, base, frame_mark};
use super::sections::capabilities::capabilities;
use super::sections::conversation::{earlier, kept};
use super::sections::custom_instructions::custom_instructions;
use super::sections::profile::profile;
use super::sections::time::time;
use super::sections::tools::tools;
use super::sections::workspace::workspace;

/// All that a prompt is made of.
#[derive(Clone, Copy)]
pub struct Composing<'a> {
    /// The kind.
    pub agent_type: &'a AgentType,
    /// What the user reads of its answers.
    pub reply: Reply,
    /// The tools it may call.
    pub offer: &'a Offer,
    /// What the agentable is called.
    pub title: &'a str,
    /// What it is about.
    pub description: &'a str,
    /// What is known.
    pub context: &'a RunContext,
    /// Today.
    pub now: DateTime<Utc>,
    /// Characters of all sections together.
    pub most_chars: usize,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composed {
    /// Its sections with their texts, in the order of the prompt; without those that say nothing.
    pub sections: Vec<Written>,
    /// What the cap left out, in the order in which it was.
    pub left_out: Vec<LeftOut>,
    /// What the system context is signed with.
    pub mark: FrameMark,
}

/// A section as it stands in the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its name.
    pub name: &'static str,
    /// How long it is the same.
    pub stability: Stability,
    /// Its text.
    pub text: String,
}

/// What the cap left out of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// Which section.
    pub section: &'static str,
    /// How many of its items.
    pub items: usize,
    /// Whether nothing of it is left.
    pub whole: bool,
}

impl Composing<'_> {
    /// The ten sections as they would be without a cap. The aim and the mark of frames are parts of the base: the aim stands
    /// after the last section that an agentable keeps, the mark begins those that a session keeps.
    #[must_use]
    pub fn sections(&self) -> Vec<Section> {
        let nobody = KnownUser::default();
        let about_user = self.agent_type.prompt.about_user;
        // Not about them: about what "tomorrow" is.
        let zone = zone(&self.context.user.time_zone);
        let user = if about_user { &self.context.user } else { &nobody };
        let parent = self.context.setting.parent.as_ref();
        let sections = [
            Some(base(self.agent_type, self.reply)),
            Some(profile(user)),
            Some(custom_instructions(&user.custom_instructions)),
            Some(tools(self.offer)),
            Some(automation(&self.context.check_ins, zone)),
            Some(workspace(self.agent_type)),
            Some(capabilities(self.offer)),
            Some(autonomy(self.agent_type.autonomy)),
            parent.map(|parent| aim(&parent.kind, &parent.title, &parent.description)),
            Some(aim(&self.agent_type.kind, self.title, self.description)),
            Some(frame_mark(&self.context.mark)),
            Some(time(self.now, zone)),
            Some(earlier(self.context, self.agent_type.archives)),
            Some(kept(self.context, about_user)),
        ];
        sections.into_iter().flatten().collect()
    }

    /// The prompt: the sections, cut to the cap.
    #[must_use]
    pub fn compose(&self) -> Composed {
        let sections = self.sections().into_iter().map(|section| {
            let text = section.write();
            (section, text)
        });
        let mut sections: Vec<(Section, String)> = sections.collect();
        let left_out = cut(&mut sections, self.most_chars);
        let written = sections.into_iter().filter(|(_, text)| !text.is_empty());
        let sections = written
            .map(|(section, text)| Written { name: section.name, stability: section.stability, text })
            .collect();
        Composed { sections, left_out, mark: self.context.mark.clone() }
    }
}

/// Leaves out from the end what is beyond `most` characters.
fn cut(sections: &mut [(Section, String)], most: usize) -> Vec<LeftOut> {
    let mut chars: Vec<usize> = sections.iter().map(|(_, text)| text.chars().count()).collect();
    let mut left_out: Vec<LeftOut> = Vec::new();
    while chars.iter().sum::<usize>() > most {
        let is_more = |(section, text): &(Section, String)| section.name != "base" && !text.is_empty();
        let Some(at) = sections.iter().rposition(is_more) else { break };
        let (section, text) = &mut sections[at];
        let items = usize::from(section.shorten());
        *text = section.write();
        // What is left may say less than what was there: how to get at the others.
        chars[at] = text.chars().count();
        let whole = text.is_empty();
        match left_out.last_mut().filter(|last| last.section == section.name) {
            Some(last) => *last = LeftOut { items: last.items + items, whole, ..*last },
            None => left_out.push(LeftOut { section: section.name, items, whole }),
        }
    }
    left_out
}

impl Composed {
    /// The parts of the system prompt: what the kind shares, what the agentable keeps, what its session keeps. All of
    /// them may be cached.
    #[must_use]
    pub fn parts(&self) -> Vec<SystemPart> {
        let system: Vec<&Written> = self.of(Place::System).collect();
        // The base alone: what else is the kind's stands behind what is the user's.
        let shared = usize::from(system.first().is_some_and(|section| section.name == "base"));
        let (shared, own) = system.split_at(shared);
        let own_end = own.iter().take_while(|section| section.stability < Stability::Session).count();
        let (own, of_session) = own.split_at(own_end);
        let part = |sections: &[&Written]| SystemPart {
            text: sections.iter().map(|section| section.text.as_str()).collect(),
            cached: true,
        };
        [shared, own, of_session].map(part).into_iter().filter(|part| !part.text.is_empty()).collect()
    }

    /// What is sent after the history: the sections that change, in one element. `None` when there are none.
    #[must_use]
    pub fn system_context(&self) -> Option<String> {
        let text: String = self.of(Place::SystemContext).map(|section| section.text.as_str()).collect();
        (!text.trim().is_empty()).then(|| self.mark.frame(SYSTEM_CONTEXT, &text) + "\n")
    }

    fn of(&self, place: Place) -> impl Iterator<Item = &Written> {
        self.sections.iter().filter(move |section| section.stability.place() == place)
    }
}

#[cfg(test)]
mod tests;
