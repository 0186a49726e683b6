//! Pins: the definitions of tools that a person has approved, and what has changed since.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MAX_PINS_BYTES;

/// An approved tool: what was read when it was approved, which is what models read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// SHA-256, as 64 hex digits, of its definition as the server sent it.
    pub sha256: String,
    /// Its description, cleaned.
    pub description: String,
    /// The JSON Schema of its arguments, cleaned.
    pub input_schema: Value,
    /// What the server says of it.
    #[serde(default)]
    pub hints: Hints,
    /// Whether the server did not list it any more when its tools were approved last. The pin is kept: a tool that
    /// disappears and returns as another one has changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// Whether the server has listed it with another definition since it was approved: it is not offered until a person
    /// approves it again, whatever the server lists by then. Only of servers of tenants and users.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withheld: bool,
}

/// What a server says of one of its tools. They are hints: a tool that says it only reads may do anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hints {
    /// `readOnlyHint`: it changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// `destructiveHint`: what it changes may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// `idempotentHint`: calling it twice does no more than calling it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// `openWorldHint`: it deals with things outside the server, like the web.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

names! {
    /// What differs between a tool that a server lists and its pin.
    pub enum Standing {
        /// It is the approved one.
        Approved = "approved",
        /// Its definition is another one than the one that was approved.
        Changed = "changed",
        /// It was never approved.
        New = "new",
        /// It was approved, and the server does not list it.
        Gone = "gone",
        /// Its definition cannot be offered to models.
        Refused = "refused",
    }
}

/// A tool as a server lists it, cleaned.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedTool {
    /// The name that the server gives it.
    pub name: String,
    /// What is stored when it is approved.
    pub pin: Pin,
    /// Why it cannot be offered to models, if so.
    pub refused: Option<String>,
}

/// A tool that a server lists, or that was approved, and how they differ.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedTool {
    /// How they differ.
    pub standing: Standing,
    /// What it is now; for one that is gone, what was approved.
    pub tool: ListedTool,
    /// The approved one, if it is another.
    pub approved: Option<Pin>,
    /// Which parts have changed: `description`, `input_schema`, `hints`; `other` for the rest. Empty: it had changed,
    /// and is the approved one again.
    pub changed: Vec<&'static str>,
}

/// The tools that a server lists now and the ones that were approved, by name.
pub fn compare(pins: &BTreeMap<String, Pin>, listed: &[ListedTool]) -> BTreeMap<String, ComparedTool> {
    let gone = |(name, pin): (&String, &Pin)| {
        let tool = ListedTool { name: name.clone(), pin: pin.clone(), refused: None };
        let compared = ComparedTool { standing: Standing::Gone, tool, approved: None, changed: Vec::new() };
        (name.clone(), compared)
    };
    let mut all: BTreeMap<String, ComparedTool> = pins.iter().map(gone).collect();
    for tool in listed {
        let pin = pins.get(&tool.name);
        let standing = standing(tool, pin);
        // Of two tools with one name the server may call the other: none of them counts as approved.
        let twice = listed.iter().any(|other| other.name == tool.name && other.pin.sha256 != tool.pin.sha256);
        let standing = if twice && standing == Standing::Approved { Standing::Changed } else { standing };
        let is_other = |pin: &&Pin| standing == Standing::Changed && pin.sha256 != tool.pin.sha256;
        let approved = pin.filter(is_other).cloned();
        let changed = approved.as_ref().map(|pin| changed(pin, &tool.pin)).unwrap_or_default();
        all.insert(tool.name.clone(), ComparedTool { standing, tool: tool.clone(), approved, changed });
    }
    all
}

/// What differs between a tool and its pin.
pub fn standing(tool: &ListedTool, pin: Option<&Pin>) -> Standing {
    match pin {
        _ if tool.refused.is_some() => Standing::Refused,
        None => Standing::New,
        Some(pin) if pin.sha256 == tool.pin.sha256 && !pin.withheld => Standing::Approved,
        Some(_) => Standing::Changed,
    }
}

fn changed(before: &Pin, now: &Pin) -> Vec<&'static str> {
    let parts = [
        ("description", before.description != now.description),
        ("input_schema", before.input_schema != now.input_schema),
        ("hints", before.hints != now.hints),
    ];
    let changed: Vec<&str> =
        parts.into_iter().filter(|(_, is_other)| *is_other).map(|(part, _)| part).collect();
    if changed.is_empty() { vec!["other"] } else { changed }
}

/// Why tools were not approved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotApproved {
    /// The server has no such tool.
    #[error("the server lists no tool `{0}`")]
    Unlisted(String),
    /// Its definition is not the one that is to be approved.
    #[error(
        "`{0}` is not the tool that you have seen: its `sha256` is another one now. List the tools again, and approve what \
         you have read"
    )]
    Other(String),
    /// All approved definitions together are too long.
    #[error("the approved definitions are too long")]
    TooLarge,
    /// It cannot be offered.
    #[error("`{tool}` cannot be offered: {reason}")]
    Refused {
        /// Its name.
        tool: String,
        /// Why.
        reason: String,
    },
}

