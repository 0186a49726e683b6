//! Trying the rules of teams. Tenants write them, and regular expressions take CPU time that nothing can interrupt: so
//! they run on threads of their own, few at once, and stop between two rules when the budget of the message is spent.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::{AgentId, TeamId};
use houston_domain::team::{Rule, RuleLimits, Rules};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Semaphore;

use crate::agents::Kept;

/// Messages whose rules are tried at once in this process; others wait their turn.
const AT_ONCE: usize = 2;

/// Tries rules, and keeps those that are compiled.
pub(crate) struct RuleRunner {
    /// Each of one version of its team.
    compiled: Arc<Kept<TeamId, (i64, Arc<Rules>)>>,
    turns: Arc<Semaphore>,
}

impl Default for RuleRunner {
    fn default() -> Self {
        Self { compiled: Arc::new(Kept::new()), turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl RuleRunner {
    /// The first rule of a team that holds for `message` and whose agent is among `enabled`: its index from 0, and the
    /// agent. `version` is the team's.
    ///
    /// # Errors
    /// Why there is none, for people: no rule holds, one cannot be compiled, or the budget was spent.
    pub(crate) async fn pick(
        &self,
        (team, version): (TeamId, i64),
        rules: &[Rule],
        enabled: HashSet<AgentId>,
        message: String,
        limits: RuleLimits,
    ) -> Result<(usize, AgentId), String> {
        let compiled = Arc::clone(&self.compiled);
        let known = compiled.get(&team, |(known, _)| *known == version).map(|(_, rules)| rules);
        let source = if known.is_some() { Vec::new() } else { rules.to_vec() };
        // It is never closed. The thread keeps the turn, also when nobody waits for it any more.
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
        let trying = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let rules = match known {
                Some(rules) => rules,
                None => {
                    let rules = Rules::new(&source, &limits).map(Arc::new);
                    let rules = rules.map_err(|(index, invalid)| {
                        format!("rule {} cannot be used: {invalid}", index + 1)
                    })?;
                    compiled.put(team, (version, Arc::clone(&rules)));
                    rules
                }
            };
            let (began, budget) = (cpu_time(), Duration::from_millis(limits.budget_ms));
            let is_spent = || cpu_time().saturating_sub(began) >= budget;
            let found = rules.pick(&message, |agent| enabled.contains(&agent), is_spent);
            found
                .map_err(|spent| {
                    format!("the first {} rules took longer than {} ms", spent.tried, limits.budget_ms)
                })?
                .ok_or_else(|| "no rule holds".to_owned())
        });
        trying.await.unwrap_or_else(|_| Err("the rules could not be tried".to_owned()))
    }
}

/// What this thread has computed so far. Not wall-clock time: which agent answers must not depend on what else the
/// machine does.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use houston_domain::team::Condition;

    use super::*;

    const AGENT: AgentId = AgentId(uuid::Uuid::from_u128(1));

    /// Tries 49 rules of this pattern, and one that holds, on a long message.
    async fn pick(pattern: &str) -> Result<(usize, AgentId), String> {
        let rule = |pattern: &str| Rule {
            when: Condition { regex: Some(pattern.to_owned()), ..Condition::default() },
            agent_id: AGENT,
        };
        let mut rules = vec![rule(pattern); 49];
        rules.push(rule("a"));
        let team = (TeamId(uuid::Uuid::from_u128(2)), 1);
        let limits = RuleLimits::default();
        RuleRunner::default().pick(team, &rules, HashSet::from([AGENT]), "a".repeat(8_000), limits).await
    }

    /// The test's thread is the runtime's only one: what others compute does not count here.
    #[tokio::test]
    async fn slow_rules_use_up_their_budget_off_the_runtime() {
        let before = cpu_time();
        let why = pick("(?-i)(?:[ab]?[ac]?[ad]?){0,100}Z$").await.unwrap_err();
        let here = cpu_time().saturating_sub(before);
        assert!(why.contains("rules took longer than 50 ms"), "{why}");
        assert!(here < Duration::from_millis(50), "{here:?} on the runtime");
    }

    #[tokio::test]
    async fn fifty_usual_rules_are_all_tried() {
        assert_eq!(pick("^/cook\\b").await, Ok((49, AGENT)));
    }
}
