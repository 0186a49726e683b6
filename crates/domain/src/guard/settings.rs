//! The settings of one layer, as files and the API have them: the words that they decide with, profiles, which say what each risk
//! of a call needs, and what can be wrong with them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};

use super::{Category, Layer, LayerKind, Level};
use crate::autonomy::Autonomy;

/// Maximum length of the settings of a layer that is stored with its owner, as JSON, in bytes. The most
/// expensive ones found take 11 ms to compile and 0.7 MB of memory.
pub const MAX_STORED_BYTES: usize = 8 * 1024;

/// The settings of one layer. The installation's (`jobs/guards.toml`) have every key but `rule` and `tools`; in the
/// layers below, each key is optional, and what is left out restricts nothing.
///
/// ```toml
/// level = "read"
/// [[rule]]
/// tool = "github__*"
/// when = { "/repo" = "acme/*" }
/// decide = "ask"
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object of the shape of jobs/guards.toml")]
pub struct GuardSettings {
    /// The highest level a tool may need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// The categories of the tools that may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<Category>>,
    /// Patterns of the paths that may be touched, below the workspace; empty: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Patterns of the hosts that may be reached; empty: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Patterns of the paths that may hold secrets: touching them needs a yes each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<Vec<String>>,
    /// Patterns of the tools that are switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied: Option<Vec<String>>,
    /// Patterns of the tools for which this layer checks neither level nor category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<String>>,
    /// How much agents do without asking, at most: the kind's `autonomy` counts if it is less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autonomy: Option<Autonomy>,
    /// Whether the model must say what each call is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intents: Option<Intents>,
    /// What happens to a question in a run in which no person takes part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unattended: Option<Unattended>,
    /// What it says of each risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Rules about single tools and their arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rule: Vec<RuleSettings>,
    /// Facts about tools, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolSettings>,
}

impl GuardSettings {
    /// Reads the settings of a layer of kind `kind` from TOML.
    ///
    /// # Errors
    /// [`GuardError`] when the text is not TOML, or has keys or values that do not exist.
    pub fn from_toml(kind: LayerKind, text: &str) -> Result<Self, GuardError> {
        toml::from_str(text).map_err(|error| GuardError::new(kind, &format!(": {error}")))
    }

    /// Reads the settings of a layer of kind `kind` from JSON, as they are stored.
    ///
    /// # Errors
    /// [`GuardError`] when the text is not JSON, or has keys or values that do not exist.
    pub fn from_json(kind: LayerKind, text: &str) -> Result<Self, GuardError> {
        serde_json::from_str(text).map_err(|error| GuardError::new(kind, &format!(": {error}")))
    }

    /// Checks settings that are to be stored with the owner of a layer of kind `kind`. It may take some 0.1 s.
    ///
    /// # Errors
    /// [`GuardError`] as [`Layer::compile`], and when they are longer than [`MAX_STORED_BYTES`].
    pub fn check(&self, kind: LayerKind) -> Result<(), GuardError> {
        let given = serde_json::to_vec(self).map_or(usize::MAX, |json| json.len());
        if given > MAX_STORED_BYTES {
            let wrong = format!(": they have {given} bytes as JSON; at most {MAX_STORED_BYTES} are allowed");
            return Err(GuardError::new(kind, &wrong));
        }
        Layer::compile(kind, kind.as_str(), self).map(|_| ())
    }

    /// The settings of a layer that allows nothing but the reply to the user.
    pub fn closed() -> Self {
        Self { denied: Some(vec!["*".to_owned()]), ..Self::default() }
    }

    /// Whether they restrict nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether the model must say what each call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intents {
    /// It may.
    #[default]
    Off,
    /// A call without an intent is refused, with a text that says how to write one.
    Required,
}

/// What happens to a question in a run in which no person takes part: a task, a feed, a check-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unattended {
    /// It is asked, and the run waits.
    #[default]
    Ask,
    /// The call is refused.
    Deny,
}

/// One rule. Of all rules of a layer that match a call, the strictest decides.
///
/// `when` compares arguments with patterns. Each text, number and boolean at the pointer, also within lists and
/// tables, counts as one value.
///
/// - A rule that asks or denies matches generously: one of the values is enough, upper and lower case are the same,
///   and `*` is any text.
/// - A rule that allows matches exactly: all values must match, upper and lower case differ, `*` is any text without
///   `/` (`**` any text; a pattern that is only `*` also any text), and a value with a part `..` does not match.
///
/// Where there is no value, no rule matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSettings {
    /// A pattern of the names of tools: `github__*`.
    pub tool: String,
    /// JSON pointers into the arguments, each with a pattern. All must match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub when: BTreeMap<String, String>,
    /// What it decides.
    pub decide: Ruling,
    /// The reason, for the model and for the person who is asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Of a rule that asks: ask each time, a lasting yes is not possible.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Arguments that the rule must match. They are tried when the settings are loaded.
    #[serde(default, rename = "match", skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Value>,
    /// Arguments that the rule must not match. They are tried when the settings are loaded.
    #[serde(default, rename = "not_match", skip_serializing_if = "Vec::is_empty")]
    pub counterexamples: Vec<Value>,
}

