//! The kinds of agentables: what each is, its tools and limits, and its agents.

use askama::Template;
use chrono::TimeDelta;
use houston_domain::agent::limits::{Limit, Limits};
use houston_protocol::kind::{KindResponse, KindsResponse};

use crate::failure::{Answer, html};
use crate::shell::{KINDS, Shell};
use crate::show::{self, Fact, fact};
use crate::viewer::Viewer;

#[derive(Template)]
#[template(path = "kinds.html")]
struct Kinds {
    shell: Shell,
    kinds: Vec<KindResponse>,
}

/// `GET {prefix}/kinds`.
pub(crate) async fn show(viewer: Viewer) -> Answer {
    let all: KindsResponse = viewer.api.get("/v1/kinds").await?;
    Ok(html(&Kinds { shell: viewer.shell(KINDS, "Kinds"), kinds: all.data }))
}

fn facts(of: &KindResponse) -> Vec<Fact> {
    let created_by = match of.created_by.as_str() {
        "user" => "one together with each user",
        "agents" => "by agents only",
        _ => "by clients of the API",
    };
    let mut facts = vec![
        fact("Talks with a user", if of.conversational { "yes" } else { "no" }),
        fact("Created", created_by),
        fact("Lane", of.lane.as_str()),
        fact("Statuses", of.statuses.join(", ")),
        fact("Creates tasks of", of.creates.join(", ")),
        fact("Model by default", format!("that of {}", of.use_case)),
    ];
    let limits = Limits::ALL.iter().zip(of.limits.values());
    facts.extend(limits.map(|(limit, value)| fact(limit.label, shown(limit, value))));
    facts
}

fn shown(limit: &Limit, value: u64) -> String {
    match value {
        0 if limit.is_optional => "no limit".to_owned(),
        seconds if limit.name.ends_with("_s") => {
            let seconds = i64::try_from(seconds).ok().and_then(TimeDelta::try_seconds);
            show::took(seconds.unwrap_or(TimeDelta::MAX))
        }
        count => show::count(count),
    }
}

/// `3 agents`, `3 agents, 2 of them enabled`.
fn agents(all: i64, enabled: i64) -> String {
    let named = if all == 1 { "1 agent".to_owned() } else { format!("{all} agents") };
    if enabled == all { named } else { format!("{named}, {enabled} of them enabled") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kind_says_its_limits_and_how_many_agents_it_has() {
        let task: KindResponse = serde_json::from_value(json!({
            "kind": "task", "role": "You do one task.", "conversational": false, "created_by": "agents",
            "lane": "background", "statuses": [], "tools": ["run_code"], "creates": [], "use_case": "agent",
            "limits": {"max_iterations": 1200, "max_same_tool": 5, "max_duration_s": 200, "max_history_entries": 0,
                       "max_output_tokens": 4000},
            "agents": 3, "enabled_agents": 2, "default_agent_id": null,
        }))
        .unwrap();
        let facts = facts(&task);
        let value = |name: &str| facts.iter().find(|fact| fact.name == name).unwrap().value.clone();
        assert_eq!(
            (value("Created"), value("Model calls of a run")),
            ("by agents only".into(), "1,200".into())
        );
        assert_eq!(
            (value("Time of an attempt"), value("Entries of a session")),
            ("3 min 20 s".into(), "no limit".into())
        );
        assert_eq!((agents(3, 2), agents(1, 1)), ("3 agents, 2 of them enabled".into(), "1 agent".into()));
    }
}
