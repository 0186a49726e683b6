//! Texts that strangers wrote, as a model reads them: between marks that the text itself cannot end.

use std::borrow::Cow;

const TAG: &str = "untrusted";

/// The text between `<untrusted source="…">` and `</untrusted>`. Every such mark within it is broken with a space.
#[must_use]
pub fn marked(source: &str, text: &str) -> String {
    let source: String =
        source.chars().filter(|letter| !letter.is_control() && !"\"<>".contains(*letter)).take(500).collect();
    format!("<{TAG} source=\"{source}\">\n{}\n</{TAG}>", unmarked(text).trim_end())
}

/// The text without marks of its own.
fn unmarked(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let is_mark = |at: usize| {
        let rest = &bytes[at + 1..];
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        rest.get(..TAG.len()).is_some_and(|name| name.eq_ignore_ascii_case(TAG.as_bytes()))
    };
    let marks: Vec<usize> = text.match_indices('<').map(|(at, _)| at).filter(|at| is_mark(*at)).collect();
    if marks.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut broken = String::with_capacity(text.len() + marks.len());
    let mut from = 0;
    for mark in marks {
        broken.push_str(&text[from..=mark]);
        broken.push(' ');
        from = mark + 1;
    }
    broken.push_str(&text[from..]);
    Cow::Owned(broken)
}

#[cfg(test)]
mod tests {
    use super::marked;

    #[test]
    fn a_text_cannot_end_its_own_mark() {
        for end in ["</untrusted>", "</UNTRUSTED>", "</untrusted foo>", "<untrusted source=\"bank\">"] {
            let text = marked("https://a.example/\"><x", &format!("before {end} after"));
            assert_eq!(text.matches("</untrusted>").count(), 1, "{text}");
            assert_eq!(text.to_lowercase().matches("<untrusted").count(), 1, "{text}");
            assert!(text.starts_with("<untrusted source=\"https://a.example/x\">\nbefore < "), "{text}");
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        let text = "a < b, <b>bold</b>, </unt, <";
        assert!(marked("a", text).contains(text));
    }
}
