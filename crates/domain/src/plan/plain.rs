//! Plain expressions: names, comparisons, tests, and those filters whose result is no larger than what they are given. Each
//! reads its values a bounded number of times, so that it takes time and memory in proportion to them.

/// Filters without arguments.
const FILTERS: [&str; 11] =
    ["length", "count", "lower", "upper", "trim", "first", "last", "bool", "int", "float", "abs"];
/// Tests without arguments.
const TESTS: [&str; 15] = [
    "defined",
    "undefined",
    "none",
    "true",
    "false",
    "boolean",
    "number",
    "integer",
    "float",
    "string",
    "sequence",
    "iterable",
    "mapping",
    "odd",
    "even",
];
/// Bytes of the text between what is joined.
const SEPARATOR: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'s> {
    Name(&'s str),
    Number,
    /// With its length.
    Text(usize),
    Sign(&'s str),
}

/// Whether an expression, or each of a template's, is plain. Statements and comments are not.
pub(crate) fn is_plain(source: &str, is_template: bool) -> bool {
    if !is_template {
        return is_plain_expression(source);
    }
    if source.contains("{%") || source.contains("{#") {
        return false;
    }
    let mut rest = source;
    while let Some((_, behind)) = rest.split_once("{{") {
        // Braces in a text or a map make the expression end too early: then it is not plain.
        let Some((inner, behind)) = behind.split_once("}}") else { return false };
        let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
        let inner = inner.strip_suffix(['-', '+']).unwrap_or(inner);
        if !is_plain_expression(inner) {
            return false;
        }
        rest = behind;
    }
    true
}

fn is_plain_expression(source: &str) -> bool {
    let Some(tokens) = tokens(source) else { return false };
    let mut once = 0;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before)).copied();
        let next = tokens.get(at + 1).copied();
        match token {
            Token::Sign("|") => {
                let Some(Token::Name(filter)) = next else { return false };
                let argument = match tokens.get(at + 2..) {
                    Some([Token::Sign("("), argument, Token::Sign(")"), ..]) => Some(*argument),
                    Some([Token::Sign("("), ..]) => return false,
                    _ => None,
                };
                // What could multiply what it is given, if repeated, is allowed once.
                match (filter, argument) {
                    (filter, None) if FILTERS.contains(&filter) => {}
                    ("join", Some(Token::Text(length))) if length <= SEPARATOR => once += 1,
                    ("join" | "tojson" | "e" | "escape", None) => once += 1,
                    ("default" | "d", Some(_)) => once += 1,
                    _ => return false,
                }
                at += if argument.is_some() { 5 } else { 2 };
                continue;
            }
            Token::Sign("(") if matches!(before, Some(Token::Name(name)) if !is_operator(name)) => {
                return false;
            }
            Token::Sign("(")
                if matches!(before, Some(Token::Sign("]" | ")") | Token::Text(_) | Token::Number)) =>
            {
                return false;
            }
            Token::Sign("+") => {
                // With a number beside it that no operator or dot binds, both sides are numbers, or it fails.
                let is_number = matches!(next, Some(Token::Number))
                    && !matches!(tokens.get(at + 2), Some(Token::Sign("|" | "." | "[" | "(")));
                if !is_number {
                    return false;
                }
            }
            // Between the literals of a list.
            Token::Sign(",") if !(is_literal(before) && is_literal(next)) => return false,
            Token::Sign("[") if next == Some(Token::Sign("]")) => {}
            // A position, a field, or a list of literals.
            Token::Sign("[") if !is_literal(next) => return false,
            Token::Name("is") => {
                let name = if next == Some(Token::Name("not")) { tokens.get(at + 2).copied() } else { next };
                if !matches!(name, Some(Token::Name(test)) if TESTS.contains(&test)) {
                    return false;
                }
            }
            _ => {}
        }
        at += 1;
    }
    once <= 1
}

fn is_literal(token: Option<Token<'_>>) -> bool {
    matches!(token, Some(Token::Number | Token::Text(_)))
}

fn is_operator(name: &str) -> bool {
    matches!(name, "and" | "or" | "not" | "in" | "if" | "else")
}

/// The tokens; `None` for one that no plain expression has.
fn tokens(source: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = source.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' => {
                let length = text_length(rest, first)?;
                tokens.push(Token::Text(length - 2));
                length
            }
            '0'..='9' => {
                let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'_').count();
                let fraction = rest[length..]
                    .strip_prefix('.')
                    .map_or(0, |digits| digits.bytes().take_while(u8::is_ascii_digit).count());
                tokens.push(Token::Number);
                if fraction > 0 { length + 1 + fraction } else { length }
            }
            c if c == '_' || c.is_ascii_alphabetic() => {
                let length =
                    rest.bytes().take_while(|byte| *byte == b'_' || byte.is_ascii_alphanumeric()).count();
                tokens.push(Token::Name(&rest[..length]));
                length
            }
            _ => {
                let double = rest.get(..2).filter(|sign| ["==", "!=", "<=", ">="].contains(sign));
                let single = rest.get(..1).filter(|sign| "<>()[].,|+-".contains(sign));
                let sign = double.or(single)?;
                tokens.push(Token::Sign(sign));
                sign.len()
            }
        };
        rest = rest[length..].trim_start();
    }
    Some(tokens)
}

/// The length of a text with its quotes.
fn text_length(source: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in source.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn what_may_grow_is_not_plain() {
        for plain in [
            "a.result == 'x' and not (b.status in [\"failed\", \"skipped\"])",
            "input.items[0].name|lower|trim != \"\"",
            "event.data.amount > 100 + 5",
            "event.content|default('')|length >= 3 or event is defined",
            "a.result|join(', ')",
            "x is not none",
            "a if b else c",
            "-1 < x - 2",
        ] {
            assert!(is_plain(plain, false), "{plain}");
        }
        for metered in [
            "a + a",
            "(a + 1) + a",
            "a + 1|default(a)",
            "x.1 + x.1.y",
            "a * 1000000000",
            "a ~ a",
            "[a, a]",
            "[[1, 2], a]",
            "range(10)",
            "a.items()",
            "a['x'](1)",
            "a|map('upper')",
            "a|join('-')|join('-')",
            "a|tojson|tojson",
            "a|tojson(indent=1000000)",
            "a|join(b)",
            "a|join('12345678901234567')",
            "a[1:]",
            "a|default(b)|default(c)",
            "{'a': 1}",
            "a is divisibleby(3)",
            "10 ** 10",
        ] {
            assert!(!is_plain(metered, false), "{metered}");
        }
        assert!(is_plain("Dear {{ input.name }}, {{- a.result|default('nothing') -}}.", true));
        assert!(is_plain("no expression", true));
        for metered in ["{% for x in a %}{{ x }}{% endfor %}", "{# c #}", "{{ a + a }}", "{{ '}}' }}", "{{ a"]
        {
            assert!(!is_plain(metered, true), "{metered}");
        }
    }
}
