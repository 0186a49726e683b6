//! Positions in stacks of QuickJS: `    at f (code.js:3:7)`.

/// The name of the script in stacks.
pub(super) const FILE: &str = "code.js";

/// A stack of a script.
pub(super) struct Stack<'a> {
    pub(super) text: &'a str,
    /// How many lines the code has.
    pub(super) lines: u32,
}

impl Stack<'_> {
    /// Line and column of the innermost place in the script, counted from 1 in the code as it was given.
    pub(super) fn position(&self) -> Option<(u32, u32)> {
        self.text.lines().find_map(|line| {
            let (_, position) = line.split_once(FILE)?;
            let mut numbers =
                position.split(|letter: char| !letter.is_ascii_digit()).filter(|n| !n.is_empty());
            let (line, column): (u32, u32) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
            // Around the code is a function, whose head is one line.
            let line = line.checked_sub(1)?;
            (1..=self.lines).contains(&line).then_some((line, column))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Stack;

    #[test]
    fn position_is_that_of_the_given_code() {
        let position = |text| Stack { text, lines: 5 }.position();
        assert_eq!(position("    at f (native)\n    at g (code.js:4:7)\n    at code.js:2:1\n"), Some((3, 7)));
        assert_eq!(position("    at code.js:2:13\n"), Some((1, 13)));
        assert_eq!(position("    at prelude.js:2:13\n"), None);
        assert_eq!(position("    at code.js:7:1\n    at code.js:1:1\n"), None, "that is around the code");
    }
}
