//! Effect class and facts of a tool.

use houston_domain::guard::{Level, Risk, ToolFacts};
use houston_domain::mcp_server::ToolSettings;
pub use houston_domain::mcp_server::pin::Hints;
use houston_domain::tool_call::EffectClass;

use crate::settings::{ToolOverride, Trust};

/// Effect class and facts of a tool: what the operator says, else what the server says if its hints are trusted, else the
/// worst.
pub fn judged(trust: Trust, hints: Hints, said: &ToolOverride) -> (EffectClass, ToolFacts) {
    let (effect, facts) = match trust {
        Trust::None => (EffectClass::Effect, ToolFacts::foreign()),
        Trust::Hints => by_hints(hints),
    };
    let effect = said.effect.unwrap_or(effect);
    let level = match said.effect {
        Some(EffectClass::Read) => Level::Read,
        Some(_) => Level::Write,
        None => facts.level,
    };
    let facts = ToolFacts {
        level: said.level.unwrap_or(level),
        risk: said.risk.unwrap_or(facts.risk),
        reads_private: said.reads_private.unwrap_or(facts.reads_private),
        untrusted_output: said.untrusted_output.unwrap_or(facts.untrusted_output),
        sends_out: said.sends_out.unwrap_or(facts.sends_out),
        ..facts
    };
    (effect, facts)
}

/// Effect class and facts of a tool of a tenant's server: what the tenant says, else the worst. What the server says makes
/// it only stricter.
pub fn judged_own(hints: Hints, said: ToolSettings) -> (EffectClass, ToolFacts) {
    let effect = match said.effect.unwrap_or(EffectClass::Effect) {
        EffectClass::Read if hints.read_only == Some(false) => EffectClass::Effect,
        EffectClass::Idempotent if hints.idempotent == Some(false) => EffectClass::Effect,
        effect => effect,
    };
    let facts = ToolFacts::foreign();
    let said_risk = said.risk.unwrap_or(facts.risk);
    let risk = match (hints.destructive, hints.read_only) {
        (Some(true), _) => Risk::Destructive,
        (_, Some(false)) => said_risk.max(Risk::Write),
        _ => said_risk,
    };
    let level = if effect == EffectClass::Read && risk == Risk::Read { Level::Read } else { facts.level };
    (effect, ToolFacts { level, risk, ..facts })
}

/// What is left out counts as the protocol says: not read-only, destructive, not idempotent, open.
fn by_hints(hints: Hints) -> (EffectClass, ToolFacts) {
    let reads = hints.read_only == Some(true);
    let open = hints.open_world != Some(false);
    let effect = match (reads, hints.idempotent) {
        (true, _) => EffectClass::Read,
        (false, Some(true)) => EffectClass::Idempotent,
        (false, _) => EffectClass::Effect,
    };
    let risk = match (reads, hints.destructive) {
        (true, _) => Risk::Read,
        (false, Some(false)) => Risk::External,
        (false, _) => Risk::Destructive,
    };
    let facts = ToolFacts {
        level: if reads { Level::Read } else { Level::Write },
        risk,
        untrusted_output: open,
        sends_out: open,
        // No hint says otherwise.
        reads_private: true,
        ..ToolFacts::foreign()
    };
    (effect, facts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hints_of_an_untrusted_server_lower_nothing() {
        let harmless = Hints {
            read_only: Some(true),
            destructive: Some(false),
            idempotent: Some(true),
            open_world: Some(false),
        };
        let (effect, facts) = judged(Trust::None, harmless, &ToolOverride::default());
        assert_eq!((effect, facts), (EffectClass::Effect, ToolFacts::foreign()));
    }

    #[test]
    fn trusted_hints_decide_class_risk_and_taint() {
        let class = |read_only, destructive, idempotent, open_world| {
            let hints = Hints { read_only, destructive, idempotent, open_world };
            let (effect, facts) = judged(Trust::Hints, hints, &ToolOverride::default());
            (effect, facts.risk, facts.untrusted_output, facts.sends_out)
        };
        assert_eq!(class(None, None, None, None), (EffectClass::Effect, Risk::Destructive, true, true));
        assert_eq!(class(Some(true), None, None, Some(false)), (EffectClass::Read, Risk::Read, false, false));
        assert_eq!(
            class(None, Some(false), Some(true), Some(true)),
            (EffectClass::Idempotent, Risk::External, true, true)
        );
        assert_eq!(
            class(Some(false), Some(true), None, None),
            (EffectClass::Effect, Risk::Destructive, true, true)
        );
    }

    #[test]
    fn the_operator_has_the_last_word() {
        let said = ToolOverride {
            effect: Some(EffectClass::Read),
            risk: Some(Risk::Read),
            untrusted_output: Some(false),
            ..ToolOverride::default()
        };
        let (effect, facts) = judged(Trust::None, Hints::default(), &said);
        assert_eq!((effect, facts.level, facts.risk), (EffectClass::Read, Level::Read, Risk::Read));
        assert!(
            !facts.untrusted_output && facts.sends_out && facts.reads_private,
            "the rest stays as it was"
        );
        let said = ToolOverride { effect: Some(EffectClass::Effect), ..ToolOverride::default() };
        let reads = Hints { read_only: Some(true), ..Hints::default() };
        assert_eq!(judged(Trust::Hints, reads, &said).0, EffectClass::Effect);
    }

    #[test]
    fn hints_make_what_a_tenant_says_only_stricter() {
        let said = ToolSettings { effect: Some(EffectClass::Read), risk: Some(Risk::Read) };
        let of = |hints: Hints, said| {
            let (effect, facts) = judged_own(hints, said);
            assert!(facts.untrusted_output && facts.reads_private && facts.sends_out);
            (effect, facts.risk)
        };
        let harmless = Hints { read_only: Some(true), destructive: Some(false), ..Hints::default() };
        assert_eq!(of(harmless, ToolSettings::default()), (EffectClass::Effect, Risk::Destructive));
        assert_eq!(of(harmless, said), (EffectClass::Read, Risk::Read));
        let writes = Hints { read_only: Some(false), ..Hints::default() };
        assert_eq!(of(writes, said), (EffectClass::Effect, Risk::Write));
        let destroys = Hints { destructive: Some(true), ..Hints::default() };
        assert_eq!(of(destroys, said), (EffectClass::Read, Risk::Destructive));
    }

    proptest! {
        #[test]
        fn no_tool_is_a_reply_or_checkable(
            trusted: bool, read_only: Option<bool>, destructive: Option<bool>, idempotent: Option<bool>,
            open_world: Option<bool>,
        ) {
            let trust = if trusted { Trust::Hints } else { Trust::None };
            let hints = Hints { read_only, destructive, idempotent, open_world };
            let (effect, facts) = judged(trust, hints, &ToolOverride::default());
            prop_assert!(!facts.reply && effect != EffectClass::Checkable);
        }
    }
}
