//! Rules between settings, and bounds of single settings. No time is longer than a hundred years: a longer one is a slip, and
//! would fit neither into the clocks of a process nor into the times of Postgres.

use std::collections::BTreeMap;
use std::sync::Arc;

use houston_domain::agentable::MAX_TITLE_CHARS;
use houston_domain::guard::{Layer, LayerKind};
use houston_llm::{Provider, profile};
use houston_web::ListedHost;
use serde_json::Value;

use super::layers::Layers;
use super::{ConfigError, Kind, ModelSelection, Settings, flatten};
use crate::environment::environment;

/// A hundred years.
const DAYS: u64 = 36_500;
/// How the names of times end, and the most that they may be.
const UNITS: [(&str, u64); 4] =
    [("_ms", DAYS * 86_400_000), ("_s", DAYS * 86_400), ("_hours", DAYS * 24), ("_days", DAYS)];

/// The key of a setting that breaks a rule, and what is allowed.
type Violation = (String, String);

/// Checks every rule.
///
/// # Errors
/// [`ConfigError::Setting`] for the first setting that breaks a rule.
pub(super) fn check(settings: &Settings, layers: &Layers) -> Result<(), ConfigError> {
    let checks = [
        times, mcp, console, cells, overseer, models, leases, least, shares, sessions, context, schedules,
        outside, rates, rest,
    ];
    let violation = checks.iter().find_map(|check| check(settings));
    violation.map_or(Ok(()), |(key, reason)| Err(layers.refuse(key, reason)))
}

/// The guards of the installation, compiled.
///
/// # Errors
/// [`ConfigError::Setting`] when a pattern or an example of a rule is wrong, or a key is missing.
pub(super) fn guards(settings: &Settings, layers: &Layers) -> Result<Arc<Layer>, ConfigError> {
    let layer = Layer::compile(LayerKind::Installation, "jobs/guards.toml", &settings.guards);
    layer.map(Arc::new).map_err(|error| layers.refuse("guards", error.to_string()))
}

fn violation(key: impl Into<String>, reason: impl Into<String>) -> Option<Violation> {
    Some((key.into(), reason.into()))
}

fn mcp(settings: &Settings) -> Option<Violation> {
    let error = settings.mcp.check().err()?;
    violation(format!("mcp.{}", error.key), error.reason)
}

fn console(settings: &Settings) -> Option<Violation> {
    let error = settings.console.check().err()?;
    violation(format!("console.{}", error.key), error.reason)
}

/// The ranges of cells, and the addresses that the environment must not have beside them.
fn cells(settings: &Settings) -> Option<Violation> {
    if !settings.has_cells() {
        return None;
    }
    if let Err(error) = settings.cells.checked() {
        return violation("cells.cells", error.to_string());
    }
    let beside =
        [("DATABASE_URL", environment("DATABASE_URL")), ("HOUSTON_REDIS_URL", settings.redis_url.clone())];
    let (name, _) = beside.into_iter().find(|(_, url)| url.as_ref().is_some_and(|url| !url.is_empty()))?;
    violation("cells.cells", format!("each cell has its own addresses: {name} must not be set beside cells"))
}

/// Rate limits.
fn rates(settings: &Settings) -> Option<Violation> {
    const DAY: u32 = 86_400;
    let rates = &settings.rates;
    let limits = [("requests", rates.requests), ("keys", rates.keys), ("tokens", rates.tokens.quota())];
    let (name, _) = limits.iter().find(|(_, limit)| !(1..=DAY).contains(&limit.window_s))?;
    violation(format!("rates.{name}.window_s"), format!("must be from 1 to {DAY}"))
}

/// Requests, the sandbox and workspaces.
fn outside(settings: &Settings) -> Option<Violation> {
    let violation_of = settings.web.violation().or_else(|| settings.sandbox.violation());
    let violation_of = violation_of.or_else(|| settings.workspaces.violation());
    let violation_of = violation_of.or_else(|| webhooks(settings));
    let violation_of = violation_of.or_else(|| settings.plans.problem().map(|problem| ("plans", problem)));
    let (key, reason) = violation_of.or_else(|| settings.triggers.violation())?;
    violation(key, reason)
}

fn webhooks(settings: &Settings) -> Option<(&'static str, String)> {
    let wrong = |url: &String| ListedHost::of(url).err().map(|refusal| format!("`{url}`: {refusal}"));
    let host = settings.webhooks.hosts.iter().find_map(wrong).map(|reason| ("webhooks.hosts", reason));
    host.or_else(|| settings.webhooks.violation())
}

