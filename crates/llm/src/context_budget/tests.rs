use houston_domain::history::Block;
use proptest::prelude::*;

use super::*;
use crate::model::SystemPart;

fn user(text: &str) -> Entry {
    Entry::user(vec![Block::text(text)])
}

#[test]
fn reported_usage_replaces_the_estimate() {
    let system = [SystemPart { text: "You are brief.".into(), cached: true }];
    let mut entries = vec![user("hi")];
    let mut budget = ContextBudget::default();
    let of = |entries: &[Entry], budget: &mut ContextBudget| {
        budget.tokens(&Request { system: &system, entries, ..Request::default() }, "openai")
    };
    let first = of(&entries, &mut budget);
    assert!((5..15).contains(&first), "{first}");
    assert_eq!(of(&entries, &mut budget), first, "asked again, after a failure");

    entries.push(Entry::assistant(vec![Block::text("hello")]));
    budget.reported(&Usage { input_tokens: 900, output_tokens: 50, ..Usage::default() }, entries.len());
    entries.push(user("and now?"));
    let second = of(&entries, &mut budget);
    assert_eq!(second, 950 + tokens::of_entries(&entries[2..]));

    // A provider that reports nothing leaves the estimate.
    entries.push(Entry::assistant(vec![Block::text("bye")]));
    budget.reported(&Usage::default(), entries.len());
    assert_eq!(of(&entries, &mut budget), second + tokens::of_entries(&entries[3..]));
}

#[test]
fn context_reserve_is_ten_percent_both_ways() {
    assert_eq!(left(50_000, 4_000, 100_000), 36_000);
    assert_eq!(left(90_000, 4_000, 100_000), -4_000);
    assert!(!is_clearly_over(110_000, 100_000) && is_clearly_over(110_001, 100_000));
    assert!(left(u64::MAX, 1, 8) < 0 && !is_clearly_over(5, u64::MAX));
}

proptest! {
    /// The count does not depend on how often and when it is read: it equals one estimate of everything added since
    /// the last reported usage.
    #[test]
    fn token_count_is_independent_of_when_it_is_read(
        turns in proptest::collection::vec((".{0,40}", any::<bool>(), 0..5000u64), 1..20)
    ) {
        let (mut entries, mut budget) = (Vec::new(), ContextBudget::default());
        let mut base = (tokens::of_preamble(&[], &[], "openai"), 0);
        for (text, asks, reported) in turns {
            entries.push(user(&text));
            let request = Request { entries: &entries, ..Request::default() };
            if asks {
                let whole = base.0 + tokens::of_entries(&entries[base.1..]);
                prop_assert_eq!(budget.tokens(&request, "openai"), whole);
                if reported > 4000 {
                    budget.reported(&Usage { input_tokens: reported, ..Usage::default() }, entries.len());
                    base = (reported, entries.len());
                }
            }
        }
    }
}