/// Facts about a tool: `[tools.<name>]`. Those of the installation take the place of the tool's own. A lower layer can
/// only make them stricter: the higher level and risk count, the smaller rates and limits, and what is true in any
/// layer is true.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolSettings {
    /// The level it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// What it deals with. Only the installation may set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// What may go wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// The arguments that are paths: JSON pointers or names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_at: Option<Vec<String>>,
    /// The arguments that are folders, of which the tool shows what is allowed: JSON pointers or names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder_at: Option<Vec<String>>,
    /// The arguments that are URLs or hosts: JSON pointers or names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_at: Option<Vec<String>>,
    /// Whether its results contain private data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_private: Option<bool>,
    /// Whether its results contain what strangers wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untrusted_output: Option<bool>,
    /// Whether its arguments leave the installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sends_out: Option<bool>,
    /// Whether it is the agent's reply, which always passes. Only the installation may set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<bool>,
    /// Maximum number of calls per user and minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_min: Option<u32>,
    /// Maximum values of arguments, by JSON pointer or name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Number>,
}

names! {
    /// What a rule or a profile says of a call. The order is the strictness: the strictest one decides.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Ruling {
        /// The call is carried out.
        Allow = "allow",
        /// A person is asked.
        Ask = "ask",
        /// The call is refused.
        Deny = "deny",
    }
}

/// The settings of a layer are wrong.
///
/// ```text
/// guards of the tenant, rule 3 (github__create_issue), `/repo`: the pattern `acme/[` is not closed: …
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GuardError(String);

impl GuardError {
    /// `wrong` follows the name of the layer, so it begins with `: ` or `, `: where in the settings, what is wrong, and what is allowed.
    pub(super) fn new(layer: LayerKind, wrong: &str) -> Self {
        Self(format!("guards of the {layer}{wrong}"))
    }
}

/// A profile with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileName {
    /// Asks only before something is destroyed.
    Permissive,
    /// Asks before something is sent out, executed or destroyed.
    Balanced,
    /// Asks before everything but reading; executes and destroys nothing.
    Strict,
}

impl ProfileName {
    /// What it says of each risk.
    pub fn table(self) -> ProfileTable {
        let [read, write, external, exec, destructive] = match self {
            Self::Permissive => [Ruling::Allow, Ruling::Allow, Ruling::Allow, Ruling::Allow, Ruling::Ask],
            Self::Balanced => [Ruling::Allow, Ruling::Allow, Ruling::Ask, Ruling::Ask, Ruling::Ask],
            Self::Strict => [Ruling::Allow, Ruling::Ask, Ruling::Ask, Ruling::Deny, Ruling::Deny],
        }
        .map(Some);
        ProfileTable { read, write, external, exec, destructive }
    }
}

/// What a layer says of each risk; nothing of those left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileTable {
    /// Of calls that only read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Ruling>,
    /// Of calls that change data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Ruling>,
    /// Of calls that send something out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<Ruling>,
    /// Of calls that execute a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<Ruling>,
    /// Of calls that destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<Ruling>,
}

impl ProfileTable {
    /// What it says of `risk`.
    pub fn get(&self, risk: Risk) -> Option<Ruling> {
        match risk {
            Risk::Read => self.read,
            Risk::Write => self.write,
            Risk::External => self.external,
            Risk::Exec => self.exec,
            Risk::Destructive => self.destructive,
        }
    }
}

/// The key `profile`: a name or a table.
///
/// ```toml
/// profile = "balanced"
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Profile {
    /// `permissive`, `balanced` or `strict`.
    Named(ProfileName),
    /// One ruling for each risk.
    Table(ProfileTable),
}

impl Profile {
    /// What it says of each risk.
    pub fn table(self) -> ProfileTable {
        match self {
            Self::Named(name) => name.table(),
            Self::Table(table) => table,
        }
    }
}

/// Not derived: the error of an untagged enum does not say what is allowed.
impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;

        impl<'de> Visitor<'de> for NameOrTable {
            type Value = Profile;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(
                    "`permissive`, `balanced`, `strict`, or a table of `read`, `write`, `external`, `exec` and \
                     `destructive`",
                )
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Profile, E> {
                ProfileName::deserialize(serde::de::value::StrDeserializer::new(name)).map(Profile::Named)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Profile, A::Error> {
                ProfileTable::deserialize(MapAccessDeserializer::new(map)).map(Profile::Table)
            }
        }

        deserializer.deserialize_any(NameOrTable)
    }
}

names! {
    /// What may go wrong when a tool is called, in ascending order.
    #[derive(PartialOrd, Ord, Hash, Default)]
    pub enum Risk {
        /// It only reads.
        Read = "read",
        /// It changes data of the user that can be changed back.
        #[default]
        Write = "write",
        /// It sends something out of the installation: a mail, a comment, a payment.
        External = "external",
        /// It executes a program.
        Exec = "exec",
        /// It destroys something that cannot be brought back.
        Destructive = "destructive",
    }
}

impl Risk {
    /// What a call of this risk does, for people and models: `running code needs a yes`.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Read => "reading",
            Self::Write => "changing data",
            Self::External => "sending something out",
            Self::Exec => "running code",
            Self::Destructive => "destroying something for good",
        }
    }

    /// The highest risk that an agent with this autonomy takes without asking; `None` when it asks always.
    pub fn without_asking(autonomy: Autonomy) -> Option<Self> {
        match autonomy {
            Autonomy::None => None,
            Autonomy::Low => Some(Self::Read),
            Autonomy::Medium => Some(Self::Write),
            Autonomy::High => Some(Self::Exec),
            Autonomy::Full => Some(Self::Destructive),
        }
    }
}