/// Names of models and providers.
fn models(settings: &Settings) -> Option<Violation> {
    for (use_case, selection) in settings.models.set() {
        if let Err(reason) = selection.check() {
            return violation(format!("models.{use_case}"), reason);
        }
    }
    if let Some(Err(reason)) = settings.model.as_ref().map(|model| ModelSelection::One(model.clone()).check())
    {
        return violation("model", reason);
    }
    if let Some(pattern) = settings.models.profiles.keys().find(|pattern| !profile::is_pattern(pattern)) {
        return violation(
            format!("models.profiles.{pattern}"),
            "is not `provider/model`, with * for any characters",
        );
    }
    if let Some((name, _)) = settings.models.quality.iter().find(|(_, rank)| !(1..=100).contains(*rank)) {
        return violation(format!("models.quality.{name}"), "must be from 1 to 100");
    }
    let unknown = |name: &String| Some((name.clone(), Provider::named(name).err()?));
    let (name, error) = settings.providers.keys().find_map(unknown)?;
    violation(format!("providers.{name}"), error.message)
}

fn leases(settings: &Settings) -> Option<Violation> {
    let lease = &settings.orchestrator.lease;
    if lease.trust_s >= lease.ttl_s {
        return violation("orchestrator.lease.trust_s", format!("must be less than ttl_s ({})", lease.ttl_s));
    }
    if lease.renew_s == 0 || lease.renew_s >= lease.trust_s {
        return violation("orchestrator.lease.renew_s", "must be at least 1 and less than trust_s");
    }
    let sweep = &settings.orchestrator.sweep;
    if sweep.grace_ms <= lease.look_ms {
        let reason = format!("must be more than lease.look_ms ({})", lease.look_ms);
        return violation("orchestrator.sweep.grace_ms", reason);
    }
    if sweep.suspect_ms < sweep.grace_ms {
        let reason = format!("must be at least grace_ms ({})", sweep.grace_ms);
        return violation("orchestrator.sweep.suspect_ms", reason);
    }
    None
}

/// Thresholds of the overseer.
fn overseer(settings: &Settings) -> Option<Violation> {
    settings.overseer.mistake().map(|(key, reason)| (format!("overseer.{key}"), reason))
}

