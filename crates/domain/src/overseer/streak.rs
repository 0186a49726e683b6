//! [`Streak`]: turns in a row that call the same single tool, whatever its arguments.

/// Counts turns in a row that ask for the same single tool. A run whose count reaches `limits.max_same_tool` ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Streak {
    tool: Option<String>,
    turns: u32,
}

impl Streak {
    /// A turn asked for these tools.
    pub fn add(&mut self, names: &[&str]) {
        let single = match names {
            [first, rest @ ..] if rest.iter().all(|name| name == first) => Some(*first),
            _ => None,
        };
        self.turns = match single {
            Some(name) if self.tool.as_deref() == Some(name) => self.turns + 1,
            Some(_) => 1,
            None => 0,
        };
        self.tool = single.map(str::to_owned);
    }

    /// A message was read: the count starts anew.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// A person let the run go on `most` turns ago: earlier ones do not count any more.
    pub fn start_anew(&mut self, most: u32) {
        self.turns = self.turns.min(most);
    }

    /// The turns in a row.
    #[must_use]
    pub fn turns(&self) -> u32 {
        self.turns
    }
}
