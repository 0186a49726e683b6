//! What guards must be able to rely on about a tool: its category, the level that it needs, and what its arguments are.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::pattern::pointer_to;
use super::{Layer, Risk, ToolSettings};
use crate::tool_call::EffectClass;

/// What guards must be able to rely on about a tool. Part of its definition; the layers change it with
/// `[tools.<name>]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolFacts {
    /// The level it needs.
    pub level: Level,
    /// What it deals with.
    pub category: Category,
    /// What may go wrong.
    pub risk: Risk,
    /// JSON pointers to the arguments that are paths below the workspace.
    pub path_at: Vec<String>,
    /// JSON pointers to the arguments that are folders below the workspace, of whose files the tool shows only those that
    /// [`is_listed`](super::is_listed) lets it: allowed paths are not asked for the folder itself.
    pub folder_at: Vec<String>,
    /// JSON pointers to the arguments that are URLs or hosts.
    pub host_at: Vec<String>,
    /// A JSON pointer to the argument that a call may have in the place of those: a call that has it and none of them reaches no
    /// host, and sends nothing out. The tool refuses calls that have both. Settings cannot change it.
    #[serde(skip)]
    pub in_place_of_host: Option<&'static str>,
    /// Whether its results contain private data.
    pub reads_private: bool,
    /// Whether its results contain what strangers wrote.
    pub untrusted_output: bool,
    /// Whether its arguments leave the installation.
    pub sends_out: bool,
    /// Whether each call needs a person's yes, whatever rules, profiles and autonomy say; there is no lasting one. Settings
    /// cannot change it.
    #[serde(skip)]
    pub asks_each_time: bool,
    /// Whether it is the agent's reply to its user, which always passes.
    pub reply: bool,
    /// Maximum number of calls per user and minute.
    pub rate_per_min: Option<u32>,
    /// Maximum values of arguments, by JSON pointer.
    pub limits: BTreeMap<String, Number>,
}

impl ToolFacts {
    /// The facts of a tool of this installation that states nothing but its effect class. A tool of class `effect`
    /// acts outside Houston, so its arguments leave it.
    pub fn of_effect(effect: EffectClass) -> Self {
        let (level, risk) = match effect {
            EffectClass::Read => (Level::Read, Risk::Read),
            EffectClass::Idempotent | EffectClass::Checkable | EffectClass::Effect => {
                (Level::Write, Risk::Write)
            }
        };
        Self { level, risk, sends_out: effect == EffectClass::Effect, ..Self::default() }
    }

    /// The facts of a tool of another program, of which nothing is certain: the worst is assumed.
    pub fn foreign() -> Self {
        Self {
            risk: Risk::Destructive,
            reads_private: true,
            untrusted_output: true,
            sends_out: true,
            ..Self::default()
        }
    }

    /// The facts in force: these, changed by `layers`, from the highest to the lowest. They decide about calls, and
    /// their limits and marks (`reads_private`, `untrusted_output`) are for the caller to apply.
    pub fn in_force<'f>(&'f self, layers: &[Arc<Layer>], tool: &str) -> Cow<'f, Self> {
        let mut facts = Cow::Borrowed(self);
        for (nth, layer) in layers.iter().enumerate() {
            if let Some(settings) = layer.tool(tool) {
                if nth == 0 {
                    facts.to_mut().replace(settings);
                } else {
                    facts.to_mut().tighten(settings);
                }
            }
        }
        facts
    }

    /// Takes what `settings` give in place of what is here.
    fn replace(&mut self, settings: &ToolSettings) {
        fn put<T: Clone>(field: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                value.clone_into(field);
            }
        }
        put(&mut self.level, settings.level.as_ref());
        put(&mut self.category, settings.category.as_ref());
        put(&mut self.risk, settings.risk.as_ref());
        put(&mut self.path_at, settings.path_at.as_ref());
        put(&mut self.folder_at, settings.folder_at.as_ref());
        put(&mut self.host_at, settings.host_at.as_ref());
        put(&mut self.reads_private, settings.reads_private.as_ref());
        put(&mut self.untrusted_output, settings.untrusted_output.as_ref());
        put(&mut self.sends_out, settings.sends_out.as_ref());
        put(&mut self.reply, settings.reply.as_ref());
        self.rate_per_min = settings.rate_per_min.or(self.rate_per_min);
        self.limits.extend(settings.limits.iter().map(|(at, most)| (at.clone(), most.clone())));
    }

    /// Takes what `settings` give where it is stricter than what is here.
    fn tighten(&mut self, settings: &ToolSettings) {
        self.level = self.level.max(settings.level.unwrap_or(Level::None));
        self.risk = self.risk.max(settings.risk.unwrap_or(Risk::Read));
        for (own, more) in [
            (&mut self.path_at, &settings.path_at),
            (&mut self.folder_at, &settings.folder_at),
            (&mut self.host_at, &settings.host_at),
        ] {
            for at in more.iter().flatten() {
                if !own.contains(at) {
                    own.push(at.clone());
                }
            }
        }
        self.reads_private |= settings.reads_private == Some(true);
        self.untrusted_output |= settings.untrusted_output == Some(true);
        self.sends_out |= settings.sends_out == Some(true);
        self.rate_per_min = [self.rate_per_min, settings.rate_per_min].into_iter().flatten().min();
        for (at, most) in &settings.limits {
            let own = self.limits.entry(at.clone()).or_insert_with(|| most.clone());
            if super::argument::exceeds(own, most) {
                own.clone_from(most);
            }
        }
    }
}

