//! What a call of a tool can expect whatever its arguments are: whether the tool is switched off, asks, has its addresses
//! looked at, or reads files that no argument names.

use std::sync::Arc;

use super::argument::ArgumentPath;
use super::{Layer, Ruling, ToolFacts};

/// What the guards say of any call of the tool `tool`: [`Ruling::Deny`] if no call of it passes, [`Ruling::Ask`] if its risk
/// needs a yes, else [`Ruling::Allow`]. Rules, paths and hosts depend on the arguments: [`decide`](super::decide) judges each
/// call and may be stricter, or find that a rule lifts the question.
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

/// The highest layer that switches the tool `tool` off (`denied`); `None`: it is on. An agent is not offered a tool that is
/// off, and [`decide`](super::decide) refuses a call of it. The reply to the user cannot be switched off.
pub fn switched_off<'l>(layers: &'l [Arc<Layer>], tool: &str, facts: &ToolFacts) -> Option<&'l Layer> {
    let layer = layers.iter().find(|layer| layer.denied.first_match(tool).is_some())?;
    (!facts.in_force(layers, tool).reply).then_some(layer)
}

/// Whether a layer limits the hosts that tools may reach, or has a rule about `tool`. A redirect of the tool's request leads
/// to an address that no guard has judged, so it must not be followed then.
pub fn limits_addresses(layers: &[Arc<Layer>], tool: &str) -> bool {
    layers.iter().any(|layer| !layer.hosts.is_empty() || layer.has_rule_about(tool))
}

/// Whether `path` is among the paths that every layer allows. A call that names a file is judged by
/// [`decide`](super::decide); one that lists files leaves out all others by itself.
pub fn is_listed(layers: &[Arc<Layer>], path: &str) -> bool {
    // Most installations allow all paths.
    layers.iter().all(|layer| layer.paths.is_empty()) || is_allowed(layers, &ArgumentPath::new(path))
}

/// Whether every layer lets tools touch `path` without a question: a call that reads whatever matches leaves out all other
/// files by itself.
pub fn is_open(layers: &[Arc<Layer>], path: &str) -> bool {
    let path = ArgumentPath::new(path);
    is_allowed(layers, &path)
        && layers.iter().all(|layer| layer.sensitive.first_match(&path.comparable).is_none())
}

fn is_allowed(layers: &[Arc<Layer>], path: &ArgumentPath) -> bool {
    let Some(within) = &path.within else { return false };
    layers.iter().all(|layer| layer.paths.is_empty() || layer.paths.is_match(within))
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

    #[test]
    fn any_layer_switches_off_all_but_the_reply() {
        let layer = |kind, toml: &str| {
            let settings: GuardSettings = toml::from_str(toml).unwrap();
            Arc::new(Layer::compile(kind, "test", &settings).unwrap())
        };
        let layers = [
            layer(LayerKind::Tenant, "denied = [\"github__*\"]\nlevel = \"read\""),
            layer(LayerKind::User, "denied = [\"*\"]"),
        ];
        let (usual, reply) = (ToolFacts::default(), ToolFacts { reply: true, ..ToolFacts::default() });
        let off = |layers, tool, facts| switched_off(layers, tool, facts).map(|layer| layer.kind);
        assert_eq!(off(&layers, "github__add", &usual), Some(LayerKind::Tenant));
        assert_eq!(off(&layers, "create_note", &usual), Some(LayerKind::User));
        assert_eq!(off(&layers[..1], "create_note", &usual), None, "it may still be refused, by its level");
        assert_eq!(off(&layers, "send_message", &reply), None);
    }

    #[test]
    fn hosts_and_rules_limit_addresses() {
        let shipped = include_str!("../../../../jobs/guards.toml");
        let rule =
            "[[rule]]\ntool = \"fetch_*\"\nwhen = { \"/url\" = \"https://a.example/*\" }\ndecide = \"deny\"";
        for (kind, toml, limits) in [
            (LayerKind::Installation, shipped, false),
            (LayerKind::Kind, "hosts = [\"*.example.com\"]", true),
            (LayerKind::Kind, rule, true),
            (LayerKind::Kind, "denied = [\"delete_note\"]", false),
        ] {
            let settings: GuardSettings = toml::from_str(toml).unwrap();
            let layer = Arc::new(Layer::compile(kind, "test", &settings).unwrap());
            assert_eq!(limits_addresses(&[layer], "fetch_page"), limits, "{toml}");
        }
    }
}

#[cfg(test)]
mod open_tests {
    use super::*;
    use crate::guard::{GuardSettings, LayerKind};

    fn layer(kind: LayerKind, toml: &str) -> Arc<Layer> {
        let settings: GuardSettings = toml::from_str(toml).unwrap();
        Arc::new(Layer::compile(kind, "test", &settings).unwrap())
    }

    #[test]
    fn sensitive_files_and_those_of_no_allowed_path_are_closed() {
        let shipped = layer(LayerKind::Installation, include_str!("../../../../jobs/guards.toml"));
        let kind = layer(LayerKind::Kind, "paths = [\"docs/**\"]\nsensitive = [\"*.draft\"]");
        for (path, at_first, below) in [
            ("docs/a.md", true, true),
            ("a.md", true, false),
            ("docs/b.draft", true, false),
            ("docs/.env", false, false),
            ("docs/.ENV.local", false, false),
            ("docs/.ssh/config", false, false),
            ("docs/my-secrets.txt", false, false),
            ("../docs/a.md", false, false),
        ] {
            assert_eq!(is_open(std::slice::from_ref(&shipped), path), at_first, "{path}");
            assert_eq!(is_open(&[shipped.clone(), kind.clone()], path), below, "{path}");
        }
        for (path, listed) in [("docs/a.md", true), ("docs/.env", true), ("a.md", false), ("docs", false)] {
            assert!(is_listed(std::slice::from_ref(&shipped), path), "{path}");
            assert_eq!(is_listed(&[shipped.clone(), kind.clone()], path), listed, "{path}");
        }
    }
}
