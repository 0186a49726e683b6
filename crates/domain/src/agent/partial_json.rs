//! Incremental decoding of one string property of a JSON object that arrives in pieces cut anywhere.

/// Decodes one top-level string property while the pieces of the object's JSON arrive.
///
/// ```
/// use houston_domain::agent::partial_json::StringProperty;
///
/// let mut content = StringProperty::new("content");
/// assert_eq!(content.push(r#"{"to": "x", "content": "Hel"#), "Hel");
/// assert_eq!(content.push(r#"lo\n"}"#), "lo\n");
/// ```
#[derive(Debug, Clone)]
pub struct StringProperty {
    name: &'static str,
    state: State,
    depth: u32,
    key: String,
    is_key: bool,
    escape: Escape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between tokens.
    Outside,
    /// In a key, or in a string value that is not wanted.
    Skipping,
    /// In the wanted string.
    Inside,
    /// The wanted string has ended, or the input is not JSON.
    Finished,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    Backslash,
    Unicode {
        digits: u8,
        value: u16,
        high: Option<u16>,
    },
    /// A high surrogate was read; the low surrogate must follow.
    WantsLow {
        high: u16,
        backslash: bool,
    },
}

impl StringProperty {
    /// Decodes the property `name` of the outermost object.
    pub fn new(name: &'static str) -> Self {
        Self { name, state: State::Outside, depth: 0, key: String::new(), is_key: true, escape: Escape::None }
    }

    /// Takes the next piece and returns the text it adds to the property.
    pub fn push(&mut self, piece: &str) -> String {
        let mut text = String::new();
        for c in piece.chars() {
            match self.state {
                State::Finished => break,
                State::Outside => self.outside(c),
                State::Skipping => self.skipping(c),
                State::Inside => self.inside(c, &mut text),
            }
        }
        text
    }

    fn outside(&mut self, c: char) {
        match c {
            '{' | '[' => {
                self.depth += 1;
                self.is_key = c == '{';
            }
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.state = State::Finished;
                }
            }
            ':' => self.is_key = false,
            ',' => self.is_key = true,
            '"' if self.depth == 1 && !self.is_key && self.key == self.name => {
                self.state = State::Inside;
            }
            '"' => {
                if self.is_key {
                    self.key.clear();
                }
                self.state = State::Skipping;
            }
            _ => {}
        }
    }

    fn skipping(&mut self, c: char) {
        match (self.escape, c) {
            (Escape::None, '"') => self.state = State::Outside,
            (Escape::None, '\\') => self.escape = Escape::Backslash,
            (Escape::Backslash, _) => self.escape = Escape::None,
            (_, c) if self.is_key && self.depth == 1 && self.key.len() < 64 => self.key.push(c),
            _ => {}
        }
    }

    fn inside(&mut self, c: char, text: &mut String) {
        match self.escape {
            Escape::None => match c {
                '"' => self.state = State::Finished,
                '\\' => self.escape = Escape::Backslash,
                _ => text.push(c),
            },
            Escape::Backslash => self.after_backslash(c, None, text),
            Escape::WantsLow { high, backslash: false } => {
                if c == '\\' {
                    self.escape = Escape::WantsLow { high, backslash: true };
                } else {
                    text.push(char::REPLACEMENT_CHARACTER);
                    self.escape = Escape::None;
                    self.inside(c, text);
                }
            }
            Escape::WantsLow { high, backslash: true } => {
                if c != 'u' {
                    text.push(char::REPLACEMENT_CHARACTER);
                }
                self.after_backslash(c, Some(high), text);
            }
            Escape::Unicode { digits, value, high } => self.unicode_digit(c, digits, value, high, text),
        }
    }

    fn after_backslash(&mut self, c: char, high: Option<u16>, text: &mut String) {
        self.escape = Escape::None;
        match c {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'u' => self.escape = Escape::Unicode { digits: 0, value: 0, high },
            other => text.push(other),
        }
    }

    fn unicode_digit(&mut self, c: char, digits: u8, value: u16, high: Option<u16>, text: &mut String) {
        let Some(digit) = c.to_digit(16) else {
            self.state = State::Finished;
            return;
        };
        let value = (value << 4) | u16::try_from(digit).unwrap_or(0);
        if digits < 3 {
            self.escape = Escape::Unicode { digits: digits + 1, value, high };
            return;
        }
        self.escape = Escape::None;
        match (high, value) {
            (Some(high), 0xDC00..=0xDFFF) => {
                let code = 0x10000 + ((u32::from(high) - 0xD800) << 10) + (u32::from(value) - 0xDC00);
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (earlier, 0xD800..=0xDBFF) => {
                if earlier.is_some() {
                    text.push(char::REPLACEMENT_CHARACTER);
                }
                self.escape = Escape::WantsLow { high: value, backslash: false };
            }
            (earlier, _) => {
                if earlier.is_some() {
                    text.push(char::REPLACEMENT_CHARACTER);
                }
                // Postgres cannot store U+0000; see `storable`.
                let storable = char::from_u32(u32::from(value)).filter(|c| *c != '\0');
                text.push(storable.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(json: &str, cut: usize) -> String {
        let chars: Vec<char> = json.chars().collect();
        let mut property = StringProperty::new("content");
        chars.chunks(cut.max(1)).map(|piece| property.push(&piece.iter().collect::<String>())).collect()
    }

    proptest! {
        #[test]
        fn any_text_is_read_back_however_it_is_cut(text in any::<String>(), other in any::<String>(), cut in 1usize..9) {
            let json = serde_json::json!({"a": {"content": other}, "title": other, "content": text, "z": [1]}).to_string();
            prop_assert_eq!(read(&json, cut), text);
        }

        #[test]
        fn garbage_never_panics(text in any::<String>(), cut in 1usize..9) {
            let _ = read(&text, cut);
        }
    }

    #[test]
    fn escaped_surrogates_become_one_character() {
        assert_eq!(read(r#"{"content": "\ud83d\ude80 \u00e9\n\"x\""}"#, 1), "🚀 é\n\"x\"");
        assert_eq!(read(r#"{"content": "\ud83dx"}"#, 1), "\u{fffd}x");
    }
}
