//! Intents: what the model says a call is for, before it makes the call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Risk;

/// Maximum number of intents that are read from one turn.
pub const MAX_INTENTS: usize = 200;
/// Maximum length of `why`, in characters. Longer ones are cut.
pub const MAX_WHY_CHARS: usize = 500;

/// The argument that may hold the intent of a call, for models that write no text beside their calls.
pub const INTENT_ARGUMENT: &str = "intent";

const OPEN: &str = "<intent";
const CLOSE: &str = "</intent>";

/// What the model says a call is for.
///
/// ```text
/// <intent tool="send_email" risk="external">Ann asked for the offer by mail</intent>
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The name of the tool.
    pub tool: String,
    /// The risk that the model sees in it. It can raise the risk of the tool, never lower it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// What for. Never empty.
    pub why: String,
}

impl Intent {
    fn new(tool: &str, risk: Option<&str>, why: &str) -> Option<Self> {
        let why: String = why.trim().chars().take(MAX_WHY_CHARS).collect();
        let tool = tool.trim();
        (!why.is_empty() && !tool.is_empty()).then(|| Self {
            tool: tool.to_owned(),
            risk: risk.and_then(|risk| Risk::from_name(risk.trim())),
            why,
        })
    }

    /// Takes the intent of a call of `tool` out of its arguments: `"intent": "why"` or
    /// `"intent": {"risk": "write", "why": "why"}`. Call it only for a tool to whose schema the argument was added.
    pub fn take(tool: &str, input: &mut Value) -> Option<Self> {
        match input.as_object_mut()?.shift_remove(INTENT_ARGUMENT)? {
            Value::String(why) => Self::new(tool, None, &why),
            given => {
                let text = |key| given.get(key).and_then(Value::as_str);
                Self::new(tool, text("risk"), text("why").unwrap_or_default())
            }
        }
    }

    /// The intents in the text of a turn, in their order. What is not closed, has no tool or no text, or contains
    /// another one, is not an intent.
    ///
    /// Reads each character a constant number of times.
    pub fn parse(text: &str) -> Vec<Self> {
        let (mut intents, mut rest) = (Vec::new(), text);
        while intents.len() < MAX_INTENTS {
            let Some(at) = rest.find(OPEN) else { break };
            rest = &rest[at + OPEN.len()..];
            // The attributes end at the first `>`; a `<` before it begins something else.
            let Some(end) = rest.find(['<', '>']) else { break };
            let head = &rest[..end];
            let is_open = rest[end..].starts_with('>');
            rest = &rest[end..];
            let Some((tool, risk)) = is_open.then(|| attributes(head)).flatten() else { continue };
            // The text ends where it is closed, and must not contain another intent.
            let Some(close) = next_tag(rest) else { break };
            if rest[close..].starts_with(CLOSE) {
                intents.extend(Self::new(tool, risk, &rest[1..close]));
                rest = &rest[close + CLOSE.len()..];
            } else {
                rest = &rest[close..];
            }
        }
        intents
    }

    /// The intent of each call, given by the names of its tools: the first call of a tool has the first intent of that
    /// tool, and so on.
    pub fn assign<'i>(intents: &'i [Self], calls: &[&str]) -> Vec<Option<&'i Self>> {
        let mut is_used = vec![false; intents.len()];
        let mut next = |call: &&str| {
            let nth = (0..intents.len()).find(|nth| !is_used[*nth] && intents[*nth].tool == **call)?;
            is_used[nth] = true;
            intents.get(nth)
        };
        calls.iter().map(&mut next).collect()
    }
}

/// Where the next `<intent` or `</intent>` begins.
fn next_tag(text: &str) -> Option<usize> {
    text.match_indices('<').map(|(at, _)| at).find(|at| {
        let tag = &text[*at..];
        tag.starts_with(OPEN) || tag.starts_with(CLOSE)
    })
}

