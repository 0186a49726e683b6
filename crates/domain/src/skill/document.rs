//! [`SkillDocument`]: what a SKILL.md says.
//!
//! It is read leniently: what can be used is used, and a warning says what was changed. Only a text without a description is no
//! skill, because nothing says when to use it.

use std::collections::BTreeMap;

use super::disclosure::{SkillSource, SkillSummary};
use super::file::FileError;
use super::front_matter::{self, Node};
use super::is_name;
use super::trigger::Triggers;

/// Bytes of a SKILL.md.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;
/// Bytes of a name, which is ASCII.
pub const MAX_NAME_BYTES: usize = 64;
/// Characters of a description.
pub const MAX_DESCRIPTION_CHARS: usize = 1_024;
/// Characters of `compatibility`, and of each value of `metadata`.
pub const MAX_NOTE_CHARS: usize = 500;
/// Characters of the line that a prompt has of a skill.
const BRIEF_CHARS: usize = 120;
/// Values of `metadata`, names of tools.
const MAX_VALUES: usize = 100;

/// What a SKILL.md says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillDocument {
    /// The name: see [`is_name`].
    pub name: String,
    /// What it does, and when to use it.
    pub description: String,
    /// The description in one line.
    pub brief: String,
    /// The licence, if it names one.
    pub license: Option<String>,
    /// What it needs to work, for people.
    pub compatibility: Option<String>,
    /// Further data of its author.
    pub metadata: BTreeMap<String, String>,
    /// Tools that it says it uses. This grants nothing: guards decide about each call.
    pub allowed_tools: Vec<String>,
    /// Which messages call for it.
    pub triggers: Triggers,
    /// Its version.
    pub version: Option<String>,
    /// Whether it is enabled unless its owner decides otherwise.
    pub default_enabled: bool,
    /// What is wrong with it but was mended or left out, one sentence each.
    pub warnings: Vec<String>,
}

/// Why a text is no skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    /// It is too long.
    #[error(
        "SKILL.md has {bytes} bytes; at most {MAX_TEXT_BYTES} are allowed: put details into files of references/"
    )]
    TooLarge {
        /// Its length in bytes.
        bytes: usize,
    },
    /// It does not begin with front matter.
    #[error(
        "SKILL.md must begin with front matter: a line `---`, then `name: …` and `description: …`, then a line `---`"
    )]
    NoFrontMatter,
    /// The front matter cannot be read.
    #[error("the front matter of SKILL.md cannot be read: {reason}")]
    FrontMatter {
        /// What is wrong, with the line if that is clear.
        reason: String,
    },
    /// It has no description.
    #[error("SKILL.md has no description: add a line `description: What it does, and when to use it`")]
    NoDescription,
    /// Neither it nor its folder has a usable name.
    #[error(
        "the skill has no usable name: a name has 1 to {MAX_NAME_BYTES} lower-case letters, digits and single hyphens, as in \
         weekly-review"
    )]
    NoName,
    /// It contains U+0000.
    #[error("{0} contains the character U+0000, which is not allowed")]
    NotText(&'static str),
    /// A file beside it is not allowed.
    #[error(transparent)]
    File(#[from] FileError),
}

impl SkillDocument {
    /// Reads a SKILL.md. `folder` is the name of its folder, or the name that it is to have: it counts more than the name in
    /// the text.
    ///
    /// # Errors
    /// [`SkillError`] when it is no skill.
    pub fn read(text: &str, folder: Option<&str>) -> Result<Self, SkillError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(SkillError::TooLarge { bytes: text.len() });
        }
        if text.contains('\0') {
            return Err(SkillError::NotText("SKILL.md"));
        }
        let (front_matter, _) = front_matter::split(text)?;
        let (root, was_quoted) = front_matter::read(front_matter)?;
        let mut warnings = Vec::new();
        if was_quoted {
            warnings.push(
                "values with a colon were read as if they were quoted: put them between quotes".to_owned(),
            );
        }
        let fields = Fields { metadata: root.get(&["metadata"]), root: &root };
        let description = root.get(&["description"]).and_then(Node::text).ok_or(SkillError::NoDescription)?;
        let description = cut(description, MAX_DESCRIPTION_CHARS, "description", &mut warnings);
        let brief = fields.text("brief_description").unwrap_or_else(|| first_sentence(&description));
        let mut note = |name| {
            let text = root.get(&[name]).and_then(Node::text)?;
            Some(cut(text, MAX_NOTE_CHARS, name, &mut warnings))
        };
        let (license, compatibility) = (note("license"), note("compatibility"));
        let name = name_of(root.get(&["name"]).and_then(Node::text), folder, &mut warnings)?;
        let tools = root.get(&["allowed-tools", "allowed_tools"]);
        let mut allowed_tools = tools.map(|tools| tools.texts(&[' ', ',', '\n'])).unwrap_or_default();
        allowed_tools.truncate(MAX_VALUES);
        if fields.get("toolsets").is_some() {
            warnings.push(
                "`toolsets` is ignored: Houston loads no program code; tools come from MCP servers"
                    .to_owned(),
            );
        }
        let enabled = fields.text("default_enabled");
        Ok(Self {
            name,
            brief: one_line(&brief, BRIEF_CHARS),
            description,
            license,
            compatibility,
            metadata: metadata_of(fields.metadata),
            allowed_tools,
            triggers: triggers_of(&fields, &mut warnings),
            version: fields.text("version").map(|version| one_line(&version, MAX_NAME_BYTES)),
            default_enabled: !enabled
                .is_some_and(|enabled| matches!(enabled.as_str(), "false" | "no" | "off")),
            warnings,
        })
    }

    /// What runs read of it.
    #[must_use]
    pub fn summary(&self, enabled: bool) -> SkillSummary {
        let Self { name, brief, triggers, .. } = self.clone();
        SkillSummary { name, brief, triggers, enabled, source: SkillSource::Tenant }
    }
}

