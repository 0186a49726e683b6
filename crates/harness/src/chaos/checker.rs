//! The checker: counts violations of the invariants R1 to R9 and R11 to R14, comparing what was recorded outside the service
//! with one read of its rows. It does not know which faults were injected.

use std::collections::{BTreeMap, HashMap, HashSet};

use houston_testkit::history;
use houston_testkit::model_server::Ending;

mod approvals;
mod innocents;
mod plans;
mod poison;
mod sessions;

use super::evidence::{EventRow, Evidence};
use super::message_script::{REPORTED, answer, answered, typed_answer};
use super::reader::bare_id;
use super::recovery;

/// How many violations of a rule are described.
const MAX_EXAMPLES: usize = 10;
/// How many workers a run must have killed to be given up.
const DEATHS: usize = 3;

/// The result for one rule.
#[derive(Debug, Default)]
pub(crate) struct Finding {
    pub(crate) rule: &'static str,
    pub(crate) what: &'static str,
    /// Number of things checked.
    pub(crate) of: usize,
    /// Number of violations.
    pub(crate) count: usize,
    /// Descriptions of the first violations.
    pub(crate) examples: Vec<String>,
    /// Further figures.
    pub(crate) note: String,
}

impl Finding {
    pub(crate) fn add(&mut self, example: String) {
        self.count += 1;
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(example);
        }
    }
}

/// A rule: its name, what violates it, and the function that looks for that.
type Rule = (&'static str, &'static str, fn(&Evidence, &mut Finding));

const RULES: [Rule; 13] = [
    ("R1", "accepted messages lost", lost_messages),
    // From here to R12 in this list: the rules of `safety`. The others need not hold while runs are open.
    ("R2", "messages answered twice", answered_once),
    ("R3", "writes of a second orchestrator", stale_writes),
    ("R4", "effects executed twice", effects),
    ("R5", "histories a provider refuses", histories),
    ("R12", "decisions lost, calls without a yes", approvals::approvals),
    ("R6", "gaps, repetitions, wrong texts", streams),
    ("R7", "recovery after kill -9 beyond its targets", recovery::times),
    ("R8", "model calls repeated beyond one a crash", repeated_calls),
    ("R9", "pending after quiet, locks of dead workers", liveness),
    ("R11", "sessions torn, overlapping, closed twice", sessions::sessions),
    ("R13", "innocent runs given up", innocents::innocents),
    ("R14", "plans stuck, steps or ends doubled", plans::plans),
];

/// The rules that can be checked while faults are injected: no later event repairs a violation of them.
pub(crate) fn safety(evidence: &Evidence) -> Vec<Finding> {
    check(&RULES[1..6], evidence)
}

/// All rules, once every run has ended.
pub(crate) fn all(evidence: &Evidence) -> Vec<Finding> {
    check(&RULES, evidence)
}

fn check(rules: &[Rule], evidence: &Evidence) -> Vec<Finding> {
    let find = |(rule, what, look): &Rule| {
        let mut finding = Finding { rule, what, ..Finding::default() };
        look(evidence, &mut finding);
        finding
    };
    rules.iter().map(find).collect()
}

/// Rows by their goals, of each in their order.
fn by_goal<'e, T>(rows: &'e [T], goal: impl Fn(&'e T) -> &'e str) -> BTreeMap<&'e str, Vec<&'e T>> {
    let mut goals: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in rows {
        goals.entry(goal(row)).or_default().push(row);
    }
    goals
}

/// How often each message was answered, by its number.
fn answers(evidence: &Evidence) -> HashMap<usize, usize> {
    let mut answers = HashMap::new();
    for message in evidence.rows.messages.iter().filter(|message| message.source == "agent") {
        for number in answered(&message.content).unwrap_or_default() {
            *answers.entry(number).or_insert(0) += 1;
        }
    }
    answers
}

