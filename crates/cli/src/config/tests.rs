//! The built-in settings, and what is said about wrong ones.

use houston_domain::agent::token_budget::TokenBudget;
use houston_domain::knowledge::PromptLimits;
use houston_domain::team::TeamLimits;
use houston_domain::tool_result::ResultLimits;
use houston_store::Fairness;

use super::*;

pub(crate) fn tools() -> Vec<String> {
    crate::toolbox::built_in()
}

#[test]
fn built_in_settings_load() {
    let loaded = load(None, &tools()).unwrap();
    assert_eq!(loaded.settings.orchestrator.limits, Limits::USUAL);
    assert_eq!(loaded.kinds.len(), 5);
    assert!(loaded.kinds["goal"].agent_type.conversational);
    let context = loaded.settings.orchestrator.context;
    assert_eq!(context.prompt, PromptLimits::default());
    assert_eq!(context.budget_tokens, TokenBudget::default());
    assert_eq!(context.results, ResultLimits::default());
    assert_eq!(loaded.settings.teams.limits, TeamLimits::default());
    assert_eq!(loaded.settings.knowledge, KnowledgeLimits::default());
    for (kind, Kind { agent_type, .. }) in &loaded.kinds {
        assert_eq!(context.budget_tokens.with(agent_type.budget_tokens).oversized_share(), None, "{kind}");
    }
    // An application that posts with SQL alone gets these defaults.
    assert_eq!(loaded.settings.orchestrator.fairness, Fairness::default());
    assert!(loaded.entries().iter().any(|entry| {
        entry.key == "orchestrator.lease.ttl_s"
            && entry.value == "30"
            && entry.origin == "jobs/orchestrator.toml"
    }));
}

#[test]
fn invalid_setting_names_its_key_file_and_allowed_values() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("orchestrator.toml", "[limits]\nmax_iteration = 3");
    let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
    assert!(error.contains("max_iteration") && error.contains("orchestrator.toml"), "{error}");
    assert!(error.contains("max_iterations"), "{error}");

    write("orchestrator.toml", "[limits]\nmax_iterations = \"many\"");
    let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
    assert!(error.contains("orchestrator.limits.max_iterations") && error.contains("many"), "{error}");

    write("orchestrator.toml", "[lease]\ntrust_s = 40");
    let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
    assert!(error.contains("trust_s") && error.contains("less than ttl_s (30)"), "{error}");
}

#[test]
fn one_file_adds_a_kind() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("agents")).unwrap();
    let file = folder.path().join("agents/project.toml");
    let text = kinds::BUILT_IN[0].1.replace("kind = \"goal\"", "kind = \"project\"");
    std::fs::write(&file, &text).unwrap();
    let loaded = load(Some(folder.path()), &tools()).unwrap();
    let origin = file.display().to_string();
    let entry = Entry { key: "agents.project.conversational".into(), value: "true".into(), origin };
    assert!(loaded.entries().contains(&entry));
    assert_eq!(loaded.first_kind().unwrap().kind, "goal", "a new kind does not replace the default one");

    std::fs::write(&file, text.replace("archives", "archive")).unwrap();
    let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
    assert!(error.contains("project.toml: line 4, column 1") && error.contains("`archives`?"), "{error}");
}

#[test]
fn rate_limits_are_on_unless_it_is_a_machine_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut usual = load(Some(folder.path()), &tools()).unwrap();
    assert_eq!(usual.settings.rates, RateLimits::USUAL);
    usual.without_usual_rates();
    assert!(!usual.settings.rates.limit_requests());
    std::fs::write(folder.path().join("rates.toml"), "[requests]\nquota = 5").unwrap();
    let mut set = load(Some(folder.path()), &tools()).unwrap();
    set.without_usual_rates();
    let rates = set.settings.rates;
    assert_eq!((rates.requests.quota, rates.tokens.quota), (5, 0), "what is set holds");
    std::fs::write(folder.path().join("rates.toml"), "[tokens]\nwindow_s = 0").unwrap();
    let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
    assert!(error.contains("rates.tokens.window_s") && error.contains("86400"), "{error}");
}

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
        entry.key == "knowledge.max_notes" && entry.value == "7" && entry.origin.ends_with("knowledge.toml")
    }));

    write("knowledge.toml", "max_notes = 0");
    let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
    assert!(error.contains("knowledge.max_notes") && error.contains("at least 1"), "{error}");
    write("knowledge.toml", "");
    write("orchestrator.toml", "[sweep]\nevery_ms = 0");
    let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
    assert!(error.contains("orchestrator.sweep.every_ms") && error.contains("at least 1"), "{error}");
}
