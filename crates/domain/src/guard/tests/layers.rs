//! Random layers: a lower one only tightens.

use proptest::prelude::*;
use serde_json::json;

use super::super::{
    CompiledGrant, Grant, Intents, Profile, ProfileName, ProfileTable, RuleSettings, ToolSettings,
    Unattended, explain,
};
use super::*;

const TOOLS: [&str; 8] = [
    "read_file",
    "write_file",
    "delete_file",
    "fetch_page",
    "send_email",
    "run_code",
    "server__mystery",
    "send_message",
];

fn some_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = Vec<T>> + use<T> {
    prop::sample::subsequence(values.to_vec(), 0..=values.len())
}

fn patterns(values: &[&str]) -> impl Strategy<Value = Vec<String>> + use<> {
    some_of(&values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
}

fn one<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

fn ruling_of() -> impl Strategy<Value = Ruling> {
    prop_oneof![4 => Just(Ruling::Allow), 4 => Just(Ruling::Ask), 1 => Just(Ruling::Deny)]
}

/// Mostly `open`: if each setting restricted something, nearly all calls would be denied.
fn mostly<T: Clone + std::fmt::Debug + 'static>(
    open: T,
    other: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<T> {
    prop_oneof![7 => Just(open), 1 => other].boxed()
}

fn profile(is_whole: bool) -> impl Strategy<Value = Profile> {
    let cell = move || {
        if is_whole { ruling_of().prop_map(Some).boxed() } else { prop::option::of(ruling_of()).boxed() }
    };
    let table =
        (cell(), cell(), cell(), cell(), cell()).prop_map(|(read, write, external, exec, destructive)| {
            Profile::Table(ProfileTable { read, write, external, exec, destructive })
        });
    let names = [ProfileName::Permissive, ProfileName::Balanced, ProfileName::Strict];
    prop_oneof![one(&names).prop_map(Profile::Named), table]
}

fn rule() -> impl Strategy<Value = RuleSettings> {
    let when = one(&[vec![], vec![("/path", "src/*")], vec![("/path", "*env*")], vec![("/url", "*evil*")]]);
    let tool = one(&["*", "read_*", "send_email", "server__*", "write_file"]);
    (tool, when, ruling_of(), any::<bool>()).prop_map(|(tool, when, decide, always)| RuleSettings {
        tool: tool.to_owned(),
        when: when.into_iter().map(|(at, glob)| (at.to_owned(), glob.to_owned())).collect(),
        decide,
        why: "a rule".into(),
        always: always && decide == Ruling::Ask,
        examples: vec![],
        counterexamples: vec![],
    })
}

fn tool_settings(is_top: bool) -> impl Strategy<Value = ToolSettings> {
    let bools = || prop::option::of(any::<bool>());
    (
        mostly(None, prop::option::of(one(&Level::ALL))),
        prop::option::of(one(&Category::ALL)),
        prop::option::of(one(&Risk::ALL)),
        prop::option::of(patterns(&["path", "/url"])),
        (bools(), bools(), bools()),
        mostly(None, prop::option::of(0..6_u32)),
    )
        .prop_map(
            move |(level, category, risk, path_at, (reads_private, sends_out, reply), rate_per_min)| {
                ToolSettings {
                    level,
                    category: category.filter(|_| is_top),
                    risk,
                    host_at: path_at.clone(),
                    folder_at: path_at.clone(),
                    path_at,
                    reads_private,
                    untrusted_output: reads_private,
                    sends_out,
                    reply: reply.filter(|_| is_top),
                    rate_per_min,
                    limits: [("limit".to_owned(), 5.into())].into(),
                }
            },
        )
}

fn settings(is_top: bool) -> impl Strategy<Value = GuardSettings> {
    // Lower layers leave keys out.
    let kept = move |keys: u16, nth: u16| is_top || keys & (1 << nth) != 0;
    let lists = (
        mostly(Category::ALL.to_vec(), some_of(&Category::ALL)),
        mostly(vec![], patterns(&["**", "src/**", "*"])),
        mostly(vec![], patterns(&["*", "*.example.com"])),
        patterns(&[".env*", "*"]),
        mostly(vec![], patterns(&["send_email", "*__*"])),
        patterns(&["run_*", "*"]),
    );
    let words = (
        mostly(Level::Admin, one(&Level::ALL)),
        mostly(Intents::Off, Just(Intents::Required)),
        mostly(Unattended::Ask, Just(Unattended::Deny)),
        profile(is_top),
    );
    let tables = (
        prop::collection::vec(rule(), 0..4),
        prop::collection::btree_map(one(&TOOLS.map(str::to_owned)), tool_settings(is_top), 0..4),
    );
    (any::<u16>(), lists, words, tables).prop_map(move |(keys, lists, words, tables)| {
        let (categories, paths, hosts, sensitive, denied, allowed) = lists;
        let (level, intents, unattended, profile) = words;
        GuardSettings {
            level: kept(keys, 0).then_some(level),
            categories: kept(keys, 1).then_some(categories),
            paths: kept(keys, 2).then_some(paths),
            hosts: kept(keys, 3).then_some(hosts),
            sensitive: kept(keys, 4).then_some(sensitive),
            denied: kept(keys, 5).then_some(denied),
            allowed: kept(keys, 6).then_some(allowed),
            // What it lowers is lowered before a call is judged.
            autonomy: None,
            intents: kept(keys, 7).then_some(intents),
            unattended: kept(keys, 8).then_some(unattended),
            profile: kept(keys, 9).then_some(profile),
            rule: tables.0,
            tools: tables.1,
        }
    })
}

fn compiled(kind: LayerKind, settings: &GuardSettings) -> Arc<Layer> {
    Arc::new(Layer::compile(kind, "random", settings).unwrap())
}

#[derive(Debug, Clone)]
struct Circumstances {
    tool: &'static str,
    input: Value,
    autonomy: Autonomy,
    intent: Option<Intent>,
    flags: [bool; 4],
    calls: u32,
    grants: Vec<Grant>,
}

fn circumstances() -> impl Strategy<Value = Circumstances> {
    let input = one(&[
        json!({}),
        json!({"path": "src/a", "url": "https://a.example.com"}),
        json!({"path": "a/../.ENV", "url": "https://evil.example"}),
        json!({"path": ["src/a", "../b"]}),
    ]);
    let grants = one(&[
        vec![],
        vec![json!({"tool": "*"})],
        vec![json!({"tool": "send_email", "when": {"/path": {"glob": "src/*"}}})],
    ]);
    let claim = prop::option::of(prop::option::of(one(&Risk::ALL)));
    (one(&TOOLS), input, one(&Autonomy::ALL), claim, any::<[bool; 4]>(), mostly(1, 0..6_u32), grants)
        .prop_map(|(tool, input, autonomy, claim, flags, calls, grants)| Circumstances {
            tool,
            input,
            autonomy,
            intent: claim.map(intent),
            flags,
            calls,
            grants: grants.into_iter().map(|grant| serde_json::from_value(grant).unwrap()).collect(),
        })
}

impl Circumstances {
    fn with<R>(&self, judged: impl FnOnce(&Call<'_>, &Situation<'_>) -> R) -> R {
        let grants: Vec<CompiledGrant> =
            self.grants.iter().map(|grant| grant.compile(LayerKind::User).unwrap()).collect();
        let [untrusted_read, private_read, unattended, pin_changed] = self.flags;
        let facts = tool(self.tool);
        let pin_changed = pin_changed && self.calls == 0;
        let call =
            Call { tool: self.tool, facts: facts.as_ref(), input: &self.input, pin: None, pin_changed };
        let situation = Situation {
            autonomy: self.autonomy,
            calls_last_minute: self.calls,
            untrusted_read,
            user_texts: &[],
            private_read,
            intent: self.intent.as_ref(),
            grants: &grants,
            unattended,
        };
        judged(&call, &situation)
    }
}

/// How strict a verdict is: of questions, those without a lasting yes are stricter.
fn strictness(verdict: &Verdict) -> (Ruling, bool) {
    (ruling(verdict), matches!(verdict.decision, Decision::Ask { lasting: false, .. }))
}

proptest! {
    #[test]
    fn a_lower_layer_never_makes_a_verdict_less_strict(
        top in settings(true),
        lower in prop::collection::vec((one(&LayerKind::ALL[1..]), settings(false)), 1..4),
        circumstances in circumstances(),
    ) {
        let mut layers = vec![compiled(LayerKind::Installation, &top)];
        let mut before = circumstances.with(|call, situation| decide(&layers, call, situation));
        for (kind, settings) in &lower {
            layers.push(compiled(*kind, settings));
            let after = circumstances.with(|call, situation| decide(&layers, call, situation));
            prop_assert!(strictness(&after) >= strictness(&before), "{before:?} became {after:?}");
            before = after;
        }
    }

    #[test]
    fn a_claimed_risk_never_makes_a_verdict_less_strict(
        top in settings(true),
        lower in settings(false),
        circumstances in circumstances(),
        claim in one(&Risk::ALL),
    ) {
        let layers = [compiled(LayerKind::Installation, &top), compiled(LayerKind::Tenant, &lower)];
        let claims = |risk| Circumstances { intent: Some(intent(risk)), ..circumstances.clone() };
        let [without, with] = [claims(None), claims(Some(claim))]
            .map(|circumstances| circumstances.with(|call, situation| decide(&layers, call, situation)));
        prop_assert!(strictness(&with) >= strictness(&without), "{without:?} became {with:?}");
    }

    #[test]
    fn explanations_have_the_verdict_and_its_steps_in_order(
        top in settings(true),
        lower in settings(false),
        circumstances in circumstances(),
    ) {
        let layers = [compiled(LayerKind::Installation, &top), compiled(LayerKind::Tenant, &lower)];
        circumstances.with(|call, situation| {
            let verdict = decide(&layers, call, situation);
            let explanation = explain(&layers, call, situation);
            prop_assert_eq!(&explanation.verdict, &verdict);
            use super::super::{Outcome, Step};
            // Level and category are looked at layer by layer, and so are paths and sensitive names, path by path.
            let group = |step: Step| match step {
                Step::Allowed | Step::Category => Step::Level,
                Step::Sensitive => Step::Path,
                step => step,
            };
            prop_assert!(explanation.steps.iter().map(|step| group(step.step)).is_sorted());
            let has = |outcome| explanation.steps.iter().any(|step| step.outcome == outcome);
            let last = explanation.steps.last().map(|step| step.outcome);
            prop_assert_eq!(last == Some(Outcome::Deny), ruling(&verdict) == Ruling::Deny);
            prop_assert!(ruling(&verdict) != Ruling::Ask || has(Outcome::Ask));
            Ok(())
        })?;
    }

    #[test]
    fn the_reply_always_passes(top in settings(true), lower in settings(false), mut circumstances in circumstances()) {
        circumstances.tool = "send_message";
        let mut top = top;
        top.tools.remove("send_message");
        let layers = [compiled(LayerKind::Installation, &top), compiled(LayerKind::User, &lower)];
        let verdict = circumstances.with(|call, situation| decide(&layers, call, situation));
        prop_assert_eq!(ruling(&verdict), Ruling::Allow);
    }

    #[test]
    fn settings_survive_being_stored(settings in settings(true)) {
        let stored = serde_json::to_string(&settings).unwrap();
        prop_assert_eq!(serde_json::from_str::<GuardSettings>(&stored).unwrap(), settings.clone());
        let stored = toml::to_string(&settings).unwrap();
        prop_assert_eq!(GuardSettings::from_toml(LayerKind::Installation, &stored).unwrap(), settings);
    }
}
