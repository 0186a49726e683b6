use super::*;

fn model(provider: &str, model: &str) -> Description {
    Description { provider: provider.into(), model: model.into(), simulated: false, supports_tools: true }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn shares_of_the_price_of_input_are_those_of_the_list() {
    let prices = cache_prices(&model("anthropic", "claude-sonnet-4-5")).unwrap();
    assert!(close(prices.read, 0.1) && close(prices.write, 1.25) && close(prices.long_write.unwrap(), 2.0));
    assert_eq!((prices.short_s, prices.long_s), (300, 3_600));
    assert!(close(cache_prices(&model("anthropic", "claude-sonnet-5-5")).unwrap().read, 0.05));
    // OpenAI bills writing from GPT-5.6 on; what is kept longer has no listed price.
    let prices = cache_prices(&model("openai", "gpt-6-sol")).unwrap();
    assert!(close(prices.write, 1.25) && prices.long_write.is_none() && prices.short_s == 1_800);
}

#[test]
fn where_nothing_can_be_said_nothing_is_chosen() {
    for (provider, name) in
        [("openai", "gpt-5-mini"), ("google", "gemini-3-flash"), ("anthropic", "of-my-own")]
    {
        assert!(cache_prices(&model(provider, name)).is_none(), "{provider}/{name}");
    }
    assert_eq!(resolved(CachePolicy::Auto, &[600; 9], None), CachePolicy::Short);
    let prices = cache_prices(&model("anthropic", "claude-opus-4-5")).unwrap();
    assert_eq!(resolved(CachePolicy::Auto, &[600; 9], Some(&prices)), CachePolicy::Long);
    assert_eq!(resolved(CachePolicy::Off, &[600; 9], Some(&prices)), CachePolicy::Off);
}

/// A week of requests, simulated by a seeded generator: no recording of users.
mod week {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

    use super::*;

    /// How the user of a goal behaves: pauses between their messages, in seconds, how often each kind of pause occurs, and how many
    /// requests answer a message.
    struct Habit {
        name: &'static str,
        pauses: &'static [(u32, std::ops::Range<u32>)],
        loops: std::ops::Range<usize>,
    }

    const MINUTE: u32 = 60;
    const HOUR: u32 = 60 * MINUTE;
    const WEEK: u32 = 7 * 24 * HOUR;
    const NIGHT: (u32, std::ops::Range<u32>) = (1, 9 * HOUR..15 * HOUR);

    const HABITS: [Habit; 5] = [
        Habit { name: "chats in bursts", pauses: &[(30, 15..4 * MINUTE), NIGHT], loops: 1..4 },
        Habit {
            name: "comes back within the hour",
            pauses: &[(12, 6 * MINUTE..50 * MINUTE), NIGHT],
            loops: 1..5,
        },
        Habit { name: "asks once or twice a day", pauses: &[(1, 3 * HOUR..20 * HOUR)], loops: 1..2 },
        Habit { name: "starts long work rarely", pauses: &[(1, 2 * HOUR..9 * HOUR)], loops: 8..25 },
        Habit {
            name: "does a bit of everything",
            pauses: &[(10, 20..4 * MINUTE), (6, 6 * MINUTE..50 * MINUTE), (2, 2 * HOUR..8 * HOUR), NIGHT],
            loops: 1..8,
        },
    ];

    fn one_of(runner: &mut TestRunner, range: std::ops::Range<u32>) -> u32 {
        range.new_tree(runner).unwrap().current()
    }

    /// The pauses before the requests of a week; the first has none.
    fn week(habit: &Habit, runner: &mut TestRunner) -> Vec<u32> {
        let (mut pauses, mut passed) = (Vec::new(), 0);
        let weight: u32 = habit.pauses.iter().map(|(weight, _)| weight).sum();
        while passed < WEEK {
            let loops = habit.loops.clone().new_tree(runner).unwrap().current();
            for _ in 1..loops {
                pauses.push(one_of(runner, 1..20));
            }
            let mut at = one_of(runner, 0..weight);
            let kind = habit.pauses.iter().find(|(weight, _)| {
                let is_it = at < *weight;
                at = at.saturating_sub(*weight);
                is_it
            });
            pauses.push(one_of(runner, kind.unwrap().1.clone()));
            passed += pauses.last().unwrap();
        }
        pauses
    }

    /// What the input of a week costs: a prompt of 5,000 tokens, to which each request adds 300. After eight hours a new session
    /// begins, of whose past alone runs know; a long one is compressed. What a request finds kept depends on what those before it have written, and when.
    fn cost(policy: CachePolicy, week: &[u32], price: &Price, prices: &CachePrices) -> Decimal {
        let at = "2026-11-22T12:00:00Z".parse().unwrap();
        const PROMPT: u64 = 5_000;
        const MORE: u64 = 300;
        let (mut sum, mut tokens, mut begun) = (Decimal::ZERO, PROMPT, 0);
        // Kept tokens, and for how long.
        let (mut kept, mut kept_s) = (0, 0);
        for nth in 0..=week.len() {
            let pause = nth.checked_sub(1).map_or(0, |before| week[before]);
            if pause > 8 * HOUR {
                (tokens, begun, kept) = (PROMPT, nth, 0);
            }
            tokens += MORE;
            if tokens > 40_000 {
                (tokens, kept) = (15_000, 0);
            }
            let read = if pause < kept_s { kept.min(tokens) } else { 0 };
            let chosen = resolved(policy, &week[begun..nth], Some(prices));
            let (written, long) = match chosen {
                CachePolicy::Off => (0, 0),
                CachePolicy::Long => (tokens - read, tokens - read),
                CachePolicy::Short | CachePolicy::Auto => (tokens - read, 0),
            };
            // Without marks nothing is read.
            let read = if chosen == CachePolicy::Off { 0 } else { read };
            (kept, kept_s) = match chosen {
                CachePolicy::Off => (0, 0),
                CachePolicy::Long => (tokens, prices.long_s),
                CachePolicy::Short | CachePolicy::Auto => (tokens, prices.short_s),
            };
            let usage = Usage {
                input_tokens: tokens,
                cache_read_tokens: read,
                cache_write_tokens: written,
                long_cache_write_tokens: long,
                ..Usage::default()
            };
            sum += price.cost(&usage, at).unwrap();
        }
        sum
    }

    #[test]
    fn auto_costs_less_than_any_fixed_choice() {
        for name in ["claude-sonnet-4-5", "claude-sonnet-5-5"] {
            let model = model("anthropic", name);
            let (price, prices) = (Price::find("anthropic", name).unwrap(), cache_prices(&model).unwrap());
            for seed in [7_u8, 38] {
                let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
                let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
                let mut sums = [Decimal::ZERO; 4];
                for habit in HABITS {
                    let week = week(&habit, &mut runner);
                    let policies =
                        [CachePolicy::Auto, CachePolicy::Off, CachePolicy::Short, CachePolicy::Long];
                    let costs = policies.map(|policy| cost(policy, &week, &price, &prices));
                    let least = costs[1..].iter().min().unwrap();
                    println!("{name} {seed}: a user who {}: {costs:?} of {}", habit.name, week.len() + 1);
                    // It learns from a past that it does not have at first.
                    assert!(costs[0] <= least * Decimal::new(130, 2), "{}: {costs:?}", habit.name);
                    sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost);
                }
                println!("{name} {seed}: together {sums:?}");
                assert!(sums[1..].iter().all(|fixed| sums[0] < *fixed), "{name} {seed}: {sums:?}");
            }
        }
    }
}