/// Settings that must be at least 1.
fn least(settings: &Settings) -> Option<Violation> {
    let orchestrator = &settings.orchestrator;
    let (limits, fairness, worker) = (&orchestrator.limits, &orchestrator.fairness, &orchestrator.worker);
    let (lease, context) = (&orchestrator.lease, &orchestrator.context);
    let (key, _) = [
        ("orchestrator.lease.look_ms", lease.look_ms),
        ("orchestrator.lease.max_crashes", u64::try_from(lease.max_crashes).unwrap_or(0)),
        ("orchestrator.lease.max_claims", u64::try_from(lease.max_claims).unwrap_or(0)),
        ("orchestrator.limits.max_iterations", u64::from(limits.max_iterations)),
        ("orchestrator.limits.max_same_tool", u64::from(limits.max_same_tool)),
        ("orchestrator.worker.slots", worker.slots as u64),
        ("orchestrator.worker.database_connections", u64::from(worker.database_connections)),
        ("orchestrator.fairness.max_running", u64::from(fairness.max_running)),
        ("orchestrator.fairness.max_pending", u64::from(fairness.max_pending)),
        ("orchestrator.fairness.read_messages", u64::from(fairness.read_messages)),
        ("orchestrator.fairness.read_bytes", u64::from(fairness.read_bytes)),
        ("orchestrator.worker.background_percent", u64::from(worker.background_percent)),
        ("orchestrator.worker.maintenance_percent", u64::from(worker.maintenance_percent)),
        ("orchestrator.context.compression.keep_turns", context.compression.keep_turns as u64),
        ("orchestrator.context.compression.summary_tokens", u64::from(context.compression.summary_tokens)),
        ("orchestrator.context.titles.after_messages", u64::from(context.titles.after_messages)),
        ("orchestrator.context.approvals.expire_after_s", context.approvals.expire_after_s),
        ("orchestrator.context.titles.read_messages", u64::from(context.titles.read_messages)),
        ("orchestrator.context.focus.wait_ms", context.focus.wait_ms),
        ("orchestrator.context.titles.batch", u64::from(context.titles.batch)),
        ("server.max_body_bytes", settings.server.max_body_bytes as u64),
        ("server.conversation.max_bytes", settings.server.conversation.max_bytes as u64),
        ("server.conversation.stats_runs", u64::from(settings.server.conversation.stats_runs)),
        ("server.conversation.stats_messages", u64::from(settings.server.conversation.stats_messages)),
        ("knowledge.max_notes", u64::from(settings.knowledge.max_notes)),
        ("knowledge.max_learnings", u64::from(settings.knowledge.max_learnings)),
        ("knowledge.max_memories", u64::from(settings.knowledge.max_memories)),
        ("knowledge.max_custom_instructions", u64::from(settings.knowledge.max_custom_instructions)),
        ("knowledge.max_feed_items", u64::from(settings.knowledge.max_feed_items)),
        ("knowledge.max_snippets", u64::from(settings.knowledge.max_snippets)),
        ("knowledge.max_profile_entries", u64::from(settings.knowledge.max_profile_entries)),
        ("knowledge.excerpt_chars", u64::try_from(settings.knowledge.excerpt_chars).unwrap_or(0)),
        ("teams.limits.agents_per_tenant", u64::from(settings.teams.limits.agents_per_tenant)),
        ("teams.limits.teams_per_tenant", u64::from(settings.teams.limits.teams_per_tenant)),
        ("teams.limits.agents_per_team", settings.teams.limits.agents_per_team as u64),
        ("teams.limits.rules_per_team", settings.teams.limits.rules_per_team as u64),
        ("teams.message_chars", settings.teams.message_chars as u64),
        ("teams.earlier_chars", settings.teams.earlier_chars as u64),
        ("teams.timeout_ms", settings.teams.timeout_ms),
        ("teams.rules.regex_bytes", settings.teams.rules.regex_bytes as u64),
        ("teams.rules.regex_chars", settings.teams.rules.regex_chars as u64),
        ("teams.rules.budget_ms", settings.teams.rules.budget_ms),
        ("teams.max_output_tokens", u64::from(settings.teams.max_output_tokens)),
    ]
    .into_iter()
    .find(|(_, value)| *value == 0)?;
    violation(key, "must be at least 1")
}

/// Shares of a worker's slots.
fn shares(settings: &Settings) -> Option<Violation> {
    let worker = &settings.orchestrator.worker;
    let connections =
        u32::from(worker.run_connections_percent) + u32::from(worker.background_connections_percent);
    if connections > 90 {
        let reason =
            "must be at most 90 together with background_connections_percent: requests need the rest";
        return violation("orchestrator.worker.run_connections_percent", reason);
    }
    let background = worker.background_percent;
    if background > 100 {
        return violation("orchestrator.worker.background_percent", "must be at most 100");
    }
    if worker.maintenance_percent > background {
        let reason = format!("must be at most background_percent ({background}), of which it is a part");
        return violation("orchestrator.worker.maintenance_percent", reason);
    }
    None
}

fn sessions(settings: &Settings) -> Option<Violation> {
    let archive = &settings.session_archive;
    let positive = |value: i64| u64::try_from(value).unwrap_or(0);
    let (key, _) = [
        ("quiet_ms", archive.quiet_ms),
        ("every_ms", archive.every_ms),
        ("batch", positive(archive.batch)),
        ("summaries_at_once", u64::from(archive.summaries_at_once)),
        ("summary_lease_s", archive.summary_lease_s),
        ("summary_input_tokens", archive.summary_input_tokens),
        ("summary_output_tokens", u64::from(archive.summary_output_tokens)),
        ("prompt_summary_chars", positive(archive.prompt_summary_chars.into())),
        ("summary_tool_chars", archive.summary_tool_chars as u64),
        ("search_sessions", positive(archive.search_sessions.into())),
        ("read_entries", u64::from(archive.read_entries)),
        ("read_chars", archive.read_chars as u64),
    ]
    .into_iter()
    .find(|(_, value)| *value == 0)?;
    violation(format!("session_archive.{key}"), "must be at least 1")
}

