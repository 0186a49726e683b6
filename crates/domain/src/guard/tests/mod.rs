//! Tests of whole decisions.

mod explained;
mod layers;
mod sensitive;
mod settings;
mod shipped;
mod steps;
mod tables;
mod values;

use std::sync::Arc;

use serde_json::Value;

use super::{
    Call, Category, Decision, GuardSettings, Intent, Layer, LayerKind, Level, Risk, Ruling, Situation,
    ToolFacts, Verdict, decide,
};
use crate::autonomy::Autonomy;

/// An installation that restricts little, so that each test adds what it is about.
const OPEN: &str = r#"
    level = "admin"
    categories = ["agent", "memory", "file_read", "file_write", "file_delete", "code_execute", "network_read",
                  "network_write", "system", "custom"]
    paths = []
    hosts = []
    sensitive = []
    denied = []
    allowed = []
    intents = "off"
    unattended = "ask"
    profile = "balanced"
"#;

/// Compiles one layer; of the installation, the keys of `toml` come in place of those of [`OPEN`].
fn layer(kind: LayerKind, toml: &str) -> Arc<Layer> {
    let text = if kind == LayerKind::Installation {
        let mut keys: toml::Table = OPEN.parse().unwrap();
        keys.extend(toml.parse::<toml::Table>().unwrap());
        keys.to_string()
    } else {
        toml.to_owned()
    };
    let settings = GuardSettings::from_toml(kind, &text).unwrap();
    Arc::new(Layer::compile(kind, kind.as_str(), &settings).unwrap())
}

/// An installation, and below it the other layers.
fn layers(installation: &str, lower: &[(LayerKind, &str)]) -> Vec<Arc<Layer>> {
    let lower = lower.iter().map(|(kind, toml)| layer(*kind, toml));
    std::iter::once(layer(LayerKind::Installation, installation)).chain(lower).collect()
}

fn facts(level: Level, category: Category, risk: Risk) -> ToolFacts {
    ToolFacts {
        level,
        category,
        risk,
        path_at: vec!["/path".into()],
        host_at: vec!["/url".into()],
        sends_out: risk == Risk::External,
        ..ToolFacts::default()
    }
}

/// Some tools, by name.
fn tool(name: &str) -> Option<ToolFacts> {
    let mut facts = match name {
        "read_file" => facts(Level::Read, Category::FileRead, Risk::Read),
        "write_file" => facts(Level::Write, Category::FileWrite, Risk::Write),
        "delete_file" => facts(Level::Write, Category::FileDelete, Risk::Destructive),
        "fetch_page" => facts(Level::Read, Category::NetworkRead, Risk::Read),
        "send_email" | "github__create_issue" => facts(Level::Write, Category::NetworkWrite, Risk::External),
        "github__delete_repo" => facts(Level::Write, Category::NetworkWrite, Risk::Destructive),
        "run_code" => facts(Level::Execute, Category::CodeExecute, Risk::Exec),
        "run_shell" => facts(Level::Execute, Category::System, Risk::Exec),
        "send_message" => ToolFacts { reply: true, ..facts(Level::Write, Category::Agent, Risk::Write) },
        "server__mystery" => ToolFacts::foreign(),
        _ => return None,
    };
    if !matches!(name, "read_file" | "write_file" | "delete_file") {
        facts.path_at.clear();
    }
    if name != "fetch_page" {
        facts.host_at.clear();
    }
    Some(facts)
}

/// The verdict about a call of one of the tools.
fn judge(layers: &[Arc<Layer>], name: &str, input: &Value, situation: &Situation<'_>) -> Verdict {
    let facts = tool(name);
    let call = Call { tool: name, facts: facts.as_ref(), input, pin: None, pin_changed: false };
    decide(layers, &call, situation)
}

/// `ask each time, external, by tenant rule 1: x`.
fn summary(verdict: &Verdict) -> String {
    let by = verdict.by.layer.map(|layer| format!("{layer} ")).unwrap_or_default();
    assert_eq!(verdict.by.decision, ruling(verdict));
    let decision = match &verdict.decision {
        Decision::Allow => "allow".to_owned(),
        Decision::Ask { risk, lasting, why } => {
            assert!(!why.is_empty());
            format!("ask{}, {}", if *lasting { "" } else { " each time" }, risk.as_str())
        }
        Decision::Deny { code, why } => {
            assert!(!why.is_empty());
            format!("deny {}", serde_json::to_value(code).unwrap().as_str().unwrap())
        }
    };
    format!("{decision}, by {by}{}", verdict.by.rule)
}

fn ruling(verdict: &Verdict) -> Ruling {
    match verdict.decision {
        Decision::Allow => Ruling::Allow,
        Decision::Ask { .. } => Ruling::Ask,
        Decision::Deny { .. } => Ruling::Deny,
    }
}

fn intent(risk: Option<Risk>) -> Intent {
    Intent { tool: "any".into(), risk, why: "because".into() }
}

fn full() -> Situation<'static> {
    Situation::new(Autonomy::Full)
}
