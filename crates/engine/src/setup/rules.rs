//! Evaluating the rules of teams. Tenants write them, and matching a regular expression cannot be interrupted. So evaluation
//! stops between two rules when the time budget is used up.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::{AgentId, TeamId, TenantId};
use houston_domain::team::{Rule, RuleLimits, Rules};
use rustix::time::{ClockId, clock_gettime};

use crate::setup::cache::{Cache, MAX_CACHED};

/// Whose rules they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RulesOf {
    pub(crate) tenant: TenantId,
    pub(crate) team: TeamId,
    /// The team's.
    pub(crate) version: i64,
}

/// Evaluates rules and caches their compiled form.
pub(crate) struct RuleRunner {
    /// With the version of the team that they were compiled from.
    compiled: Arc<Cache<TeamId, (i64, Arc<Rules>)>>,
}

impl Default for RuleRunner {
    fn default() -> Self {
        Self { compiled: Arc::new(Cache::of(MAX_CACHED)) }
    }
}

impl RuleRunner {
    /// The first rule of a team that holds for `message` and whose agent is among `enabled`: its index from 0, and the
    /// agent.
    ///
    /// # Errors
    /// The reason, for people, why no rule picked: none matches, one cannot be compiled, or the time budget is used up.
    pub(crate) async fn pick(
        &self,
        RulesOf { tenant, team, version }: RulesOf,
        rules: &[Rule],
        enabled: HashSet<AgentId>,
        message: String,
        limits: RuleLimits,
    ) -> Result<(usize, AgentId), String> {
        let compiled = Arc::clone(&self.compiled);
        let cached = compiled.get(&team, |(cached, _)| *cached == version).map(|(_, rules)| rules);
        let source = if cached.is_some() { Vec::new() } else { rules.to_vec() };
        let evaluation = houston_meter::compute(tenant.0, move || {
            let rules = match cached {
                Some(rules) => rules,
                None => {
                    let rules = Rules::new(&source, &limits).map(Arc::new);
                    let rules = rules.map_err(|(index, invalid)| {
                        format!("rule {} cannot be used: {}", index + 1, invalid.reason)
                    })?;
                    compiled.put(team, (version, Arc::clone(&rules)), 1);
                    rules
                }
            };
            let (began, budget) = (cpu_time(), Duration::from_millis(limits.budget_ms));
            let is_spent = || cpu_time().saturating_sub(began) >= budget;
            let found = rules.pick(&message, |agent| enabled.contains(&agent), is_spent);
            found
                .map_err(|tried| format!("the first {tried} rules took longer than {} ms", limits.budget_ms))?
                .ok_or_else(|| "no rule holds".to_owned())
        });
        evaluation.await.unwrap_or_else(|_| Err("the rules could not be evaluated".to_owned()))
    }
}

/// CPU time of this thread. Not wall-clock time, because the pick must not depend on the load of the machine.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use houston_domain::team::Condition;

    use super::*;

    const AGENT: AgentId = AgentId(uuid::Uuid::from_u128(1));

    /// Evaluates 49 rules with this pattern and one that matches, on a long message.
    async fn pick(pattern: &str) -> Result<(usize, AgentId), String> {
        let rule = |pattern: &str| Rule {
            when: Condition { regex: Some(pattern.to_owned()), ..Condition::default() },
            agent_id: AGENT,
        };
        let mut rules = vec![rule(pattern); 49];
        rules.push(rule("a"));
        let (tenant, team) = (TenantId(uuid::Uuid::from_u128(3)), TeamId(uuid::Uuid::from_u128(2)));
        let team = RulesOf { tenant, team, version: 1 };
        let limits = RuleLimits::default();
        RuleRunner::default().pick(team, &rules, HashSet::from([AGENT]), message(), limits).await
    }

    /// 8,000 letters `a` and `b` in no order: an automaton for a slow pattern meets a new state with each.
    fn message() -> String {
        let mut state = 1_u32;
        let letter = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if state >> 31 == 0 { 'a' } else { 'b' }
        };
        (0..8_000).map(letter).collect()
    }

    /// The runtime has one thread, so the CPU time of other threads is not measured.
    #[tokio::test]
    async fn slow_rules_use_up_their_budget_off_the_runtime() {
        let before = cpu_time();
        let why = pick("(?-i)a[ab]{250}[^ab]").await.unwrap_err();
        let here = cpu_time().saturating_sub(before);
        assert!(why.contains("rules took longer than 50 ms"), "{why}");
        assert!(here < Duration::from_millis(50), "{here:?} on the runtime");
    }

    #[tokio::test]
    async fn fifty_usual_rules_are_all_tried() {
        assert_eq!(pick("^/cook\\b").await, Ok((49, AGENT)));
    }
}
