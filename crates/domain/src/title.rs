//! Generated titles for agentables without one: short, one line.

/// Characters that models often put around a title.
const DECORATION: [char; 9] = ['"', '\'', '`', '*', '#', '“', '”', '„', '«'];

/// A title from a model's answer: its first line that is not blank, without decoration, cut between two words.
/// `None` if there is no such line.
pub fn from_answer(answer: &str, max_chars: usize) -> Option<String> {
    let line = answer.lines().map(bare).find(|line| !line.is_empty())?;
    let line = match line.split_once(':') {
        Some((label, rest)) if label.eq_ignore_ascii_case("title") => bare(rest),
        _ => line,
    };
    from_words(line.trim_end_matches('.'), max_chars)
}

/// A title from the first words of a text, cut to `max_chars` characters. `None` if the text has no word.
pub fn from_words(text: &str, max_chars: usize) -> Option<String> {
    let mut title = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        let room = max_chars.saturating_sub(title.chars().count());
        if title.is_empty() {
            // A first word that is longer than the title is cut within the word.
            title.extend(word.chars().take(room));
        } else if word.chars().count() < room {
            title.push(' ');
            title.push_str(word);
        } else {
            if room > 0 {
                title.push('…');
            }
            break;
        }
    }
    (!title.is_empty()).then_some(title)
}

fn bare(line: &str) -> &str {
    line.trim_matches(|c: char| c.is_whitespace() || DECORATION.contains(&c))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decoration_around_a_title_is_removed() {
        for (answer, title) in [
            ("Trip to Tokyo", Some("Trip to Tokyo")),
            ("\"Trip to Tokyo.\"", Some("Trip to Tokyo")),
            ("\n**Title: Trip to Tokyo**\nBecause they talked of it.", Some("Trip to Tokyo")),
            ("# Trip to Tokyo", Some("Trip to Tokyo")),
            (" \n ", None),
            ("Tokyo: where to stay", Some("Tokyo: where to stay")),
        ] {
            assert_eq!(from_answer(answer, 50).as_deref(), title, "{answer}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_words() {
        let text = "Where shall we stay when we are in Tokyo in the spring of next year?";
        assert_eq!(from_words(text, 50).unwrap(), "Where shall we stay when we are in Tokyo in the…");
        assert_eq!(from_words(text, 20).unwrap(), "Where shall we stay…");
        assert_eq!(from_words(&"ä".repeat(60), 50).unwrap(), "ä".repeat(50));
    }

    proptest! {
        #[test]
        fn titles_are_one_line_of_at_most_fifty_characters(text in "\\PC{0,200}|[a-z\n\t ]{0,200}") {
            for title in [from_answer(&text, 50), from_words(&text, 50)].into_iter().flatten() {
                prop_assert!(title.chars().count() <= 50, "{}", title);
                prop_assert!(!title.contains('\n') && !title.trim().is_empty());
            }
        }
    }
}
