//! Characters that a reader does not see, or that change the order in which they see others. A person decides by what they read:
//! where something is approved, such characters are written as escapes.

use std::fmt::Write as _;

/// Whether a character reorders the text around it, or is not displayed and can carry text that is not seen.
///
/// Among them are the joiners of some scripts and of emoji (U+200C and U+200D): they also make two texts that differ look the
/// same.
pub fn is_hidden(letter: char) -> bool {
    matches!(letter,
        // The soft hyphen, the mark of Arabic, the byte order mark.
        '\u{ad}' | '\u{61c}' | '\u{feff}'
        // Spaces of no width, joiners, and marks of a direction.
        | '\u{200b}'..='\u{200f}'
        // Ends of lines and paragraphs, embeddings and overrides of a direction.
        | '\u{2028}'..='\u{202e}'
        // Word joiners, isolates of a direction, and what Unicode no longer uses.
        | '\u{2060}'..='\u{206f}'
        // Tags, and selectors of variants: a second alphabet that is not displayed.
        | '\u{e0000}'..='\u{e0fff}')
}

/// The text with escapes for its hidden characters: `\u202e`. They are those of JSON, so a value that is written as JSON stays the
/// same value.
pub fn visible(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for letter in text.chars() {
        if !is_hidden(letter) {
            all.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            let _ = write!(all, "\\u{unit:04x}");
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_in_its_order_and_as_a_whole() {
        assert_eq!(visible("to: evil\u{202e}moc.doog"), r"to: evil\u202emoc.doog");
        assert_eq!(visible("pay\u{200b}pal \u{2066}x\u{2069}"), r"pay\u200bpal \u2066x\u2069");
        assert_eq!(visible("a\u{e0041}\u{e0101}"), r"a\udb40\udc41\udb40\udd01");
    }

    #[test]
    fn text_of_any_script_stays_as_it_is() {
        for text in [
            "caf\u{e9}\n\t\"x\"",
            "\u{5e9}\u{5dc}\u{5d5}\u{5dd}",
            "\u{645}\u{631}\u{62d}\u{628}\u{627}",
            "\u{4f60}\u{597d}",
        ] {
            assert_eq!(visible(text), text);
        }
    }
}
