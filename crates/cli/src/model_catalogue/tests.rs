use houston_llm::Description;
use houston_protocol::model::{Need, Strategy};

use super::*;

fn candidate(name: &str) -> Candidate {
    let description: Description = parse_choice(name).unwrap().description();
    let quality = [("gpt-5".to_owned(), 90), ("gpt-5-mini".to_owned(), 70), ("claude-haiku".to_owned(), 65)];
    Candidate::from_tables(description, &quality.into_iter().collect(), SystemClock.now())
}

fn routes(names: &[&str]) -> Routes {
    let candidates = names.iter().map(|name| candidate(name)).collect();
    let route = Route { strategy: Strategy::Fallback, needs: Vec::new(), candidates };
    Routes { by_use_case: [("agent".to_owned(), route)].into(), output_tokens: 2_000, ..Routes::default() }
}

fn asked(input_tokens: u64, output_tokens: u64) -> EstimateModels {
    EstimateModels {
        input_tokens: Some(input_tokens),
        output_tokens: Some(output_tokens),
        ..EstimateModels::default()
    }
}

const TWO: [&str; 2] = ["anthropic/claude-haiku-4-5", "openai/gpt-5-mini"];

#[test]
fn models_have_prices_limits_and_use_cases_once() {
    let mut routes = routes(&TWO);
    let titles = Route { candidates: vec![candidate(TWO[1])], ..routes.by_use_case["agent"].clone() };
    routes.by_use_case.insert("titles".to_owned(), titles);
    let all = routes.response();
    assert_eq!(all.data.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(), TWO);
    let mini = &all.data[1];
    assert_eq!(mini.use_cases, ["agent", "titles"]);
    let price = mini.price.clone().unwrap();
    assert_eq!([price.input, price.output].map(|price| price.to_string()), ["0.25", "2"]);
    assert_eq!(price.cache_read.unwrap().to_string(), "0.025");
    assert!(mini.limits.context_window.unwrap() >= 128_000 && mini.capabilities.tools == Some(true));
    assert_eq!(all.routes[0].models, TWO);
}

#[test]
fn estimate_says_cost_and_order_of_each_strategy() {
    let routes = routes(&TWO);
    let estimate = routes.estimate(&asked(100_000, 1_000), None).unwrap();
    assert_eq!((estimate.use_case.as_str(), estimate.strategy), ("agent", Strategy::Fallback));
    let costs: Vec<_> = estimate
        .candidates
        .iter()
        .map(|of| (of.id.as_str(), of.cost.unwrap().to_string(), of.position))
        .collect();
    assert_eq!(
        costs,
        [(TWO[0], "0.105".to_owned(), Some(1)), (TWO[1], "0.027".to_owned(), Some(2))],
        "in the order of the settings"
    );
    let of = |strategy| estimate.strategies.iter().find(|of| of.strategy == strategy).unwrap();
    assert_eq!(of(Strategy::Cheapest).models, [TWO[1], TWO[0]]);
    assert_eq!(of(Strategy::Cheapest).cost.unwrap().to_string(), "0.027");
    assert_eq!(of(Strategy::Smartest).models, [TWO[1], TWO[0]]);
    assert_eq!(estimate.strategies.len(), 5);
    let cached = EstimateModels { cached_tokens: 90_000, ..asked(100_000, 1_000) };
    let cached = routes.estimate(&cached, None).unwrap();
    assert_eq!(cached.candidates[1].cost.unwrap().to_string(), "0.00675");
    let cheapest = EstimateModels { strategy: Some(Strategy::Cheapest), ..asked(1, 1) };
    assert_eq!(routes.estimate(&cheapest, None).unwrap().candidates[0].id, TWO[1]);
    let texts =
        EstimateModels { messages: vec!["Plan a trip to Tokyo.".to_owned()], ..EstimateModels::default() };
    let texts = routes.estimate(&texts, None).unwrap();
    assert!((4..12).contains(&texts.input_tokens) && texts.output_tokens == 2_000, "{texts:?}");
}

#[test]
fn skipped_models_say_why_and_unknown_names_what_there_is() {
    let routes = routes(&["deepseek/deepseek-v4-pro", "openai/gpt-5-mini", "simulated"]);
    let sees = EstimateModels { needs: vec![Need::Vision], ..asked(10, 10) };
    let estimate = routes.estimate(&sees, None).unwrap();
    let skipped: Vec<_> = estimate.candidates.iter().filter(|of| of.position.is_none()).collect();
    assert!(skipped.iter().any(|of| of.id.starts_with("deepseek/")), "{estimate:?}");
    assert!(skipped.iter().all(|of| of.skipped.as_ref().unwrap().contains("vision")), "{estimate:?}");
    let simulated = routes.response().data.into_iter().find(|model| model.simulated).unwrap();
    assert_eq!(simulated.price.unwrap().input, Decimal::ZERO);
    let own = routes.estimate(&asked(1_000_000, 0), Some("openai/gpt-5")).unwrap();
    assert_eq!((own.use_case.as_str(), own.candidates.len()), ("openai/gpt-5", 1), "an agent's own model");
    let unknown = EstimateModels { use_case: Some("poems".to_owned()), ..asked(1, 1) };
    let refused = routes.estimate(&unknown, None).unwrap_err();
    assert_eq!((refused.pointer.as_deref(), refused.detail.contains("agent")), (Some("/use_case"), true));
    let too_many = EstimateModels { cached_tokens: 2, ..asked(1, 1) };
    assert_eq!(routes.estimate(&too_many, None).unwrap_err().pointer.as_deref(), Some("/cached_tokens"));
}
