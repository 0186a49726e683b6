//! [`SkillDocument`]: what a SKILL.md says.
//!
//! It is read leniently: what can be used is used, and a warning says what was changed. Only a text without a description is no
//! skill, because nothing says when to use it.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser};

use super::disclosure::{SkillSource, SkillSummary};
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

impl SkillDocument {
    /// Reads a SKILL.md. `folder` is the name of its folder, or the name that it is to have: it counts more than the name in
    /// the text. The error says why it is no skill.
    pub fn read(text: &str, folder: Option<&str>) -> Result<Self, String> {
        if text.len() > MAX_TEXT_BYTES {
            let bytes = text.len();
            return Err(format!(
                "SKILL.md has {bytes} bytes; at most {MAX_TEXT_BYTES} are allowed: put details into files of references/"
            ));
        }
        ensure!(!text.contains('\0'), "SKILL.md contains the character U+0000, which is not allowed");
        let (front_matter, _) = split_front_matter(text)?;
        let (root, was_quoted) = read_front_matter(front_matter)?;
        let mut warnings = Vec::new();
        if was_quoted {
            warnings.push(
                "values with a colon were read as if they were quoted: put them between quotes".to_owned(),
            );
        }
        let fields = Fields { metadata: root.get(&["metadata"]), root: &root };
        let description = root.get(&["description"]).and_then(Node::text).ok_or(
            "SKILL.md has no description: add a line `description: What it does, and when to use it`",
        )?;
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
    pub fn summary(&self, enabled: bool) -> SkillSummary {
        let Self { name, brief, triggers, .. } = self.clone();
        SkillSummary { name, brief, triggers, enabled, source: SkillSource::Tenant }
    }
}

/// The instructions of a SKILL.md: what follows its front matter.
pub fn body(text: &str) -> &str {
    split_front_matter(text).map_or(text, |(_, body)| body).trim()
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
) -> Result<String, String> {
    let usable = |name: Option<&str>| name.map(slug).filter(|name| is_name(name));
    let name = usable(folder).or_else(|| usable(written)).ok_or_else(|| {
        format!(
            "the skill has no usable name: a name has 1 to {MAX_NAME_BYTES} lower-case letters, digits and single hyphens, as in \
             weekly-review"
        )
    })?;
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

// Front matter: the YAML between the two `---` at the beginning of a SKILL.md, as a tree of texts.
//
// Only what front matter needs is read: mappings, sequences and scalars, which all stay texts. Anchors and aliases are refused,
// since they let a short text stand for a huge one.

/// Bytes of front matter.
const MAX_BYTES: usize = 32 * 1024;

/// Values of all mappings and sequences together.
const MAX_NODES: usize = 2_000;

/// Mappings and sequences within one another.
const MAX_DEPTH: usize = 16;

/// A value of front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    /// Text, number or truth value, as written; nothing is the empty text.
    Scalar(String),
    Sequence(Vec<Node>),
    /// Keys and values in their order.
    Mapping(Vec<(String, Node)>),
}

impl Node {
    /// The value of the first of these keys that a mapping has.
    pub(super) fn get(&self, keys: &[&str]) -> Option<&Node> {
        let Self::Mapping(entries) = self else { return None };
        entries.iter().find(|(key, _)| keys.contains(&key.as_str())).map(|(_, value)| value)
    }

    /// A text that is not blank.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// The texts of a sequence, or the parts of a text between `separators`.
    pub(super) fn texts(&self, separators: &[char]) -> Vec<String> {
        match self {
            Self::Scalar(text) => {
                let parts = text.split(|c: char| separators.contains(&c)).map(str::trim);
                parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
            }
            Self::Sequence(items) => items.iter().filter_map(Self::text).map(str::to_owned).collect(),
            Self::Mapping(_) => Vec::new(),
        }
    }
}

/// Splits a SKILL.md into its front matter and what follows it.
fn split_front_matter(text: &str) -> Result<(&str, &str), String> {
    const NONE: &str = "SKILL.md must begin with front matter: a line `---`, then `name: …` and `description: …`, then a line `---`";
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    ensure!(first.trim_end() == "---", NONE.to_owned());
    let mut at = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            return Ok((&text[first.len()..at], &text[at + line.len()..]));
        }
        at += line.len();
    }
    Err(NONE.to_owned())
}