/// Limits of what a model is sent.
fn context(settings: &Settings) -> Option<Violation> {
    let context = &settings.orchestrator.context;
    let (budget, compression) = (&context.budget_tokens, &context.compression);
    if let Some(share) = budget.oversized_share() {
        let key = format!("orchestrator.context.budget_tokens.{share}");
        return violation(key, format!("must be at most total ({}), of which it is a part", budget.total));
    }
    if !(10..=90).contains(&compression.target_percent) {
        return violation("orchestrator.context.compression.target_percent", "must be from 10 to 90");
    }
    let summary = u64::from(compression.summary_tokens) * 4;
    if summary > budget.history {
        let reason = format!("must be at most a quarter of budget_tokens.history ({})", budget.history);
        return violation("orchestrator.context.compression.summary_tokens", reason);
    }
    if !(1..=MAX_TITLE_CHARS).contains(&context.titles.max_chars) {
        return violation(
            "orchestrator.context.titles.max_chars",
            format!("must be from 1 to {MAX_TITLE_CHARS}"),
        );
    }
    let results = &context.results;
    if results.page_bytes < 1024 || results.page_bytes + 512 > results.inline_bytes {
        let reason = format!("must be from 1024 to inline_bytes ({}) minus 512", results.inline_bytes);
        return violation("orchestrator.context.results.page_bytes", reason);
    }
    if results.beginning_bytes + 512 > results.inline_bytes {
        let reason = format!("must be at most inline_bytes ({}) minus 512", results.inline_bytes);
        return violation("orchestrator.context.results.beginning_bytes", reason);
    }
    None
}

/// Feeds, check-ins and tasks.
fn schedules(settings: &Settings) -> Option<Violation> {
    let (feed, check_in, tasks) =
        (&settings.feed_generation, &settings.agent_check_in, settings.orchestrator.tasks);
    let (limits, reach) = (check_in.limits, settings.orchestrator.reach);
    if limits.earliest >= limits.latest {
        return violation(
            "agent_check_in.limits.earliest",
            format!("must be before latest ({})", limits.latest),
        );
    }
    if limits.min_delay_s > limits.max_delay_s {
        let reason = format!("must be at most max_delay_s ({})", limits.max_delay_s);
        return violation("agent_check_in.limits.min_delay_s", reason);
    }
    let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let (key, _) = [
        ("feed_generation.poll.every_ms", whole(feed.poll.every_ms)),
        ("feed_generation.poll.batch", feed.poll.batch),
        ("feed_generation.poll.retry_after_s", whole(feed.poll.retry_after_s)),
        ("feed_generation.content.agentables", feed.content.agentables),
        ("feed_generation.content.per_agentable", feed.content.per_agentable),
        ("feed_generation.content.chars", feed.content.chars.into()),
        ("agent_check_in.poll.every_ms", whole(check_in.poll.every_ms)),
        ("agent_check_in.poll.batch", check_in.poll.batch),
        ("agent_check_in.poll.retry_after_s", whole(check_in.poll.retry_after_s)),
        ("agent_check_in.limits.max_pending", limits.max_pending),
        ("orchestrator.tasks.max_depth", tasks.max_depth.into()),
        ("orchestrator.tasks.max_open", tasks.max_open.into()),
        ("orchestrator.tasks.max_per_run", tasks.max_per_run.into()),
        ("orchestrator.tasks.note_chars", tasks.note_chars.into()),
        ("orchestrator.tasks.report_chars", tasks.report_chars.into()),
        ("orchestrator.reach.max_posts_per_run", reach.max_posts_per_run),
        ("orchestrator.reach.max_posts_per_hour", reach.max_posts_per_hour),
        ("orchestrator.reach.max_hops", reach.max_hops.into()),
        ("orchestrator.reach.max_made_per_run", reach.max_made_per_run),
        ("orchestrator.reach.max_made_per_hour", reach.max_made_per_hour),
    ]
    .into_iter()
    .find(|(_, value)| *value < 1)?;
    violation(key, "must be at least 1")
}

fn rest(settings: &Settings) -> Option<Violation> {
    let tick = settings.health_monitor.tick;
    if let Err(error) = tick.schedule() {
        return violation("health_monitor.tick.every_s", error.to_string());
    }
    if settings.health_monitor.runs.agent_message_s < 3600 {
        return violation(
            "health_monitor.runs.agent_message_s",
            "must be at least 3600: limits count an hour",
        );
    }
    if tick.batch < 1 || tick.batches < 1 {
        return violation("health_monitor.tick.batch", "must be at least 1, and batches too");
    }
    if settings.server.address.parse::<std::net::SocketAddr>().is_err() {
        return violation("server.address", "must be an address and a port, such as 127.0.0.1:8080");
    }
    None
}