/// R1: an accepted message is answered, or its run has visibly failed.
fn lost_messages(evidence: &Evidence, finding: &mut Finding) {
    let answers = answers(evidence);
    let messages: HashMap<String, _> =
        evidence.rows.messages.iter().map(|message| (bare_id(&message.id), message)).collect();
    let runs: HashMap<&str, &str> =
        evidence.rows.runs.iter().map(|run| (run.id.as_str(), run.status.as_str())).collect();
    let ended: HashSet<&str> = evidence
        .rows
        .events
        .iter()
        .filter(|event| event.kind == "run_finished")
        .map(|event| event.run.as_str())
        .collect();
    let mut answered = 0;
    let mut failed: BTreeMap<&str, usize> = BTreeMap::new();
    for post in &evidence.posts {
        if let Some(reason) = &post.rejected {
            finding.add(format!("#{} was rejected: {reason}", post.number));
        }
        let Some(accepted) = post.accepted.as_ref().map(|accepted| accepted.message.id.to_string()) else {
            continue;
        };
        finding.of += 1;
        let Some(message) = messages.get(&bare_id(&accepted)) else {
            finding.add(format!("#{} ({accepted}) is not stored", post.number));
            continue;
        };
        if message.content != post.content {
            finding.add(format!("#{} ({accepted}) has another text", post.number));
        }
        let status = runs.get(message.run.as_str()).copied().unwrap_or("missing");
        if answers.contains_key(&post.number) {
            answered += 1;
        } else if ["cancelled", "failed", "dead_lettered"].contains(&status)
            && ended.contains(message.run.as_str())
        {
            *failed.entry(status).or_default() += 1;
        } else {
            finding
                .add(format!("#{} ({accepted}) of goal {}: its run is {status}", post.number, message.goal));
        }
    }
    finding.note = format!("{answered} answered");
    for (status, count) in failed {
        finding.note += &format!(", {count} {}", status.replace('_', "-"));
    }
}

/// R2: no message is answered twice.
fn answered_once(evidence: &Evidence, finding: &mut Finding) {
    let answers = answers(evidence);
    finding.of = answers.len();
    for (number, count) in answers.iter().filter(|(_, count)| **count > 1) {
        finding.add(format!("#{number} was answered {count} times"));
    }
}

/// R3: no write has a smaller epoch than an earlier write; no two claims have the same epoch.
fn stale_writes(evidence: &Evidence, finding: &mut Finding) {
    let mut claims: HashSet<(&str, i64)> = HashSet::new();
    for (goal, events) in by_goal(&evidence.rows.events, |event| &event.goal) {
        let mut latest = 0;
        for event in events.into_iter().filter(|event| event.epoch > 0) {
            finding.of += 1;
            if event.epoch < latest {
                finding.add(format!(
                    "goal {goal}: event {} has epoch {} after {latest}",
                    event.seq, event.epoch
                ));
            }
            latest = latest.max(event.epoch);
            if event.kind == "attempt_started" && !claims.insert((goal, event.epoch)) {
                finding.add(format!("goal {goal}: epoch {} was claimed twice", event.epoch));
            }
        }
    }
    for (goal, entries) in by_goal(&evidence.rows.history, |entry| &entry.goal) {
        let mut latest = 0;
        for entry in entries {
            finding.of += 1;
            if entry.epoch < latest {
                finding.add(format!("goal {goal}: an entry of epoch {} after {latest}", entry.epoch));
            }
            latest = latest.max(entry.epoch);
        }
    }
    finding.note = format!("{} claims", claims.len());
}

