//! Which tools are switched off, whatever their arguments are.

use std::sync::Arc;

use super::{Layer, ToolFacts};

/// The highest layer that switches the tool `tool` off (`denied`); `None`: it is on. An agent is not offered a tool that is
/// off, and [`decide`](super::decide) refuses a call of it. The reply to the user cannot be switched off.
#[must_use]
pub fn switched_off<'l>(layers: &'l [Arc<Layer>], tool: &str, facts: &ToolFacts) -> Option<&'l Layer> {
    let layer = layers.iter().find(|layer| layer.denied.first_match(tool).is_some())?;
    (!facts.in_force(layers, tool).reply).then_some(layer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{GuardSettings, LayerKind};

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
        let off = |layers, tool, facts| switched_off(layers, tool, facts).map(Layer::kind);
        assert_eq!(off(&layers, "github__add", &usual), Some(LayerKind::Tenant));
        assert_eq!(off(&layers, "create_note", &usual), Some(LayerKind::User));
        assert_eq!(off(&layers[..1], "create_note", &usual), None, "it may still be refused, by its level");
        assert_eq!(off(&layers, "send_message", &reply), None);
    }
}
