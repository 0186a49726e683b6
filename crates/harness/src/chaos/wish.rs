//! What a message asks for, and what its answer must be: both follow from its text, so that the model and the
//! checker agree without talking.

use serde::{Deserialize, Serialize};

use super::seed::Seed;

/// The tools a message may want, as the agent knows them.
const TOOLS: [&str; 4] = ["charge", "upsert", "look", "create_note"];
/// Takes its worker down, each time it is called.
pub(crate) const POISON: &str = "poison";
/// Of a thousand messages.
const POISONED: u64 = 10;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    /// Rounds of tools, each called side by side, before the answer.
    pub(crate) rounds: Vec<Vec<String>>,
    /// How long a tool takes.
    pub(crate) ms: u64,
    /// In how many pieces the answer is written, and the pause before each, in ms.
    pub(crate) pieces: usize,
    pub(crate) pace: u64,
    /// Whether the answer is plain text instead of `send_message`.
    pub(crate) plain: bool,
}

impl Wish {
    /// Something to ask for: mostly quick, sometimes with tools, sometimes written slowly, rarely poisonous.
    pub(crate) fn draw(seed: &mut Seed) -> Self {
        let mut wish = Self { rounds: Vec::new(), ms: 0, pieces: 4, pace: 20, plain: seed.permille(100) };
        if seed.permille(POISONED) {
            wish.rounds.push(vec![POISON.to_owned()]);
            return wish;
        }
        if seed.permille(450) {
            wish.ms = seed.between(20, 2500);
            let rounds = seed.between(1, 3);
            for _ in 0..rounds {
                let calls = if seed.permille(350) { seed.between(2, 3) } else { 1 };
                wish.rounds.push((0..calls).map(|_| seed.one_of(&TOOLS).to_owned()).collect());
            }
        }
        if seed.permille(60) {
            // 5 to 20 s: long enough for whatever happens to happen in the middle.
            (wish.pieces, wish.pace) = (20, seed.between(250, 1000));
        }
        wish
    }

    pub(crate) fn is_poison(&self) -> bool {
        self.rounds.iter().flatten().any(|tool| tool == POISON)
    }

    /// The text of the message with this number.
    pub(crate) fn text(&self, number: usize) -> String {
        format!("#{number} {}", serde_json::to_string(self).unwrap_or_default())
    }
}

/// The messages in a user's text: several that came together stand on lines of their own.
pub(crate) fn wishes(text: &str) -> impl Iterator<Item = (usize, Wish)> {
    text.lines().filter_map(|line| {
        let (number, wish) = line.strip_prefix('#')?.split_once(' ')?;
        Some((number.parse().ok()?, serde_json::from_str(wish).ok()?))
    })
}

/// The answer to these messages, word by word.
pub(crate) fn answer(numbers: &[usize]) -> String {
    let named: Vec<String> = numbers.iter().map(|number| format!("#{number}")).collect();
    let last = numbers.last().copied().unwrap_or(0);
    let words: String = (0..20).map(|word| format!(" wörd {}", last * 31 + word)).collect();
    format!("Answer to {}.{words}", named.join(" "))
}

/// The messages an answer names; `None` if it is none.
pub(crate) fn answered(text: &str) -> Option<Vec<usize>> {
    let named = text.strip_prefix("Answer to ")?.split('.').next()?;
    named.split(' ').map(|number| number.strip_prefix('#')?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_answers_are_read_back() {
        let mut seed = Seed::of(3, 0);
        let (one, other) = (Wish::draw(&mut seed), Wish::draw(&mut seed));
        let text = format!("{}\n\n{}", one.text(4), other.text(17));
        assert_eq!(wishes(&text).collect::<Vec<_>>(), [(4, one), (17, other)]);
        assert_eq!(answered(&answer(&[4, 17])), Some(vec![4, 17]));
        assert_eq!(answered("I stopped."), None);
    }

    #[test]
    fn every_kind_of_message_comes_up() {
        let mut seed = Seed::of(1, 0);
        let drawn: Vec<Wish> = (0..2000).map(|_| Wish::draw(&mut seed)).collect();
        let poisonous = drawn.iter().filter(|wish| wish.is_poison()).count();
        assert!((5..50).contains(&poisonous), "{poisonous}");
        for kind in [
            |wish: &Wish| wish.plain,
            |wish: &Wish| wish.pieces == 20,
            |wish: &Wish| wish.rounds.len() == 3,
            |wish: &Wish| wish.rounds.iter().any(|round| round.len() == 3),
            |wish: &Wish| wish.rounds.iter().flatten().any(|tool| tool == "charge"),
        ] {
            assert!(drawn.iter().any(kind));
        }
    }
}
