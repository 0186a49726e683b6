use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Generate;

use super::*;

fn description(name: &str) -> Description {
    Description { provider: "acme".into(), model: name.into(), simulated: false, supports_tools: true }
}

fn candidate(name: &str) -> Candidate {
    Candidate {
        description: description(name),
        capabilities: Capabilities::default(),
        rates: None,
        quality: UNRANKED,
    }
}

fn priced(name: &str, input: i64, output: i64, quality: u8) -> Candidate {
    let rates = Some(Rates { input: Decimal::new(input, 2), output: Decimal::new(output, 2) });
    Candidate { rates, quality, ..candidate(name) }
}

fn names(strategy: Strategy, needs: &Needs<'_>, candidates: &[Candidate]) -> Vec<String> {
    let order = order(strategy, needs, candidates, &|_| None);
    order.asked.iter().map(|index| candidates[*index].description.model.clone()).collect()
}

const QUESTION: Needs<'static> =
    Needs { always: &[], tools: false, schema: false, input_tokens: 1000, output_tokens: 500 };

#[test]
fn strategies_order_candidates() {
    let large = priced("large", 500, 2500, 90);
    let small = priced("small", 25, 200, 60);
    let tiny = priced("tiny", 5, 40, 30);
    let all = [large, candidate("unknown"), small, tiny];
    for (strategy, wanted) in [
        (Strategy::Fallback, ["large", "unknown", "small", "tiny"]),
        (Strategy::Cheapest, ["tiny", "small", "large", "unknown"]),
        (Strategy::Smartest, ["large", "small", "unknown", "tiny"]),
        // 0.6 − 0.07, 0.3 − 0.01, 0.9 − 1, 0.5 − 1.
        (Strategy::Balanced, ["small", "tiny", "large", "unknown"]),
        (Strategy::Fastest, ["large", "unknown", "small", "tiny"]),
    ] {
        assert_eq!(names(strategy, &QUESTION, &all), wanted, "{strategy:?}");
    }
    let latency = |model: &Description| match &*model.model {
        "large" => Some(Duration::from_secs(9)),
        "small" => Some(Duration::from_secs(2)),
        "tiny" => Some(Duration::from_secs(4)),
        _ => None,
    };
    let order = order(Strategy::Fastest, &QUESTION, &all, &latency);
    assert_eq!(order.asked, [1, 2, 3, 0], "a model without measurement comes first");
}

#[test]
fn missing_features_skip_a_model_and_unknown_ones_do_not() {
    let lacks = |capabilities| Candidate { capabilities, ..candidate("lacks") };
    let unknown = Capabilities::default();
    let all = [
        lacks(Capabilities { tools: Some(false), ..unknown }),
        lacks(Capabilities { vision: Some(false), ..unknown }),
        lacks(Capabilities { context_window: Some(8000), ..unknown }),
        lacks(Capabilities { json_schema: Some(false), ..unknown }),
        candidate("unknown"),
    ];
    let needs =
        Needs { always: &[Need::Vision], tools: true, schema: true, input_tokens: 7000, output_tokens: 500 };
    let found = order(Strategy::Fallback, &needs, &all, &|_| None);
    assert_eq!(found.asked, [4, 3], "a model without schema support comes last");
    let reasons: Vec<String> =
        found.skipped.iter().map(|(index, reason)| format!("{index} {reason}")).collect();
    assert_eq!(
        reasons,
        [
            "0 skipped: does not support tools",
            "1 skipped: does not support vision",
            "2 skipped: the conversation has about 7000 tokens, the context window is 8000"
        ]
    );
}