/// R4: an effect happens once per operation, under any call id; a note is created once; poison is given up.
fn effects(evidence: &Evidence, finding: &mut Finding) {
    let none = Vec::new();
    let ledger = |tool: &str| evidence.ledgers.get(tool).unwrap_or(&none);
    finding.of = ledger("charge").len() + evidence.rows.notes.len();
    for (op, count) in repeated(ledger("charge").iter().map(|execution| execution.call_id.as_str())) {
        finding.add(format!("{op} was charged {count} times"));
    }
    for (op, count) in repeated(evidence.rows.notes.iter().map(String::as_str)) {
        finding.add(format!("{op} was noted {count} times"));
    }
    // An idempotent call may be repeated, but only under the same idempotency key.
    let mut keys: HashMap<&str, HashSet<&str>> = HashMap::new();
    for execution in ledger("upsert") {
        keys.entry(&execution.call_id).or_default().insert(&execution.idempotency_key);
    }
    for (op, keys) in keys.iter().filter(|(_, keys)| keys.len() > 1) {
        finding.add(format!("{op} was repeated under {} keys", keys.len()));
    }
    for (op, count, most) in poison::poisonings(ledger("poison"), &evidence.rows)
        .into_iter()
        .filter(|(_, count, most)| count > most)
    {
        finding.add(format!("poison {op} was executed {count} times, {most} are allowed"));
    }
    let again = repeated(ledger("upsert").iter().map(|execution| execution.call_id.as_str()));
    finding.note = format!(
        "{} idempotent calls repeated under their key, {} poisonings",
        again.len(),
        ledger("poison").len()
    );
}

fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(&'a str, usize)> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_insert(0) += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 1).collect()
}

/// R5: a provider would accept every committed prefix of each history, and every request.
fn histories(evidence: &Evidence, finding: &mut Finding) {
    finding.of = evidence.rows.history.len() + evidence.model_calls.len();
    let open: HashSet<&str> =
        evidence.rows.locks.iter().filter(|lock| lock.run_open).map(|lock| lock.goal.as_str()).collect();
    for (goal, entries) in by_goal(&evidence.rows.history, |entry| &entry.goal) {
        let entries: Vec<_> =
            entries.iter().map(|entry| (entry.role.clone(), entry.content.clone())).collect();
        if let Some(fault) = history::fault(&entries) {
            finding.add(format!("goal {goal}: {fault}"));
        } else if !open.contains(goal) && history::open_calls(&entries) > 0 {
            finding.add(format!("goal {goal}: tool calls without results, and no run is open"));
        }
    }
    for reason in &evidence.invalid_conversations {
        finding.add(reason.clone());
    }
    finding.note = format!("{} model calls", evidence.model_calls.len());
}

/// The log a client must have, from the events of its goal.
fn expected<'e>(events: impl Iterator<Item = &'e EventRow>) -> Vec<String> {
    let expected = events.filter_map(|event| {
        let message = event.message.as_deref().map(bare_id).unwrap_or_default();
        Some(match event.kind.as_str() {
            "run_queued" => format!("queued {}", bare_id(&event.run)),
            "run_finished" => "ended".to_owned(),
            "message_posted" => format!("posted {message}"),
            "message_sent" => format!("sent {message}"),
            "tool_called" => format!("called {message}"),
            "tool_returned" => format!("returned {message}"),
            _ => return None,
        })
    });
    expected.collect()
}

