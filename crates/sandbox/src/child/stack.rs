//! Positions in stacks of QuickJS: `    at f (code.js:3:7)`.

/// The name of the script in stacks.
pub(super) const FILE: &str = "code.js";

/// The text of a stack.
pub(super) struct Stack<'a>(pub(super) &'a str);

impl Stack<'_> {
    /// Line and column of the innermost place in the script, counted from 1 in the code as it was given.
    pub(super) fn position(&self) -> Option<(u32, u32)> {
        self.0.lines().find_map(|line| {
            let (_, position) = line.split_once(FILE)?;
            let mut numbers =
                position.split(|letter: char| !letter.is_ascii_digit()).filter(|n| !n.is_empty());
            let (line, column): (u32, u32) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
            // The first line is the head of the function around the code.
            (line > 1).then(|| (line - 1, column))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Stack;

    #[test]
    fn position_is_that_of_the_given_code() {
        let position = |stack| Stack(stack).position();
        assert_eq!(position("    at f (native)\n    at g (code.js:4:7)\n    at code.js:9:1\n"), Some((3, 7)));
        assert_eq!(position("    at code.js:2:13\n"), Some((1, 13)));
        assert_eq!(position("    at prelude.js:2:13\n"), None);
    }
}