#[test]
fn unknown_vision_counts_as_missing_wherever_it_matters() {
    let with = |name: &str, vision| Candidate {
        capabilities: Capabilities { vision, ..Capabilities::default() },
        ..priced(name, if name == "sees" { 500 } else { 1 }, 100, 50)
    };
    let (sees, unknown, blind) =
        (with("sees", Some(true)), with("unknown", None), with("blind", Some(false)));
    let needs = Needs { always: &[Need::Vision], ..QUESTION };
    for strategy in Strategy::ALL {
        let all = [unknown.clone(), blind.clone(), sees.clone()];
        assert_eq!(names(strategy, &needs, &all), ["sees"], "{strategy:?}");
        // Nothing better is there: it was configured for that.
        assert_eq!(names(strategy, &needs, &all[..2]), ["unknown"], "{strategy:?}");
    }
    // As where images are sent.
    let unlisted = Description { provider: "local".into(), ..description("llava") };
    assert!(!unlisted.sees() && !Capabilities::default().meets(Need::Vision));
    let simulated = Description { provider: "simulated".into(), simulated: true, ..description("simulated") };
    assert!(simulated.sees());
    let simulated = Candidate::from_tables(simulated, &BTreeMap::new(), DateTime::UNIX_EPOCH);
    assert!(simulated.capabilities.meets(Need::Vision));
}

#[test]
fn tight_context_window_is_used_if_no_larger_exists() {
    let small = || Candidate {
        capabilities: Capabilities { context_window: Some(8000), ..Capabilities::default() },
        ..candidate("small")
    };
    for (tokens, asked) in [(6600, 1), (6800, 1), (8800, 1), (8801, 0)] {
        let needs = Needs { input_tokens: tokens, ..QUESTION };
        assert_eq!(order(Strategy::Fallback, &needs, &[small()], &|_| None).asked.len(), asked, "{tokens}");
        let both = names(Strategy::Fallback, &needs, &[small(), candidate("large")]);
        let wanted: &[&str] = if tokens == 6600 { &["small", "large"] } else { &["large"] };
        assert_eq!(both, wanted, "{tokens}");
    }
}

/// What a request is expected to cost.
fn estimate_cost(request: &Request<'_>, candidate: &Candidate) -> Option<Decimal> {
    let needs = Needs::of(request, &[], &candidate.description.provider);
    let longest = candidate.capabilities.max_output_tokens.unwrap_or(u64::MAX);
    cost(needs.input_tokens, needs.output_tokens.min(longest), candidate)
}

#[test]
fn request_cost_is_estimated_from_its_tokens() {
    let mut candidate = priced("m", 300, 1500, 50);
    let request = Request { max_output_tokens: 2000, input_tokens: Some(10_000), ..Request::default() };
    assert_eq!(estimate_cost(&request, &candidate), Some(Decimal::new(6, 2)), "10 k at $3, 2 k at $15");
    candidate.capabilities.max_output_tokens = Some(1000);
    assert_eq!(estimate_cost(&request, &candidate), Some(Decimal::new(45, 3)));
    candidate.rates = None;
    assert_eq!(estimate_cost(&request, &candidate), None);
}

#[test]
fn quality_is_the_rank_of_the_longest_prefix() {
    let ranks = BTreeMap::from([("gpt-5".to_owned(), 80), ("gpt-5-mini".to_owned(), 60)]);
    let quality =
        |model: &str| Candidate::from_tables(description(model), &ranks, DateTime::UNIX_EPOCH).quality;
    assert_eq!(
        (quality("gpt-5"), quality("openai/gpt-5-mini-2026"), quality("other"), quality("agpt-5")),
        (80, 60, UNRANKED, UNRANKED)
    );
    let self_hosted = Description { provider: "ollama".into(), ..description("qwen3:8b") };
    assert!(
        Candidate::from_tables(self_hosted, &ranks, DateTime::UNIX_EPOCH)
            .rates
            .is_some_and(|price| price.input.is_zero())
    );
    assert_eq!(Candidate::from_tables(description("gpt-5"), &ranks, DateTime::UNIX_EPOCH).rates, None);
}

fn able() -> impl Generate<Value = Option<bool>> {
    prop_oneof![Just(None), Just(Some(false)), Just(Some(true))]
}

fn any_candidate() -> impl Generate<Value = Candidate> {
    let price = proptest::option::of((0..10_000i64, 0..10_000i64));
    (able(), able(), able(), proptest::option::of(1..200_000u64), price, 1..=100u8).prop_map(
        |(tools, vision, json_schema, context_window, price, quality)| Candidate {
            capabilities: Capabilities {
                context_window,
                max_output_tokens: None,
                tools,
                vision,
                json_schema,
                ..Capabilities::default()
            },
            rates: price.map(|(input, output)| Rates {
                input: Decimal::new(input, 3),
                output: Decimal::new(output, 3),
            }),
            quality,
            ..candidate("m")
        },
    )
}

