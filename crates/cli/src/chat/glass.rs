//! What a terminal shows of what was written, for tests.

use crate::output::Painted;

/// A terminal that is never full.
pub(crate) struct Glass {
    pub(crate) rows: Vec<String>,
    width: usize,
}

impl Glass {
    pub(crate) fn new(width: usize) -> Self {
        Self { rows: vec![String::new()], width }
    }

    pub(crate) fn take(&mut self, written: &Painted) {
        let mut rest = written.as_str();
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\u{1b}' => rest = self.obey(rest),
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

    /// Takes rows back, or colours; returns what follows.
    fn obey<'t>(&mut self, text: &'t str) -> &'t str {
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