impl ToolSettings {
    /// With names of arguments turned into JSON pointers.
    pub(super) fn with_pointers(&self) -> Self {
        let pointers = |list: &Option<Vec<String>>| {
            list.as_ref().map(|list| list.iter().map(|at| pointer_to(at)).collect::<Vec<_>>())
        };
        Self {
            path_at: pointers(&self.path_at),
            folder_at: pointers(&self.folder_at),
            host_at: pointers(&self.host_at),
            limits: self.limits.iter().map(|(at, most)| (pointer_to(at), most.clone())).collect(),
            ..self.clone()
        }
    }
}

names! {
    /// What a tool deals with. A layer lists the categories that it permits.
    #[derive(PartialOrd, Ord, Hash, Default)]
    pub enum Category {
        /// Houston's own: messages, tasks, check-ins, the time.
        Agent = "agent",
        /// Notes, learnings, memories, the profile, the feed, earlier sessions.
        Memory = "memory",
        /// Reading files and folders.
        FileRead = "file_read",
        /// Creating and changing files.
        FileWrite = "file_write",
        /// Deleting files and folders.
        FileDelete = "file_delete",
        /// Running code in the sandbox.
        CodeExecute = "code_execute",
        /// Reading from the network.
        NetworkRead = "network_read",
        /// Changing something over the network.
        NetworkWrite = "network_write",
        /// Commands of the system.
        System = "system",
        /// Tools of MCP servers and of programs that embed Houston, unless they state another one.
        #[default]
        Custom = "custom",
    }
}

names! {
    /// What a tool needs and what a layer permits, in ascending order: a tool passes where the layer's level is at least
    /// the tool's.
    #[derive(PartialOrd, Ord, Hash, Default)]
    pub enum Level {
        /// Nothing.
        None = "none",
        /// Reading.
        Read = "read",
        /// Changing data.
        #[default]
        Write = "write",
        /// Executing programs.
        Execute = "execute",
        /// Changing how the installation works.
        Admin = "admin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_follow_from_the_effect_class() {
        let read = ToolFacts::of_effect(EffectClass::Read);
        assert_eq!((read.level, read.risk, read.sends_out), (Level::Read, Risk::Read, false));
        for effect in [EffectClass::Idempotent, EffectClass::Checkable, EffectClass::Effect] {
            let facts = ToolFacts::of_effect(effect);
            assert_eq!((facts.level, facts.risk), (Level::Write, Risk::Write), "{effect:?}");
            assert_eq!(facts.sends_out, effect == EffectClass::Effect, "{effect:?}");
        }
    }

    #[test]
    fn foreign_tools_count_as_destructive_and_untrusted() {
        let facts = ToolFacts::foreign();
        assert_eq!(facts.risk, Risk::Destructive);
        assert!(facts.untrusted_output && facts.sends_out && !facts.reply);
    }
}