type NeedsInput = (bool, bool, u64, u64, Vec<Need>);

fn any_needs() -> impl Generate<Value = NeedsInput> {
    let always = proptest::sample::subsequence(Need::ALL.to_vec(), 0..=3);
    (any::<bool>(), any::<bool>(), 0..300_000u64, 0..10_000u64, always)
}

fn needs((tools, schema, input_tokens, output_tokens, always): &NeedsInput) -> Needs<'_> {
    Needs {
        always,
        tools: *tools,
        schema: *schema,
        input_tokens: *input_tokens,
        output_tokens: *output_tokens,
    }
}

proptest! {
    /// Each candidate is either asked once or skipped, and none is asked for a feature it is known to lack.
    #[test]
    fn models_lacking_a_feature_are_never_asked(
        candidates in proptest::collection::vec(any_candidate(), 0..8),
        asked in any_needs(),
        strategy in proptest::sample::select(&Strategy::ALL[..]),
    ) {
        let needs = needs(&asked);
        let found = order(strategy, &needs, &candidates, &|_| None);
        let mut all: Vec<usize> = found.asked.clone();
        all.extend(found.skipped.iter().map(|(index, _)| *index));
        all.sort_unstable();
        prop_assert_eq!(all, (0..candidates.len()).collect::<Vec<_>>());
        for index in &found.asked {
            let able = &candidates[*index].capabilities;
            prop_assert!(!(needs.tools && able.tools == Some(false)));
            prop_assert!(!(needs.always.contains(&Need::Vision) && able.vision == Some(false)));
            prop_assert!(!(needs.always.contains(&Need::JsonSchema) && able.json_schema == Some(false)));
            let too_long =
                able.context_window.is_some_and(|window| context_budget::is_clearly_over(needs.input_tokens, window));
            prop_assert!(!too_long);
        }
        prop_assert_eq!(&found, &order(strategy, &needs, &candidates, &|_| None), "the order is deterministic");
    }

    #[test]
    fn order_is_sorted_by_the_strategy(
        candidates in proptest::collection::vec(any_candidate(), 1..8),
        asked in any_needs(),
        latencies in proptest::collection::vec(proptest::option::of(0..100u64), 8),
    ) {
        let mut candidates = candidates;
        for (nth, candidate) in candidates.iter_mut().enumerate() {
            candidate.description.model = nth.to_string();
        }
        let needs = Needs { schema: false, ..needs(&asked) };
        let latency = |model: &Description| latencies[model.model.parse::<usize>().unwrap()].map(Duration::from_secs);
        let sorted = |strategy| order(strategy, &needs, &candidates, &latency).asked;
        let cost_of = |index: &usize| cost(needs.input_tokens, needs.output_tokens, &candidates[*index]);

        let cheapest = sorted(Strategy::Cheapest);
        let in_order = cheapest.is_sorted_by(|a, b| match (cost_of(a), cost_of(b)) {
            (Some(a), Some(b)) => a <= b,
            (a, b) => a.is_some() || b.is_none(),
        });
        prop_assert!(in_order);
        prop_assert!(sorted(Strategy::Smartest).is_sorted_by_key(|index| 100 - candidates[*index].quality));
        prop_assert!(sorted(Strategy::Fastest).is_sorted_by_key(|index| latency(&candidates[*index].description)));
        prop_assert!(sorted(Strategy::Fallback).is_sorted());
        // A candidate that is better and cheaper comes before one that is worse and dearer.
        let balanced = sorted(Strategy::Balanced);
        for (nth, a) in balanced.iter().enumerate() {
            for b in &balanced[nth + 1..] {
                if let (Some(cost_a), Some(cost_b)) = (cost_of(a), cost_of(b)) {
                    prop_assert!(!(cost_b < cost_a && candidates[*b].quality > candidates[*a].quality));
                }
            }
        }
    }
}