/// R6: positions have no gap; each client received each event once, in order, and the texts of the thread.
fn streams(evidence: &Evidence, finding: &mut Finding) {
    let goals = by_goal(&evidence.rows.events, |event| &event.goal);
    for lock in &evidence.rows.locks {
        let events = goals.get(lock.goal.as_str()).map_or(&[][..], Vec::as_slice);
        // Of those that were deleted by age, what follows from messages and runs is left.
        let from = lock.events_from;
        if !events.iter().map(|event| event.seq).filter(|seq| *seq >= from).eq(from..=lock.last_seq) {
            finding.add(format!("goal {}: positions are not {from} to {}", lock.goal, lock.last_seq));
        }
    }
    let sent: Vec<_> = evidence.rows.messages.iter().filter(|message| message.source == "agent").collect();
    for message in &sent {
        if message.content == REPORTED {
            continue;
        }
        let is_answer =
            |numbers: &[usize]| [answer(numbers), typed_answer(numbers)].contains(&message.content);
        if !answered(&message.content).is_some_and(|numbers| is_answer(&numbers)) {
            finding
                .add(format!("message {}: no message asks for the answer `{}`", message.id, message.content));
        }
    }
    let texts: HashMap<String, &str> =
        sent.iter().map(|message| (bare_id(&message.id), message.content.as_str())).collect();
    let mut connections = 0;
    for (goal, received) in &evidence.streams {
        finding.of += received.events;
        connections += received.connections;
        for fault in &received.faults {
            finding.add(format!("goal {goal} {fault}"));
        }
        let events = goals.get(goal.as_str()).map_or(&[][..], Vec::as_slice);
        let expected = expected(events.iter().copied());
        if received.log != expected {
            finding.add(format!("goal {goal}: {}", difference(&received.log, &expected)));
        }
        for (id, text) in &received.texts {
            if texts.get(id) != Some(&text.as_str()) {
                finding.add(format!("goal {goal}: {id} reads `{text}` instead of {:?}", texts.get(id)));
            }
        }
    }
    finding.note = format!("{} readers, {connections} connections", evidence.streams.len());
}

fn difference(received: &[String], expected: &[String]) -> String {
    let same = received.iter().zip(expected).take_while(|(received, expected)| received == expected).count();
    format!(
        "a client has {} things of {}; the first that differs is {:?} instead of {:?}",
        received.len(),
        expected.len(),
        received.get(same),
        expected.get(same)
    )
}

/// R8: an answered model call is repeated at most once per further attempt of a run.
fn repeated_calls(evidence: &Evidence, finding: &mut Finding) {
    let goal_of: HashMap<usize, usize> = evidence.posts.iter().map(|post| (post.number, post.goal)).collect();
    let mut again: HashMap<&str, i64> = HashMap::new();
    for run in &evidence.rows.runs {
        *again.entry(&run.goal).or_default() += (run.attempt - 1).max(0);
    }
    let mut answered: HashMap<u64, (Option<usize>, i64)> = HashMap::new();
    for call in evidence.model_calls.iter().filter(|call| !call.is_faulted) {
        if evidence.endings.get(&call.number) == Some(&Ending::Answered) {
            answered.entry(call.conversation).or_insert((call.message, 0)).1 += 1;
        }
    }
    let mut repeats: HashMap<usize, i64> = HashMap::new();
    for (message, count) in answered.values() {
        if let Some(goal) = message.and_then(|message| goal_of.get(&message)) {
            *repeats.entry(*goal).or_default() += count - 1;
        }
    }
    for (goal, repeats) in &repeats {
        let allowed =
            evidence.goals.get(*goal).and_then(|goal| again.get(goal.as_str())).copied().unwrap_or(0);
        if *repeats > allowed {
            finding.add(format!("goal {goal}: {repeats} repeats, {allowed} further attempts"));
        }
    }
    finding.of = evidence.model_calls.len();
    let again: i64 = again.values().sum();
    let repeats: i64 = repeats.values().sum();
    finding.note = format!("{repeats} answered calls repeated, {again} further attempts");
}

/// R9: after the quiet phase no message, and no summary for longer than 30 s, is pending, and no lock is held by a dead worker.
fn liveness(evidence: &Evidence, finding: &mut Finding) {
    finding.of = evidence.rows.locks.len();
    for lock in &evidence.rows.locks {
        if lock.run_open && lock.open_for > 30.0 {
            finding.add(format!("goal {}: a run has been open for {:.0} s", lock.goal, lock.open_for));
        }
        if lock.unread > 0 && !lock.run_open {
            finding.add(format!("goal {}: {} unread messages without an open run", lock.goal, lock.unread));
        }
        if lock.holder_is_dead {
            finding.add(format!("goal {}: its holder is dead", lock.goal));
        }
    }
    for session in evidence.rows.sessions.iter().filter(|session| session.pending) {
        finding.add(format!("goal {}: session {} has no summary yet", session.goal, session.number));
    }
}

#[cfg(test)]
mod tests;
