use std::collections::BTreeMap;

use proptest::prelude::*;

use super::generated::{Generator, Picks};
use super::*;

/// The names that a step itself reads: those before `.result`.
fn reads(step: &Value) -> BTreeSet<String> {
    let texts = ["prompt", "question", "if", "over", "when"].iter().filter_map(|field| step[field].as_str());
    let names = texts.flat_map(|text| text.match_indices(".result").map(move |(at, _)| &text[..at]));
    let word =
        |text: &str| text.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_owned();
    names.map(word).collect()
}

/// Whether a list ends, if its steps are tried one after the other as long as one of them can be executed. `ids` are those
/// that a step may not have, `readable` what it can read.
fn ends(list: &Value, ids: &BTreeSet<String>, readable: &BTreeSet<String>, depth: usize) -> bool {
    let steps = list.as_array().unwrap();
    let own: BTreeSet<String> = steps.iter().map(|step| step["id"].as_str().unwrap().to_owned()).collect();
    if depth > 3 || own.len() < steps.len() || own.intersection(ids).next().is_some() {
        return false;
    }
    let all: BTreeSet<String> = ids.union(&own).cloned().collect();
    let mut done = BTreeSet::new();
    loop {
        let next = steps.iter().find(|step| {
            let id = step["id"].as_str().unwrap();
            let after: BTreeSet<String> = serde_json::from_value(step["after"].clone()).unwrap_or_default();
            !done.contains(id) && after.is_subset(&done) && can_execute(step, &all, &done, readable, depth)
        });
        let Some(next) = next else { return done.len() == steps.len() };
        done.insert(next["id"].as_str().unwrap().to_owned());
    }
}

fn can_execute(
    step: &Value,
    all: &BTreeSet<String>,
    done: &BTreeSet<String>,
    readable: &BTreeSet<String>,
    depth: usize,
) -> bool {
    let mut readable: BTreeSet<String> = readable.union(done).cloned().collect();
    let id = step["id"].as_str().unwrap();
    let mut own = reads(step);
    if step["while"].is_string() {
        own.remove(id);
    }
    let mut ids = all.clone();
    ids.remove(id);
    let can_read = own.is_subset(&readable);
    if step["type"] == "loop" {
        readable.insert("item".to_owned());
        ids.insert("item".to_owned());
    }
    let lists = ["steps", "then", "else"].iter().filter(|field| step[**field].is_array());
    let in_both =
        |field: &str| step[field].as_array().into_iter().flatten().filter_map(|step| step["id"].as_str());
    let is_twice = in_both("then").any(|id| in_both("else").any(|other| other == id));
    can_read && !is_twice && lists.into_iter().all(|field| ends(&step[*field], &ids, &readable, depth + 1))
}

/// Success or failure of an attempt: always the same one.
fn outcome(path: &str, attempt: u32, seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed;
    let hash = path
        .bytes()
        .chain([attempt as u8])
        .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash >> 20) % 8
}

/// Runs a plan in an order and with crashes given by `picks`, and checks each start.
fn run(
    document: &Document,
    mut picks: Picks<'_>,
    seed: u64,
    at_once: usize,
    repeats: u32,
) -> (End, BTreeMap<String, Status>) {
    let (mut states, mut now) = (States::new(), DateTime::UNIX_EPOCH);
    let (mut open, mut repeated): (Vec<String>, u32) = (Vec::new(), 0);
    let questions = BTreeMap::new();
    let heading = Heading { plan_id: None, version: 1, status: "running", questions: &questions };
    let (mut frontier, mut shown) =
        (Frontier::new(document, &states), Shown::new(document, &states, heading));
    for _ in 0..5_000 {
        let given = Given { at_once, ..given(now) };
        let failed = || states.iter().find(|(_, state)| state.status == Status::Failed);
        if repeated < repeats
            && let Some(changed) = failed().and_then(|(path, _)| repeat(document, &states, path, now).ok())
        {
            // By hand: a worker reads the plan anew.
            repeated += 1;
            states.extend(changed);
            frontier = Frontier::new(document, &states);
            shown = Shown::new(document, &states, heading);
        }
        // Whoever reads the plan anew, after a crash before the commit, goes on in the same way, as does who looks at each step.
        let mut anew = states.clone();
        let next = advance_from(&mut Frontier::of_all(document, &anew), document, &mut anew, &given);
        assert_eq!(advance_from(&mut frontier, document, &mut states, &given), next);
        assert_eq!(states, anew);
        shown.follow(document, &states, heading, states.changed().map(|(path, _)| path.as_str()));
        assert_eq!(*shown.list, checklist(document, &states, heading));
        if picks.pick(2) == 1 {
            states.commit();
        }
        for path in &next.start {
            check_start(document, &states, path, repeated);
            open.push(path.clone());
        }
        let running = states.values().filter(|state| state.status == Status::Running && state.due.is_some());
        assert!(running.count() <= at_once, "too much runs at once");
        // A crash after the commit: the stored states say the same, and nothing starts a second time.
        let stored: BTreeMap<String, State> = serde_json::from_value(json!(*states)).unwrap();
        let mut stored = States::from_iter(stored);
        assert_eq!(stored, states);
        let again = advance(document, &mut stored, &given);
        assert_eq!((&stored, again.start.len(), &again.end), (&states, 0, &next.end));
        if let Some(end) = next.end {
            let settled = states.iter().map(|(path, state)| (path.clone(), state.status));
            assert!(states.values().all(|state| state.status.is_settled()));
            return (end, settled.collect());
        }
        if open.is_empty() {
            now = next.wait_until.unwrap();
            continue;
        }
        let path = open.swap_remove(picks.pick(255) % open.len());
        finish(document, &mut states, &path, seed, now);
    }
    panic!("the plan does not end");
}

