//! Whether guards look at the addresses that a tool is given.

use std::sync::Arc;

use super::Layer;

/// Whether a layer limits the hosts that tools may reach, or has a rule about `tool`. A redirect of the tool's request leads
/// to an address that no guard has judged, so it must not be followed then.
#[must_use]
pub fn limits_addresses(layers: &[Arc<Layer>], tool: &str) -> bool {
    layers.iter().any(|layer| !layer.hosts.is_empty() || layer.has_rule_about(tool))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{GuardSettings, LayerKind};

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
