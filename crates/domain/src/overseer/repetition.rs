//! [`Repetition`]: an answer that repeats the same text without end, while it is being written.

use super::RepeatedText;

/// The longest text whose repetitions are found, in bytes.
const LONGEST: usize = 1000;

/// Reads an answer piece by piece and says when its end is the same text again and again. Code in fences and rows of tables
/// are left alone: there it may be meant.
#[derive(Debug, Clone)]
pub struct Repetition {
    settings: RepeatedText,
    /// The end of the text.
    tail: Vec<u8>,
    /// Bytes since the last look.
    unseen: usize,
    /// Backticks at the end of the text.
    ticks: usize,
    is_fenced: bool,
}

impl Repetition {
    /// For one text.
    pub fn new(settings: RepeatedText) -> Self {
        Self { settings, tail: Vec::new(), unseen: 0, ticks: 0, is_fenced: false }
    }

    /// The text goes on; whether its end repeats itself.
    pub fn push(&mut self, text: &str) -> bool {
        if self.settings.times == 0 {
            return false;
        }
        for byte in text.bytes() {
            if byte == b'`' {
                self.ticks += 1;
                continue;
            }
            if self.ticks >= 3 {
                self.is_fenced = !self.is_fenced;
                self.tail.clear();
            }
            self.ticks = 0;
            self.tail.push(byte);
            self.unseen += 1;
            if self.unseen >= self.settings.bytes {
                self.unseen = 0;
                if self.is_repeated() {
                    return true;
                }
            }
        }
        false
    }

    fn is_repeated(&mut self) -> bool {
        let RepeatedText { bytes, times } = self.settings;
        let most = LONGEST * times;
        if self.tail.len() > 2 * most {
            self.tail.drain(..self.tail.len() - most);
        }
        if self.is_fenced || self.tail.len() < bytes * times {
            return false;
        }
        let end = &self.tail[self.tail.len() - bytes..];
        // How far back the last bytes were written before: the length of the text that is repeated.
        let is_end = |back: &usize| self.tail[..self.tail.len() - back].ends_with(end);
        let Some(period) = (1..=LONGEST.min(self.tail.len() - bytes)).find(is_end) else { return false };
        let shifted = self.tail.iter().rev().zip(self.tail.iter().rev().skip(period));
        let same = shifted.take_while(|(one, other)| one == other).count() + period;
        let unit = &self.tail[self.tail.len() - period..];
        let is_table = unit.windows(2).any(|two| two == b"\n|") || unit == b"|" || unit.ends_with(b"|\n");
        !is_table && same >= bytes * times && same / period >= times
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHIPPED: RepeatedText = RepeatedText { bytes: 50, times: 10 };

    /// After how many bytes the text is found to repeat itself, written in pieces.
    fn found(text: &str, piece: usize) -> Option<usize> {
        let mut repetition = Repetition::new(SHIPPED);
        let chars: Vec<char> = text.chars().collect();
        let mut written = 0;
        for piece in chars.chunks(piece) {
            let piece: String = piece.iter().collect();
            written += piece.len();
            if repetition.push(&piece) {
                return Some(written);
            }
        }
        None
    }

    #[test]
    fn texts_of_any_length_are_found_after_ten_times() {
        for unit in [
            "ha",
            "I will now look again. ",
            "Grüße und noch ein Satz, der etwas länger ist als fünfzig Zeichen. ",
        ] {
            let least = (unit.len() * 10).max(500);
            let text = format!("Well. {}", unit.repeat(400));
            let after = found(&text, 7).unwrap();
            assert!((least..least + 200).contains(&after), "{unit}: {after}, at least {least}");
        }
    }

    #[test]
    fn code_tables_and_lists_are_left_alone() {
        let code = format!("Here:\n```\n{}```\nDone.", "0, 0, 0, 0,\n".repeat(200));
        let table = format!("| a | b |\n{}", "| 0 | 0 |\n".repeat(200));
        let list: String = (0..300).map(|nth| format!("- item {nth} is there\n")).collect();
        let twice = "The same paragraph, which a person wanted to have several times in a row. ".repeat(8);
        for text in [code, table, list, twice] {
            assert_eq!(found(&text, 5), None, "{text}");
        }
        assert!(found(&format!("```\ncode\n```\n{}", "again ".repeat(200)), 3).is_some(), "after the code");
    }

    #[test]
    fn off_means_off() {
        let mut off = Repetition::new(RepeatedText::default());
        assert!(!off.push(&"ha".repeat(10_000)));
    }

    proptest! {
        /// It does not matter in which pieces the text arrives.
        #[test]
        fn pieces_do_not_matter(unit in "[a-c ]{1,80}", times in 1_usize..60, piece in 1_usize..200) {
            let text = unit.repeat(times);
            prop_assert_eq!(found(&text, piece).is_some(), found(&text, usize::MAX).is_some());
        }
    }
}