/// The first time of the settings that is too long, and what is allowed.
fn times(settings: &Settings) -> Option<(String, String)> {
    too_long(String::new(), &serde_json::to_value(settings).unwrap_or_default())
}

/// Checks the times of agent types.
///
/// # Errors
/// [`ConfigError::Setting`] for the first that is too long.
pub(super) fn check_times_of_kinds(kinds: &BTreeMap<String, Kind>) -> Result<(), ConfigError> {
    for (name, Kind { agent_type, origin }) in kinds {
        let values = serde_json::to_value(agent_type).unwrap_or_default();
        if let Some((key, reason)) = too_long(format!("agents.{name}"), &values) {
            return Err(ConfigError::Setting { key, origin: origin.clone(), reason });
        }
    }
    Ok(())
}

fn too_long(prefix: String, values: &Value) -> Option<(String, String)> {
    let mut lines = Vec::new();
    flatten(prefix, values, &mut lines);
    for (key, value) in lines {
        let Some((_, most)) = UNITS.into_iter().find(|(unit, _)| key.ends_with(unit)) else { continue };
        // Whatever is no whole number is no time.
        if value.parse::<u64>().is_ok_and(|value| value > most) {
            return Some((key, format!("must be at most {most}, which is a hundred years")));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::config::load;
    use crate::config::tests::tools;

    #[test]
    fn context_settings_must_fit_each_other() {
        let folder = tempfile::tempdir().unwrap();
        for (text, parts) in [
            ("[context.budget_tokens]\nhistory = 50000", ["budget_tokens.history", "total (48000)"]),
            (
                "[context.compression]\nsummary_tokens = 9000",
                ["summary_tokens", "a quarter of budget_tokens.history"],
            ),
            ("[context.results]\npage_bytes = 16384", ["page_bytes", "inline_bytes (16384)"]),
            ("[context.titles]\nafter = 4", ["`after`", "after_messages"]),
            ("[context.titles]\nmax_chars = 201", ["titles.max_chars", "from 1 to 200"]),
        ] {
            std::fs::write(folder.path().join("orchestrator.toml"), text).unwrap();
            let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
    }

    #[test]
    fn limits_of_knowledge_and_teams_are_read_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("knowledge.toml", "max_notes = 7");
        write("teams.toml", "[limits]\nagents_per_team = 3");
        let loaded = load(Some(folder.path()), &tools()).unwrap();
        assert_eq!(loaded.settings.knowledge.max_notes, 7);
        assert_eq!(loaded.settings.teams.limits.agents_per_team, 3);
        let entries = loaded.entries();
        assert!(entries.iter().any(|entry| {
            entry.key == "knowledge.max_notes"
                && entry.value == "7"
                && entry.origin.ends_with("knowledge.toml")
        }));

        write("knowledge.toml", "max_notes = 0");
        let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
        assert!(error.contains("knowledge.max_notes") && error.contains("at least 1"), "{error}");
    }

    #[test]
    fn times_of_more_than_a_hundred_years_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        for (name, text, parts) in [
            (
                "health_monitor.toml",
                "[retention.kinds.task]\nevents_days = 36501",
                ["health_monitor.retention.kinds.task.events_days (", "at most 36500"],
            ),
            (
                "health_monitor.toml",
                "[requests]\naudit_s = 1000000000000000000",
                ["health_monitor.requests.audit_s (", "at most 3153600000"],
            ),
            ("webhooks.toml", "keep_days = 4000000000", ["webhooks.keep_days (", "at most 36500"]),
        ] {
            write(name, text);
            let error = load(Some(folder.path()), &tools()).map(drop).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
        std::fs::create_dir(folder.path().join("agents")).unwrap();
        let goal = include_str!("../../../../jobs/agents/goal.toml");
        write("agents/goal.toml", &format!("{goal}\n[limits]\nmax_duration_s = 1000000000000000000\n"));
        let error = load(Some(folder.path()), &tools()).map(drop).unwrap_err().to_string();
        assert!(
            error.contains("agents.goal.limits.max_duration_s (") && error.contains("goal.toml"),
            "{error}"
        );

        write("agents/goal.toml", goal);
        write("health_monitor.toml", "[retention]\nevents_days = 36500");
        assert!(load(Some(folder.path()), &tools()).is_ok());
    }
}
