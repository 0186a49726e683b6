//! What a call of a tool can expect whatever its arguments are.

use std::sync::Arc;

use super::{Layer, Ruling, ToolFacts};

/// What the guards say of any call of the tool `tool`: [`Ruling::Deny`] if no call of it passes, [`Ruling::Ask`] if its risk
/// needs a yes, else [`Ruling::Allow`]. Rules, paths and hosts depend on the arguments: [`decide`](super::decide) judges each
/// call and may be stricter, or find that a rule lifts the question.
#[must_use]
pub fn outlook(layers: &[Arc<Layer>], tool: &str, facts: &ToolFacts) -> Ruling {
    let facts = facts.in_force(layers, tool);
    let mut outlook = if facts.asks_each_time { Ruling::Ask } else { Ruling::Allow };
    for layer in layers {
        let is_excepted = layer.allowed.first_match(tool).is_some();
        let is_beyond = layer.level.is_some_and(|most| most < facts.level)
            || layer.categories.as_ref().is_some_and(|allowed| !allowed.contains(&facts.category));
        if layer.denied.first_match(tool).is_some() || is_beyond && !is_excepted {
            return Ruling::Deny;
        }
        match layer.strictest_of_risks(&[facts.risk]) {
            Some((Ruling::Deny, _)) => return Ruling::Deny,
            Some((Ruling::Ask, _)) if !facts.reply => outlook = Ruling::Ask,
            _ => {}
        }
    }
    outlook
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{Category, GuardSettings, LayerKind, Level, Risk};

    fn layer(toml: &str) -> Arc<Layer> {
        let settings: GuardSettings = toml::from_str(toml).unwrap();
        Arc::new(Layer::compile(LayerKind::Kind, "test", &settings).unwrap())
    }

    #[test]
    fn outlook_is_deny_where_no_call_passes() {
        let write = ToolFacts { level: Level::Write, risk: Risk::Write, ..ToolFacts::default() };
        let sends = ToolFacts { category: Category::NetworkWrite, ..write.clone() };
        for (toml, facts, expected) in [
            ("", &write, Ruling::Allow),
            ("denied = [\"crm__*\"]", &write, Ruling::Deny),
            ("level = \"read\"", &write, Ruling::Deny),
            ("level = \"read\"\nallowed = [\"crm__*\"]", &write, Ruling::Allow),
            ("categories = [\"agent\"]", &sends, Ruling::Deny),
            ("profile = \"strict\"", &write, Ruling::Ask),
        ] {
            assert_eq!(outlook(&[layer(toml)], "crm__add", facts), expected, "{toml}");
        }
    }
}
