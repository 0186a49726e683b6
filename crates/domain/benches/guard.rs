//! Time of a decision with 5 layers of 50 rules each: `cargo bench -p houston-domain`.
//!
//! In `few_match`, the patterns of tools sort out most rules; in `all_match`, each rule is about the tool, and its
//! condition is compared with the arguments.

#![expect(clippy::expect_used, reason = "a benchmark may panic")]

use std::sync::Arc;

use divan::{Bencher, black_box};
use houston_domain::autonomy::Autonomy;
use houston_domain::guard::{
    Call, GuardSettings, Layer, LayerKind, Risk, Situation, ToolFacts, decide, explain,
};
use houston_domain::tool_call::EffectClass;
use serde_json::{Value, json};

const RULES: usize = 50;

fn main() {
    divan::main();
}

fn settings(tool: impl Fn(usize) -> String) -> GuardSettings {
    let mut settings =
        GuardSettings::from_toml(LayerKind::Installation, include_str!("../../../jobs/guards.toml"))
            .expect("the file is right");
    let patterns = |list: &[&str]| Some(list.iter().map(|text| (*text).to_owned()).collect());
    settings.paths = patterns(&["**", "src/**", "docs/*.md"]);
    settings.hosts = patterns(&["*.example.com", "api.*.example.org"]);
    settings.denied = patterns(&["*__delete_*", "run_shell"]);
    settings.rule = (0..RULES)
        .map(|nth| {
            serde_json::from_value(json!({
                "tool": tool(nth), "decide": if nth % 2 == 0 { "ask" } else { "allow" }, "why": "a rule",
                "when": {"/path": format!("team{nth}/*"), "/title": format!("*word{nth}*")},
            }))
            .expect("the rule is right")
        })
        .collect();
    settings
}

fn layers(tool: impl Fn(usize) -> String) -> Vec<Arc<Layer>> {
    let mut settings = settings(tool);
    LayerKind::ALL[..5]
        .iter()
        .map(|kind| {
            let layer = Arc::new(Layer::compile(*kind, "bench", &settings).expect("the settings are right"));
            settings.tools.clear();
            layer
        })
        .collect()
}

fn facts() -> ToolFacts {
    ToolFacts {
        risk: Risk::External,
        path_at: vec!["/path".to_owned()],
        host_at: vec!["/url".to_owned()],
        rate_per_min: Some(60),
        sends_out: true,
        ..ToolFacts::of_effect(EffectClass::Effect)
    }
}

fn input() -> Value {
    json!({"path": "src/a/../b/main.rs", "url": "https://www.example.com/a?b=c", "title": "The words of a usual title",
           "body": "Some sentences that no pattern is compared with. ".repeat(20)})
}

fn bench(bencher: Bencher<'_, '_>, layers: &[Arc<Layer>]) {
    let (facts, input) = (facts(), input());
    let call = Call {
        tool: "server17__create_issue",
        facts: Some(&facts),
        input: &input,
        pin: None,
        pin_changed: false,
    };
    let situation = Situation::new(Autonomy::High);
    bencher.bench(|| decide(black_box(layers), black_box(&call), black_box(&situation)));
}

#[divan::bench]
fn few_match(bencher: Bencher<'_, '_>) {
    bench(bencher, &layers(|nth| format!("server{nth}__*")));
}

#[divan::bench]
fn all_match(bencher: Bencher<'_, '_>) {
    bench(bencher, &layers(|_| "*__create_*".to_owned()));
}

#[divan::bench]
fn explained(bencher: Bencher<'_, '_>) {
    let (layers, facts, input) = (layers(|nth| format!("server{nth}__*")), facts(), input());
    let call = Call {
        tool: "server17__create_issue",
        facts: Some(&facts),
        input: &input,
        pin: None,
        pin_changed: false,
    };
    let situation = Situation::new(Autonomy::High);
    bencher.bench(|| explain(black_box(&layers), black_box(&call), black_box(&situation)));
}

#[divan::bench]
fn compile_a_layer(bencher: Bencher<'_, '_>) {
    let settings = settings(|nth| format!("server{nth}__*"));
    bencher.bench(|| Layer::compile(LayerKind::Installation, "bench", black_box(&settings)));
}
