//! Texts of servers, made safe to show.

/// `text` without characters that are invisible or change the direction of writing, with at most `max` characters. Line
/// breaks and tabs stay.
pub(crate) fn cleaned(text: &str, max: usize) -> String {
    let visible: String = text.chars().filter(|c| !is_hidden(*c)).collect();
    let visible = visible.trim();
    match visible.char_indices().nth(max) {
        None => visible.to_owned(),
        Some((end, _)) => format!("{}…", visible[..end].trim_end()),
    }
}

/// Whether a person does not see this character, though a model reads it.
pub(crate) fn is_hidden(c: char) -> bool {
    if matches!(c, '\n' | '\t') {
        return false;
    }
    c.is_control()
        || matches!(u32::from(c),
            0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0
            | 0xFFF0..=0xFFFB | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_removed() {
        assert_eq!(cleaned("a\u{200b}b\u{202e}c\u{e0041}d\0e\r\nf\u{1b}[31m", 99), "abcde\nf[31m");
        assert_eq!(cleaned("Grüße, 世界\tهلا", 99), "Grüße, 世界\tهلا");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cleaned("äöüß", 3), "äöü…");
        assert_eq!(cleaned("äöü", 3), "äöü");
    }
}
