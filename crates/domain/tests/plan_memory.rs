//! Peak memory of hostile expressions in plans.

use houston_domain::plan::{evaluate, render};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};

#[path = "../src/plan/tests/sources.rs"]
mod sources;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

fn peak(execute: impl FnOnce()) -> usize {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    execute();
    MEMORY.peak_usage() - before
}

#[test]
fn hostile_expressions_take_at_most_ten_megabytes() {
    let items: Vec<Value> =
        (0..20).map(|at| json!({"title": format!("t{at}"), "tags": ["a", "b"]})).collect();
    let context = json!({"search": {"result": {"items": items}}, "a": {"result": "x".repeat(16_000)}});
    let _ = evaluate("1", &context);
    for source in sources::expressions() {
        let taken = peak(|| drop(evaluate(&source, &context)));
        assert!(taken <= 10_000_000, "{taken} bytes: {source:.60}");
    }
    for source in sources::templates() {
        let taken = peak(|| drop(render(&source, &context, true)));
        assert!(taken <= 10_000_000, "{taken} bytes: {source:.60}");
    }
}