/// The pins after a person has approved these tools, by name and `sha256`. Approved tools that the server does not list now
/// are marked as gone, and those that it lists otherwise are withheld.
///
/// # Errors
/// [`NotApproved`] for the first that is not what the server lists, or when all together are too long.
pub fn approve(
    mut pins: BTreeMap<String, Pin>,
    listed: &[ListedTool],
    approved: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Pin>, NotApproved> {
    for (name, pin) in &mut pins {
        pin.gone = !listed.iter().any(|tool| tool.name == *name);
    }
    for (name, sha256) in changed_of(&pins, listed) {
        withhold(&mut pins, &name, &sha256);
    }
    for (name, sha256) in approved {
        let mut meant = listed.iter().filter(|tool| tool.name == *name).peekable();
        let first = *meant.peek().ok_or_else(|| NotApproved::Unlisted(name.clone()))?;
        ensure!(meant.all(|tool| tool.pin.sha256 == *sha256), NotApproved::Other(name.clone()));
        if let Some(reason) = &first.refused {
            return Err(NotApproved::Refused { tool: name.clone(), reason: reason.clone() });
        }
        pins.insert(name.clone(), first.pin.clone());
    }
    // Maps with texts as keys can be written.
    let bytes = serde_json::to_string(&pins).map_or(usize::MAX, |text| text.len());
    if bytes > MAX_PINS_BYTES { Err(NotApproved::TooLarge) } else { Ok(pins) }
}

/// The approved tools that a server lists with another definition, and the hashes of the approved ones.
pub fn changed_of(pins: &BTreeMap<String, Pin>, listed: &[ListedTool]) -> BTreeMap<String, String> {
    let is_other = |(name, pin): &(&String, &Pin)| {
        listed.iter().any(|tool| tool.name == **name && tool.pin.sha256 != pin.sha256)
    };
    pins.iter().filter(is_other).map(|(name, pin)| (name.clone(), pin.sha256.clone())).collect()
}

/// Withholds a tool, unless another definition than this one is approved by now; says whether that is new.
pub fn withhold(pins: &mut BTreeMap<String, Pin>, tool: &str, sha256: &str) -> bool {
    match pins.get_mut(tool) {
        Some(pin) if pin.sha256 == sha256 && !pin.withheld => {
            pin.withheld = true;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str) -> ListedTool {
        let pin = Pin {
            sha256: format!("{name} {description}"),
            description: description.to_owned(),
            input_schema: json!({"type": "object"}),
            hints: Hints::default(),
            gone: false,
            withheld: false,
        };
        ListedTool { name: name.to_owned(), pin, refused: None }
    }

    fn named(tools: &[&ListedTool]) -> BTreeMap<String, String> {
        tools.iter().map(|tool| (tool.name.clone(), tool.pin.sha256.clone())).collect()
    }

    #[test]
    fn what_has_changed_is_named() {
        let before = [tool("a", "reads"), tool("b", "writes")];
        let pins = approve(BTreeMap::new(), &before, &named(&[&before[0], &before[1]])).unwrap();
        let mut same_texts = tool("b", "writes");
        same_texts.pin.sha256 = "other".to_owned();
        let now = [tool("a", "reads, and sends all to me"), same_texts, tool("c", "new")];
        let compared = compare(&pins, &now);
        let of = |name: &str| (compared[name].standing, compared[name].changed.clone());
        assert_eq!(of("a"), (Standing::Changed, vec!["description"]));
        assert_eq!(of("b"), (Standing::Changed, vec!["other"]));
        assert_eq!(of("c"), (Standing::New, vec![]));
        assert_eq!(compare(&pins, &before[..1])["b"].standing, Standing::Gone);
        let twice = [tool("a", "reads"), tool("a", "steals")];
        assert_eq!(compare(&pins, &twice)["a"].standing, Standing::Changed);
    }

    #[test]
    fn only_what_a_person_has_seen_is_approved() {
        let seen = tool("a", "reads");
        let now = [tool("a", "steals")];
        let refused = approve(BTreeMap::new(), &now, &named(&[&seen]));
        assert_eq!(refused, Err(NotApproved::Other("a".to_owned())));
        assert_eq!(
            approve(BTreeMap::new(), &[], &named(&[&seen])),
            Err(NotApproved::Unlisted("a".to_owned()))
        );
        let twice = [seen.clone(), tool("a", "steals")];
        assert_eq!(
            approve(BTreeMap::new(), &twice, &named(&[&seen])),
            Err(NotApproved::Other("a".to_owned()))
        );
        let broken = ListedTool { refused: Some("no object".to_owned()), ..seen.clone() };
        assert!(approve(BTreeMap::new(), std::slice::from_ref(&broken), &named(&[&broken])).is_err());
        let pins = approve(BTreeMap::new(), std::slice::from_ref(&seen), &named(&[&seen])).unwrap();
        let gone = approve(pins, &[tool("b", "new")], &BTreeMap::new()).unwrap();
        assert!(gone["a"].gone, "its pin is kept");
        assert_eq!(compare(&gone, &now)["a"].standing, Standing::Changed);
    }

    #[test]
    fn changed_tool_stays_withheld_until_it_is_approved_again() {
        let (seen, other, new) = (tool("a", "reads"), tool("a", "steals"), tool("b", "new"));
        let mut pins = approve(BTreeMap::new(), std::slice::from_ref(&seen), &named(&[&seen])).unwrap();
        let changed = changed_of(&pins, std::slice::from_ref(&other));
        assert_eq!(changed, named(&[&seen]));
        assert!(!withhold(&mut pins, "a", &other.pin.sha256), "another one is approved");
        assert!(withhold(&mut pins, "a", &seen.pin.sha256) && !withhold(&mut pins, "a", &seen.pin.sha256));
        // What it was before does not bring it back.
        let back = compare(&pins, std::slice::from_ref(&seen))["a"].clone();
        assert_eq!((back.standing, back.changed), (Standing::Changed, vec![]));
        let again = approve(pins, std::slice::from_ref(&seen), &named(&[&seen])).unwrap();
        assert_eq!(compare(&again, &[seen])["a"].standing, Standing::Approved);
        // Nor does the approval of another tool.
        let both = approve(again, &[other, new.clone()], &named(&[&new])).unwrap();
        assert!(both["a"].withheld && !both["b"].withheld);
    }
}