fn check_start(document: &Document, states: &States, path: &str, repeated: u32) {
    let found = step(document, path).unwrap();
    let prefix = path.rfind('.').map_or("", |dot| &path[..=dot]);
    for id in &found.after {
        assert!(states[&format!("{prefix}{id}")].status.is_settled(), "{path} began before {id}");
    }
    for (dot, _) in path.match_indices('.') {
        let outer = path[..dot].trim_end_matches(']');
        let outer = if path[..dot].ends_with(']') { &outer[..outer.rfind('[').unwrap()] } else { outer };
        assert_eq!(states[outer].status, Status::Running, "{path} began outside of {outer}");
    }
    assert!(states[path].attempt <= 3 + repeated, "{path} was started too often");
}

fn finish(document: &Document, states: &mut States, path: &str, seed: u64, now: DateTime<Utc>) {
    if states[path].status == Status::Asking {
        assert!(answer(states, path, json!([1])));
        return;
    }
    let code = match outcome(path, states[path].attempt, seed) {
        0 => "NOT_FOUND",
        1 | 2 => "IO_ERROR",
        _ => return assert!(succeed(states, path, json!([path, 2]))),
    };
    let error = Failure { code: code.to_owned(), message: "x".to_owned() };
    assert!(fail(step(document, path).unwrap(), states, path, error, now, 0.5));
}

proptest! {
    #![proptest_config(generated::cases(1_500))]

    #[test]
    fn parsed_documents_are_those_that_end(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let json = Generator::new(&bytes, false).document();
        let parsed = Document::parse(&json.to_string(), OFFER);
        let expected = ends(&json["steps"], &BTreeSet::new(), &BTreeSet::new(), 0);
        prop_assert_eq!(parsed.is_ok(), expected, "{} {:?}", json, parsed);
        for problem in parsed.err().into_iter().flatten() {
            let parent = problem.pointer.rfind('/').map_or("", |at| &problem.pointer[..at]);
            prop_assert!(json.pointer(parent).is_some(), "{}", problem);
        }
    }

    #[test]
    fn plans_end_alike_in_any_order(
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        one in proptest::collection::vec(any::<u8>(), 0..60),
        other in proptest::collection::vec(any::<u8>(), 0..60),
        seed in any::<u64>(),
        at_once in 1_usize..4,
    ) {
        let json = Generator::new(&bytes, true).document();
        let document = Document::parse(&json.to_string(), OFFER).unwrap();
        let first = run(&document, Picks(&one), seed, at_once, 0);
        if let End::Failed(failure) = &first.0 {
            prop_assert_ne!(&failure.code, "DEADLOCK");
        }
        prop_assert_eq!(first, run(&document, Picks(&other), seed, 5, 0));
        // Whatever people have repeated meanwhile.
        run(&document, Picks(&other), seed, at_once, 3);
    }
}

#[test]
fn repeated_step_stops_nothing_that_has_begun_behind_it() {
    let step = |id: &str, after: &[&str]| json!({"id": id, "type": "llm", "prompt": "x", "after": after, "on_error": "continue", "retry": {"max": 0}, "timeout_s": 60});
    let json = plan(json!([step("a", &[]), step("b", &[]), step("c", &["a"]), step("d", &["a"])]));
    let document = Document::parse(&json.to_string(), OFFER).unwrap();
    let (mut states, start) = (States::new(), DateTime::UNIX_EPOCH);
    advance(&document, &mut states, &given(start));
    let error = Failure::new("NOT_FOUND", "no");
    assert!(fail(&document.steps[0], &mut states, "a", error, start, 0.5));
    assert_eq!(advance(&document, &mut states, &given(start)).start, ["c", "d"]);
    assert!(succeed(&mut states, "c", "x".into()));
    states.extend(repeat(&document, &states, "a", start).unwrap());
    let mut frontier = Frontier::new(&document, &states);
    let given = given(start + TimeDelta::seconds(61));
    let next = advance_from(&mut frontier, &document, &mut states, &given);
    assert_eq!((next.start, next.cancel), (vec!["a".to_owned()], vec!["b".to_owned(), "d".to_owned()]));
    assert!(succeed(&mut states, "a", "x".into()));
    let next = advance_from(&mut frontier, &document, &mut states, &given);
    assert_eq!(next.end, Some(End::Completed { output: Value::Null }));
}

#[test]
fn blocked_steps_are_named() {
    let document =
        plan(json!([llm("a", "x"), {"id": "p", "type": "parallel", "steps": [llm("b", "x"), llm("c", "x")]},
        llm("d", "{{ p.result }}")]));
    let mut document = Document::parse(&document.to_string(), OFFER).unwrap();
    document.steps[0].after.insert("d".to_owned());
    let Action::Parallel { steps, .. } = &mut document.steps[1].action else { panic!() };
    steps[0].after.insert("c".to_owned());
    steps[1].after.insert("b".to_owned());
    let mut states = States::new();
    let end = advance(&document, &mut states, &given(DateTime::UNIX_EPOCH)).end;
    let Some(End::Failed(failure)) = end else { panic!("{end:?}") };
    assert_eq!(failure.code, "DEADLOCK");
    assert_eq!(failure.message, "`a` waits for d; `p.b` waits for c; `p.c` waits for b; `d` waits for p");
    assert!(states.values().all(|state| state.status.is_settled()));
}