/// The instructions of a SKILL.md: what follows its front matter.
#[must_use]
pub fn body(text: &str) -> &str {
    front_matter::split(text).map_or(text, |(_, body)| body).trim()
}

/// The fields that this format adds to that of agentskills.io: at the top, in `metadata.houston`, or in `metadata` as
/// `houston.<name>`.
struct Fields<'n> {
    root: &'n Node,
    metadata: Option<&'n Node>,
}

impl<'n> Fields<'n> {
    fn get(&self, name: &str) -> Option<&'n Node> {
        let dotted = format!("houston.{name}");
        let nested = || self.metadata?.get(&["houston"])?.get(&[name]);
        self.root.get(&[name]).or_else(nested).or_else(|| self.metadata?.get(&[&dotted]))
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(Node::text).map(str::to_owned)
    }

    /// A list of `triggers`.
    fn list(&self, name: &str, separators: &[char]) -> Vec<String> {
        let dotted = format!("triggers.{name}");
        let list = self.get("triggers").and_then(|triggers| triggers.get(&[name]));
        list.or_else(|| self.get(&dotted)).map(|list| list.texts(separators)).unwrap_or_default()
    }
}

fn triggers_of(fields: &Fields<'_>, warnings: &mut Vec<String>) -> Triggers {
    let (keywords, verbs) = (fields.list("keywords", &[',']), fields.list("verbs", &[',']));
    Triggers { keywords, verbs, patterns: fields.list("patterns", &['\n']) }.checked(warnings)
}

fn metadata_of(metadata: Option<&Node>) -> BTreeMap<String, String> {
    let Some(Node::Mapping(entries)) = metadata else { return BTreeMap::new() };
    let entry = |(key, value): &(String, Node)| {
        let value = value.text()?;
        Some((one_line(key, MAX_NAME_BYTES), value.chars().take(MAX_NOTE_CHARS).collect()))
    };
    entries.iter().filter_map(entry).take(MAX_VALUES).collect()
}

fn name_of(
    written: Option<&str>,
    folder: Option<&str>,
    warnings: &mut Vec<String>,
) -> Result<String, SkillError> {
    let usable = |name: Option<&str>| name.map(slug).filter(|name| is_name(name));
    let name = usable(folder).or_else(|| usable(written)).ok_or(SkillError::NoName)?;
    match written {
        None => warnings.push(format!("`name` is missing: it is called {name}")),
        Some(written) if written != name => {
            warnings
                .push(format!("`name` is {}, but it is called {name}", one_line(written, MAX_NAME_BYTES)));
        }
        Some(_) => {}
    }
    Ok(name)
}

/// A name in the spelling that names have.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= MAX_NAME_BYTES {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

fn cut(text: &str, most: usize, name: &str, warnings: &mut Vec<String>) -> String {
    let chars = text.chars().count();
    if chars > most {
        warnings.push(format!("`{name}` has {chars} characters; only the first {most} are used"));
    }
    text.chars().take(most).collect()
}

fn first_sentence(text: &str) -> String {
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    text[..end].lines().next().unwrap_or_default().to_owned()
}

/// A text as one line of at most `most` characters.
fn one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
