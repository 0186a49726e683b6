pub(super) mod extract;
mod oracle;

use houston_domain::model::PricedApart;

use self::extract::extract;
use super::*;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn dollars(text: &str) -> Option<Decimal> {
    Some(text.parse().unwrap())
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input_tokens: input, output_tokens: output, ..Usage::default() }
}

const NOW: &str = "2026-11-22T12:00:00Z";

#[test]
fn listed_model_has_list_price() {
    let price = Price::find("anthropic", "claude-sonnet-4-5-20250929").unwrap();
    assert_eq!(price.cost(&usage(2_743, 4), at(NOW)), dollars("0.008289"));
    let read = Usage { cache_read_tokens: 1_000, ..usage(2_000, 0) };
    assert_eq!(price.cost(&read, at(NOW)), dollars("0.0033"));
    let written = Usage { cache_write_tokens: 1_000, ..usage(2_000, 0) };
    assert_eq!(price.cost(&written, at(NOW)), dollars("0.00675"));
    // What is kept for an hour costs twice the price of input, not 1.25 times.
    let kept = Usage { cache_write_tokens: 1_000, long_cache_write_tokens: 400, ..usage(2_000, 0) };
    assert_eq!(price.cost(&kept, at(NOW)), dollars("0.00765"));
}

#[test]
fn prices_are_found_by_alternative_names() {
    let same = |a: (&str, &str), b: (&str, &str)| {
        let cost =
            |(provider, model)| Price::find(provider, model).unwrap().cost(&usage(1_000, 1_000), at(NOW));
        assert_eq!(cost(a), cost(b), "{a:?} {b:?}");
    };
    same(("openai", "gpt-5-mini"), ("openai", "GPT-5-mini-2025-08-07"));
    same(("openai", "gpt-5-mini"), ("azure", "gpt-5-mini"));
    same(("xai", "grok-4.3"), ("x-ai", "grok-4.3"));
    same(("gemini", "gemini-2.5-pro"), ("google", "gemini-2.5-pro"));
    same(("zhipu", "glm-4.6"), ("zai", "glm-4.6"));
    same(("openai", "gpt-5.2-20251211"), ("openai", "gpt-5.2-2025-12-11"));
}

#[test]
fn unknown_model_has_no_price() {
    for (provider, model) in [
        ("openai", "gpt-of-my-own"),
        ("ollama", "gpt-oss:20b"),
        ("local", "default"),
        ("nobody", "gpt-5-mini"),
    ] {
        assert!(Price::find(provider, model).is_none(), "{provider}/{model}");
    }
    assert_eq!(Price::find("simulated", "simulated").unwrap().cost(&usage(10, 10), at(NOW)), dollars("0"));
}

#[test]
fn tier_changes_the_price_of_all_tokens() {
    let price = Price::find("google", "gemini-2.5-pro").unwrap();
    assert_eq!(price.cost(&usage(200_000, 0), at(NOW)), dollars("0.25"));
    assert_eq!(price.cost(&usage(200_001, 0), at(NOW)), dollars("0.5000025"));
}

#[test]
fn prices_apply_by_date_and_time_of_day() {
    let tariff: Tariff = serde_json::from_str(
        r#"{"id": "m", "match": {"equals": "m"}, "prices": [
            {"prices": {"input_mtok": "1"}},
            {"from": "2026-03-01", "prices": {"input_mtok": "2"}},
            {"between": ["23:00:00", "01:30:00"], "prices": {"input_mtok": "3"}}],
           "variants": [{"when": {"service_tier": "flex"}, "prices": {"input_mtok": "0.5"}}]}"#,
    )
    .unwrap();
    let counts = Counts::from([("input_tokens".into(), Decimal::from(1_000_000))]);
    let cost = |time, terms: &Terms| table().units.cost(&tariff.prices(at(time), terms), &counts).ok();
    let usual = Terms::new();
    assert_eq!(cost("2026-02-28T22:59:59Z", &usual), dollars("1"));
    assert_eq!(cost("2026-03-01T01:30:00Z", &usual), dollars("2"));
    assert_eq!(cost("2026-02-28T23:00:00Z", &usual), dollars("3"));
    assert_eq!(cost("2026-03-01T01:29:59Z", &usual), dollars("3"));
    let flex = Terms::from([("service_tier".to_owned(), "flex".to_owned())]);
    assert_eq!(cost("2026-03-01T12:00:00Z", &flex), dollars("0.5"));
}

