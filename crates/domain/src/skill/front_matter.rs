//! Front matter: the YAML between the two `---` at the beginning of a SKILL.md, as a tree of texts.
//!
//! Only what front matter needs is read: mappings, sequences and scalars, which all stay texts. Anchors and aliases are refused,
//! since they let a short text stand for a huge one.

use saphyr_parser::{Event, Parser};

use super::SkillError;

/// Bytes of front matter.
const MAX_BYTES: usize = 32 * 1024;
/// Values of all mappings and sequences together.
const MAX_NODES: usize = 2_000;
/// Mappings and sequences within one another.
const MAX_DEPTH: usize = 16;

/// A value of front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
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
///
/// # Errors
/// [`SkillError::NoFrontMatter`] when it does not begin with front matter.
pub(super) fn split(text: &str) -> Result<(&str, &str), SkillError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return Err(SkillError::NoFrontMatter);
    }
    let mut at = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            return Ok((&text[first.len()..at], &text[at + line.len()..]));
        }
        at += line.len();
    }
    Err(SkillError::NoFrontMatter)
}

/// Reads front matter. If it is not YAML because a value has an unquoted colon, the values are quoted and read again; the second
/// value says whether that was necessary.
///
/// # Errors
/// [`SkillError::FrontMatter`] with the line, when it is not YAML in this way either.
pub(super) fn read(text: &str) -> Result<(Node, bool), SkillError> {
    if text.len() > MAX_BYTES {
        return Err(wrong(format!("it has {} bytes; at most {MAX_BYTES} are allowed", text.len())));
    }
    let read = parse(text).map(|node| (node, false)).or_else(|error| {
        let quoted = quote_values(text);
        if quoted == text { Err(error) } else { parse(&quoted).map(|node| (node, true)).map_err(|_| error) }
    })?;
    match read {
        (Node::Mapping(_), _) => Ok(read),
        _ => Err(wrong("it must have lines like `description: What the skill is for`".to_owned())),
    }
}

fn wrong(reason: String) -> SkillError {
    SkillError::FrontMatter { reason }
}

/// What is being read.
enum Open {
    Sequence(Vec<Node>),
    /// With the key whose value comes next.
    Mapping(Vec<(String, Node)>, Option<String>),
}

fn parse(text: &str) -> Result<Node, SkillError> {
    let mut open: Vec<Open> = Vec::new();
    let mut nodes = 0;
    for event in Parser::new_from_str(text) {
        // Lines are counted in the file, which begins with `---`.
        let (event, _) =
            event.map_err(|error| wrong(format!("line {}: {}", error.marker().line() + 1, error.info())))?;
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
            return Err(wrong(format!("it may have {MAX_NODES} values, in {MAX_DEPTH} levels at most")));
        }
        let Some(node) = closed else { continue };
        match open.last_mut() {
            None => return Ok(node),
            Some(Open::Sequence(items)) => items.push(node),
            Some(Open::Mapping(entries, key)) => match (key.take(), node) {
                (Some(key), node) => entries.push((key, node)),
                (None, Node::Scalar(text)) => *key = Some(text),
                (None, _) => return Err(wrong("a key must be a text".to_owned())),
            },
        }
    }
    Err(wrong("it is empty".to_owned()))
}

fn anchors() -> SkillError {
    wrong("anchors (`&name`) and aliases (`*name`) are not allowed: write the value out".to_owned())
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