/// The attributes `tool` and `risk`. `None` when they are malformed, or there is no `tool`. Other attributes are
/// skipped.
fn attributes(head: &str) -> Option<(&str, Option<&str>)> {
    let (mut tool, mut risk, mut rest) = (None, None, head);
    loop {
        let trimmed = rest.trim_start();
        if trimmed.is_empty() {
            return Some((tool?, risk));
        }
        if trimmed.len() == rest.len() {
            return None;
        }
        let (name, after) = trimmed.split_once('=')?;
        let (name, after) = (name.trim_end(), after.trim_start());
        let quote = after.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (value, after) = after[1..].split_once(quote)?;
        match name {
            "tool" => tool = tool.or(Some(value)),
            "risk" => risk = risk.or(Some(value)),
            _ => {}
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn intent(tool: &str, risk: Option<Risk>, why: &str) -> Intent {
        Intent { tool: tool.into(), risk, why: why.into() }
    }

    #[test]
    fn intents_are_read_in_order() {
        let text = "I will look first.\n<intent tool=\"read_note\" risk=\"read\">find the hotel</intent>\nThen \
                    <intent risk='external'\n tool = 'send_email' n=\"1\">send it &amp; be done</intent> …";
        let expected = vec![
            intent("read_note", Some(Risk::Read), "find the hotel"),
            intent("send_email", Some(Risk::External), "send it &amp; be done"),
        ];
        assert_eq!(Intent::parse(text), expected);
    }

    #[test]
    fn malformed_intents_are_skipped() {
        let good = "<intent tool=\"x\">why</intent>";
        for bad in [
            "<intent>why</intent>",
            "<intent tool=x>why</intent>",
            "<intent tool=\"x\"></intent>",
            "<intent tool=\"x\"/>",
            "<intent tool=\"\">why</intent>",
            "<intent tool=\"x\">open ",
            "<intent tool=\"x\"risk=\"read\">why</intent>",
            "<intention tool=\"x\">why</intent>",
            "<intent",
            "<intent tool=\"x",
            "<intent tool=\"a<b\">why</intent>",
            "</intent>",
            "<intent tool=\"x\" risk>why</intent>",
        ] {
            assert_eq!(Intent::parse(&format!("{bad}{good}")), [intent("x", None, "why")], "{bad}");
        }
        assert_eq!(
            Intent::parse("<intent tool=\"x\" risk=\"huge\">why</intent>"),
            [intent("x", None, "why")]
        );
    }

    #[test]
    fn calls_get_the_intents_of_their_tools_in_order() {
        let intents = [intent("a", None, "1"), intent("b", None, "2"), intent("a", None, "3")];
        let assigned = Intent::assign(&intents, &["b", "a", "c", "a", "a"]);
        let whys: Vec<_> = assigned.iter().map(|intent| intent.map(|intent| intent.why.as_str())).collect();
        assert_eq!(whys, [Some("2"), Some("1"), None, Some("3"), None]);
    }

    #[test]
    fn intents_may_be_an_argument() {
        let mut input = json!({"to": "ann", "intent": {"risk": "external", "why": "she asked"}, "cc": "bob"});
        assert_eq!(Intent::take("mail", &mut input), Some(intent("mail", Some(Risk::External), "she asked")));
        assert_eq!(input.to_string(), "{\"to\":\"ann\",\"cc\":\"bob\"}");
        assert_eq!(Intent::take("mail", &mut input), None);
        let mut input = json!({"intent": "she asked"});
        assert_eq!(Intent::take("mail", &mut input), Some(intent("mail", None, "she asked")));
        assert_eq!(Intent::take("mail", &mut json!({"intent": 7})), None);
    }

    /// Time is in proportion to the length: each of these has a part that a naive search would read again and again.
    #[test]
    fn long_hostile_texts_are_read_once() {
        for part in [
            "<intent ",
            "<intent tool=\"",
            "<intent tool=\"x\">",
            "<intent tool='\"",
            "<intent tool=\"x\" ",
            "<",
            "<intent tool=\"x\"><",
            "</intent>",
            "<intent tool=\"x\">\u{1F600}</intent",
            "<intent a=\"\"",
        ] {
            let text = part.repeat(2_000_000 / part.len());
            assert!(Intent::parse(&text).len() <= MAX_INTENTS, "{part}");
            assert_eq!(Intent::parse(&format!("<intent tool=\"x\">why</intent>{text}"))[0].why, "why");
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_parsed(text in "(<intent|</intent>|tool=|risk=|\"|'|>|<| |x|ä|\\PC){0,60}") {
            for intent in Intent::parse(&text) {
                prop_assert!(!intent.why.is_empty() && !intent.why.contains(OPEN), "{intent:?}");
                prop_assert!(!intent.tool.is_empty() && !intent.tool.contains(['<', '>']), "{intent:?}");
            }
        }

        #[test]
        fn written_intents_are_read_back(
            intents in prop::collection::vec(("[a-z_]{1,12}", prop::option::of(0..5_usize), "[a-z<&\"]{1,12}"), 0..6),
            between in "[^<]{0,10}",
        ) {
            let written: Vec<Intent> = intents
                .iter()
                .map(|(tool, risk, why)| intent(tool, risk.map(|risk| Risk::ALL[risk]), why))
                .collect();
            let text: String = written
                .iter()
                .map(|Intent { tool, risk, why }| {
                    let risk = risk.map(|risk| format!(" risk=\"{}\"", risk.as_str())).unwrap_or_default();
                    format!("{between}<intent tool=\"{tool}\"{risk}>{why}</intent>")
                })
                .collect();
            prop_assert_eq!(Intent::parse(&text), written);
        }

        #[test]
        fn each_intent_serves_one_call(names in prop::collection::vec("[ab]", 0..8), calls in prop::collection::vec("[abc]", 0..8)) {
            let intents: Vec<Intent> = (0..).zip(&names).map(|(n, tool)| intent(tool, None, &format!("{n}"))).collect();
            let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
            let assigned = Intent::assign(&intents, &calls);
            prop_assert_eq!(assigned.len(), calls.len());
            let mut whys: Vec<&str> = assigned.iter().flatten().map(|intent| intent.why.as_str()).collect();
            for (call, intent) in calls.iter().zip(&assigned) {
                prop_assert!(intent.is_none_or(|intent| intent.tool == *call));
            }
            let count = whys.len();
            whys.sort_unstable();
            whys.dedup();
            prop_assert_eq!(whys.len(), count);
            for tool in ["a", "b"] {
                let of = |names: &[&str]| names.iter().filter(|name| **name == tool).count();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let given = assigned.iter().flatten().filter(|intent| intent.tool == tool).count();
                prop_assert_eq!(given, of(&names).min(of(&calls)));
            }
        }
    }
}