#[test]
fn inconsistent_usage_has_no_cost() {
    let price = Price::find("anthropic", "claude-sonnet-4-5").unwrap();
    assert_eq!(price.cost(&Usage { cache_read_tokens: 11, ..usage(10, 0) }, at(NOW)), None);
}

#[test]
fn usage_is_extracted_by_api_flavour() {
    let body = serde_json::json!({"model": "gpt-5-mini", "usage": {
        "prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 40}}});
    let used = extract("openai", "chat", &body).unwrap();
    assert_eq!(used.model.as_deref(), Some("gpt-5-mini"));
    let cost = Price::find("openai", "gpt-5-mini").unwrap().cost_of(&used.counts, at(NOW), &Terms::new());
    let same = Usage { cache_read_tokens: 40, ..usage(100, 20) };
    assert_eq!(cost.ok(), Price::find("openai", "gpt-5-mini").unwrap().cost(&same, at(NOW)));

    let unknown = extract("openai", "chats", &body).unwrap_err().to_string();
    assert!(unknown.contains("chats") && unknown.contains("responses"), "{unknown}");
    assert!(extract("openai", "responses", &body).unwrap_err().to_string().contains("usage.input_tokens"));
}

#[test]
fn audio_images_and_searches_have_their_own_price() {
    let apart = |apart: PricedApart| Usage { apart, ..usage(1_000_000, 0) };
    let cost = |model: (&str, &str), used: &Usage| Price::find(model.0, model.1).unwrap().cost(used, at(NOW));
    let gemini = ("google", "gemini-2.5-flash");
    assert_eq!(cost(gemini, &usage(1_000_000, 0)), dollars("0.3"));
    let heard = apart(PricedApart { input_audio_tokens: 1_000_000, ..PricedApart::default() });
    assert_eq!(cost(gemini, &heard), dollars("1"));
    let searches = PricedApart { web_searches: 3, ..PricedApart::default() };
    let searched = Usage { apart: searches, ..usage(1_000, 0) };
    assert_eq!(cost(("anthropic", "claude-sonnet-4-5"), &searched), dollars("0.033"));
    // Mistral bills what its cache served at a tenth.
    let cached = Usage { cache_read_tokens: 1_000_000, ..usage(1_000_000, 0) };
    assert_eq!(cost(("mistral", "mistral-large-2512"), &cached), dollars("0.05"));
}

/// What the list has no price for costs a share of the usual one.
#[test]
fn later_answers_cost_less_than_usual_ones() {
    let at = "2026-11-29T12:00:00Z".parse().unwrap();
    let cost = |provider: &str, model: &str, tier| {
        let usage = Usage { input_tokens: 1_000_000, output_tokens: 1_000, tier, ..Usage::default() };
        Price::find(provider, model).unwrap().cost(&usage, at).unwrap()
    };
    for (provider, model, tier, hundredths) in [
        ("openai", "gpt-6.1-sol", Tier::TwoHours, 70),
        ("openai", "gpt-6.1-sol", Tier::EightHours, 60),
        ("anthropic", "claude-sonnet-4-5", Tier::Batch, 50),
        ("google", "gemini-3.1-pro-preview", Tier::Flex, 50),
    ] {
        let usual = cost(provider, model, None);
        assert_eq!(
            cost(provider, model, Some(tier)),
            usual * Decimal::new(hundredths, 2),
            "{model} {tier:?}"
        );
    }
}