/// Reads front matter. If it is not YAML because a value has an unquoted colon, the values are quoted and read again; the second
/// value says whether that was necessary. The error has the line, when it is not YAML in this way either.
fn read_front_matter(text: &str) -> Result<(Node, bool), String> {
    if text.len() > MAX_BYTES {
        return Err(wrong(&format!("it has {} bytes; at most {MAX_BYTES} are allowed", text.len())));
    }
    let read = parse(text).map(|node| (node, false)).or_else(|error| {
        let quoted = quote_values(text);
        if quoted == text { Err(error) } else { parse(&quoted).map(|node| (node, true)).map_err(|_| error) }
    })?;
    match read {
        (Node::Mapping(_), _) => Ok(read),
        _ => Err(wrong("it must have lines like `description: What the skill is for`")),
    }
}

fn wrong(reason: &str) -> String {
    format!("the front matter of SKILL.md cannot be read: {reason}")
}

/// What is being read.
enum Open {
    Sequence(Vec<Node>),
    /// With the key whose value comes next.
    Mapping(Vec<(String, Node)>, Option<String>),
}

fn parse(text: &str) -> Result<Node, String> {
    let mut open: Vec<Open> = Vec::new();
    let mut nodes = 0;
    for event in Parser::new_from_str(text) {
        // Lines are counted in the file, which begins with `---`.
        let (event, _) =
            event.map_err(|error| wrong(&format!("line {}: {}", error.marker().line() + 1, error.info())))?;
        let closed = match event {
            Event::Alias(_) => return Err(anchors()),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                return Err(anchors());
            }
            Event::Scalar(value, ..) => {
                let is_nothing = matches!(&*value, "~" | "null" | "Null" | "NULL");
                Some(Node::Scalar(if is_nothing { String::new() } else { value.into_owned() }))
            }
            Event::SequenceStart(..) => {
                open.push(Open::Sequence(Vec::new()));
                None
            }
            Event::MappingStart(..) => {
                open.push(Open::Mapping(Vec::new(), None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::Sequence(items)) => Some(Node::Sequence(items)),
                Some(Open::Mapping(entries, _)) => Some(Node::Mapping(entries)),
                None => None,
            },
            _ => None,
        };
        nodes += 1;
        if nodes > MAX_NODES || open.len() > MAX_DEPTH {
            return Err(wrong(&format!("it may have {MAX_NODES} values, in {MAX_DEPTH} levels at most")));
        }
        let Some(node) = closed else { continue };
        match open.last_mut() {
            None => return Ok(node),
            Some(Open::Sequence(items)) => items.push(node),
            Some(Open::Mapping(entries, key)) => match (key.take(), node) {
                (Some(key), node) => entries.push((key, node)),
                (None, Node::Scalar(text)) => *key = Some(text),
                (None, _) => return Err(wrong("a key must be a text")),
            },
        }
    }
    Err(wrong("it is empty"))
}

fn anchors() -> String {
    wrong("anchors (`&name`) and aliases (`*name`) are not allowed: write the value out")
}

/// Quotes the values of `key: value` lines that have a colon followed by a space, and are not quoted.
fn quote_values(text: &str) -> String {
    let quoted = text.split_inclusive('\n').map(|line| {
        let Some((key, value)) = line.split_once(": ") else { return line.to_owned() };
        let is_key = !key.trim().is_empty()
            && key.trim().chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        let value = value.trim();
        if !is_key || !value.contains(": ") || value.starts_with(['"', '\'', '[', '{', '|', '>']) {
            return line.to_owned();
        }
        format!("{key}: '{}'\n", value.replace('\'', "''"))
    });
    quoted.collect()
}

#[cfg(test)]
mod tests;
