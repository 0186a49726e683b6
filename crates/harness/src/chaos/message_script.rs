//! A message's text says which tools the model calls and what it answers, so that model and checker need not
//! communicate: `#4 {"rounds":[["charge"]],"ms":20,"pieces":4,"pace":20,"plain":false}`.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::seed::Seed;

/// The tools a message may request.
const TOOLS: [&str; 5] = ["charge", "upsert", "look", "create_note", ASK];
/// A call of `charge` that needs a person's yes.
pub(crate) const ASK: &str = "ask";
/// The tool that kills its worker each time it is called.
pub(crate) const POISON: &str = "poison";
/// What the steps of a plan are: calls of tools, an executor, a question to a model.
const STEPS: [&str; 6] = ["charge", "upsert", "look", "create_note", EXECUTOR, QUESTION];
pub(crate) const EXECUTOR: &str = "executor";
pub(crate) const QUESTION: &str = "question";
/// What the agent says when a plan has ended that no message waits for any more.
pub(crate) const REPORTED: &str = "A plan has ended.";
/// Share of messages that call [`POISON`], per thousand.
const POISONED: u64 = 10;

/// What the model does with one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageScript {
    /// Rounds of tool calls before the answer; the calls of one round run in parallel.
    pub(crate) rounds: Vec<Vec<String>>,
    /// How long each tool takes, in ms.
    pub(crate) ms: u64,
    /// Number of pieces the answer is streamed in, and the pause before each, in ms.
    pub(crate) pieces: usize,
    pub(crate) pace: u64,
    /// Whether the answer is plain text instead of `send_message`.
    pub(crate) plain: bool,
    /// The steps of the plan that is made after the rounds; none: no plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) plan: Vec<String>,
}

impl MessageScript {
    /// A random script: mostly quick, sometimes with tools, sometimes streamed slowly, rarely poison. `plans`: the share of
    /// those that make a plan, per thousand.
    pub(crate) fn draw(seed: &mut Seed, plans: u64) -> Self {
        let plain = seed.permille(100);
        let mut script = Self { rounds: Vec::new(), ms: 0, pieces: 4, pace: 20, plain, plan: Vec::new() };
        if seed.permille(POISONED) {
            script.rounds.push(vec![POISON.to_owned()]);
            return script;
        }
        if seed.permille(plans) {
            script.ms = seed.between(20, 800);
            script.plan = (0..seed.between(3, 5)).map(|_| seed.one_of(&STEPS).to_owned()).collect();
            return script;
        }
        if seed.permille(450) {
            script.ms = seed.between(20, 2500);
            let rounds = seed.between(1, 3);
            for _ in 0..rounds {
                let calls = if seed.permille(350) { seed.between(2, 3) } else { 1 };
                script.rounds.push((0..calls).map(|_| seed.one_of(&TOOLS).to_owned()).collect());
            }
        }
        if seed.permille(60) {
            // 5 to 20 s: long enough for a fault in the middle of the answer.
            (script.pieces, script.pace) = (20, seed.between(250, 1000));
        }
        script
    }

    pub(crate) fn is_poison(&self) -> bool {
        self.rounds.iter().flatten().any(|tool| tool == POISON)
    }

    /// The text of message `number`.
    pub(crate) fn text(&self, number: usize) -> String {
        format!("#{number} {}", serde_json::to_string(self).unwrap_or_default())
    }
}

/// The messages in a user entry: several that were read together are on separate lines.
pub(crate) fn scripts_in(text: &str) -> impl Iterator<Item = (usize, MessageScript)> {
    text.lines().filter_map(|line| {
        let (number, script) = line.strip_prefix('#')?.split_once(' ')?;
        Some((number.parse().ok()?, serde_json::from_str(script).ok()?))
    })
}

/// The expected answer to these messages.
pub(crate) fn answer(numbers: &[usize]) -> String {
    let named: Vec<String> = numbers.iter().map(|number| format!("#{number}")).collect();
    let last = numbers.last().copied().unwrap_or(0);
    let words: String = (0..20).map(|word| format!(" wörd {}", last * 31 + word)).collect();
    format!("Answer to {}.{words}", named.join(" "))
}

/// The same as a JSON object, of the form that some messages want.
pub(crate) fn typed_answer(numbers: &[usize]) -> String {
    json!({"answer": answer(numbers)}).to_string()
}

/// The message numbers an answer names; `None` if the text is not an answer.
pub(crate) fn answered(text: &str) -> Option<Vec<usize>> {
    let text = text.strip_prefix("{\"answer\":\"").unwrap_or(text);
    let named = text.strip_prefix("Answer to ")?.split('.').next()?;
    named.split(' ').map(|number| number.strip_prefix('#')?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_answers_round_trip() {
        let mut seed = Seed::of(3, 0);
        let (one, other) = (MessageScript::draw(&mut seed, 500), MessageScript::draw(&mut seed, 0));
        let text = format!("{}\n\n{}", one.text(4), other.text(17));
        assert_eq!(scripts_in(&text).collect::<Vec<_>>(), [(4, one), (17, other)]);
        assert_eq!(answered(&answer(&[4, 17])), Some(vec![4, 17]));
        assert_eq!(answered(&typed_answer(&[4, 17])), Some(vec![4, 17]));
        assert_eq!(answered("I stopped."), None);
    }

    #[test]
    fn every_kind_of_script_is_drawn() {
        let mut seed = Seed::of(1, 0);
        let drawn: Vec<MessageScript> = (0..2000).map(|_| MessageScript::draw(&mut seed, 100)).collect();
        let poisonous = drawn.iter().filter(|script| script.is_poison()).count();
        assert!((5..50).contains(&poisonous), "{poisonous}");
        for kind in [
            |script: &MessageScript| script.plain,
            |script: &MessageScript| script.plan.iter().any(|step| step == EXECUTOR),
            |script: &MessageScript| script.pieces == 20,
            |script: &MessageScript| script.rounds.len() == 3,
            |script: &MessageScript| script.rounds.iter().any(|round| round.len() == 3),
            |script: &MessageScript| script.rounds.iter().flatten().any(|tool| tool == "charge"),
            |script: &MessageScript| script.rounds.iter().flatten().any(|tool| tool == ASK),
        ] {
            assert!(drawn.iter().any(kind));
        }
    }
}
