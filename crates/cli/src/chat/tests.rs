//! A terminal for tests: it applies the escape sequences that [`Rows`](super::terminal::Rows) writes.

use crate::output::Painted;

/// A terminal of unlimited height.
pub(crate) struct FakeTerminal {
    pub(crate) rows: Vec<String>,
    width: usize,
}

impl FakeTerminal {
    pub(crate) fn new(width: usize) -> Self {
        Self { rows: vec![String::new()], width }
    }

    pub(crate) fn write(&mut self, written: &Painted) {
        let mut rest = written.as_str();
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\u{1b}' => rest = self.apply_escape(rest),
                '\n' => self.rows.push(String::new()),
                c => {
                    if self.rows.last().unwrap().chars().count() == self.width {
                        self.rows.push(String::new());
                    }
                    self.rows.last_mut().unwrap().push(c);
                }
            }
        }
    }

    /// Applies an escape sequence (erase rows, or a colour) and returns the text after it.
    fn apply_escape<'t>(&mut self, text: &'t str) -> &'t str {
        let text = text.strip_prefix('[').unwrap();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap();
        let (count, text) = text.split_at(digits);
        if let Some(rest) = text.strip_prefix("A\r\u{1b}[J") {
            self.rows.truncate(self.rows.len() - count.parse::<usize>().unwrap());
            *self.rows.last_mut().unwrap() = String::new();
            return rest;
        }
        text.strip_prefix('m').unwrap()
    }

    pub(crate) fn text(&self) -> String {
        self.rows.join("\n")
    }
}
