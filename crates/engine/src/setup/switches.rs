//! Tools that guards switch off are not offered, and guards lower the autonomy of their agents.

use std::sync::Arc;

use houston_domain::guard::switched_off;
use houston_tools::{Offer, SharedTool};

use super::{Setup, reply_of};

/// The setup without the tools that its guards switch off, and with the least autonomy that they allow.
pub(super) fn applied(mut setup: Setup) -> Setup {
    let autonomy = setup.guards.iter().filter_map(|layer| layer.autonomy()).min();
    setup.agent_type.autonomy =
        autonomy.map_or(setup.agent_type.autonomy, |most| most.min(setup.agent_type.autonomy));
    let facts = |tool: &SharedTool| {
        let name = &tool.definition().name;
        let facts = setup.offer_with_results.facts(name)?;
        switched_off(&setup.guards, name, facts).map(|_| (name.clone(), facts.clone()))
    };
    let off: Vec<_> = setup.offer_with_results.tools().iter().filter_map(facts).collect();
    if off.is_empty() {
        return setup;
    }
    let left = |offer: &Offer| -> Vec<String> {
        let names = offer.tools().iter().map(|tool| &tool.definition().name);
        names.filter(|name| !off.iter().any(|(other, _)| other == *name)).cloned().collect()
    };
    let (few, all) = (left(&setup.offer), left(&setup.offer_with_results));
    setup.offer_with_results = setup.offer_with_results.limited_to(&all);
    setup.offer = match setup.offer_with_results.is_searched() {
        true => setup.offer_with_results.clone(),
        false => setup.offer.limited_to(&few),
    };
    setup.policy.reply = reply_of(setup.policy.reply, &setup.offer);
    Arc::make_mut(&mut setup.off).extend(off);
    setup
}
