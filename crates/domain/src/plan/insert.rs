//! How results enter what a model reads: `<result step="find">…</result>`, escaped, so that they are data and not orders.
//!
//! The template is rewritten before it is rendered: what `{{ … }}` inserts is put between the tags of those steps whose results
//! it reads, also through the variables of `{% for %}`, `{% set %}` and `{% with %}`. Escaping does not depend on it: the
//! renderer escapes everything that it inserts.

use std::collections::BTreeMap;

/// Names of a template, and the steps whose results they contain.
pub(super) type Origins = BTreeMap<String, String>;

/// A part of a template.
enum Part {
    Text,
    Comment,
    Insertion,
    Statement,
}

/// The template with the tags.
pub(super) fn tagged(source: &str, origins: &Origins) -> String {
    let mut origins = origins.clone();
    let (mut out, mut raw) = (String::with_capacity(source.len() + 64), false);
    for (part, text) in parts(source) {
        match part {
            Part::Insertion if !raw => match found(text, &origins) {
                Some(step) => out.push_str(&format!("<result step=\"{step}\">{text}</result>")),
                None => out.push_str(text),
            },
            Part::Statement => {
                raw = statement(text, &mut origins, raw);
                out.push_str(text);
            }
            _ => out.push_str(text),
        }
    }
    out
}

/// The same template or expression with each slice `a[b:c]` as `a[[b,c]]`. It means something else, but it has the same names,
/// and minijinja finds those of `a` in it. (Its search for names passes over what is sliced.)
pub(super) fn without_slices(source: &str, is_template: bool) -> String {
    if !is_template {
        return unsliced(source);
    }
    let texts = parts(source).into_iter().map(|(part, text)| match part {
        Part::Insertion | Part::Statement => unsliced(text),
        _ => text.to_owned(),
    });
    texts.collect()
}

fn unsliced(expression: &str) -> String {
    let mut out = String::with_capacity(expression.len() + 16);
    // Where each open bracket is in `out`, and whether a slice is in it.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let (mut quote, mut escaped) = (None, false);
    for c in expression.chars() {
        match (quote, c) {
            (Some(end), c) => {
                quote = (escaped || c != end).then_some(end);
                escaped = c == '\\' && !escaped;
            }
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '(' | '{') => open.push((out.len(), false)),
            (None, ':') if open.last().is_some_and(|(at, _)| out[*at..].starts_with('[')) => {
                if let Some(bracket) = open.last_mut() {
                    bracket.1 = true;
                }
                out.push_str(if out.trim_end().ends_with(['[', ',']) { "0," } else { "," });
                continue;
            }
            (None, ']' | ')' | '}') => {
                if let Some((at, true)) = open.pop() {
                    out.insert(at, '[');
                    out.push(']');
                }
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// The parts of a template, in order.
fn parts(source: &str) -> Vec<(Part, &str)> {
    let (mut parts, mut rest) = (Vec::new(), source);
    while !rest.is_empty() {
        let start = ["{{", "{%", "{#"].iter().filter_map(|start| rest.find(start)).min();
        let (text, from) = rest.split_at(start.unwrap_or(rest.len()));
        if !text.is_empty() {
            parts.push((Part::Text, text));
        }
        let (part, (block, after)) = match from.as_bytes().get(1) {
            Some(b'{') => (Part::Insertion, split(from, "}}")),
            Some(b'%') => (Part::Statement, split(from, "%}")),
            Some(_) => (Part::Comment, from.split_at(from.find("#}").map_or(from.len(), |end| end + 2))),
            None => break,
        };
        parts.push((part, block));
        rest = after;
    }
    parts
}

/// A block up to its end, which is neither in a text nor in brackets, and what follows it.
fn split<'s>(from: &'s str, end: &str) -> (&'s str, &'s str) {
    let (bytes, mut at, mut depth, mut quote) = (from.as_bytes(), 2, 0_usize, None);
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, _) if depth == 0 && from[at..].starts_with(end) => return from.split_at(at + 2),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        while !from.is_char_boundary(at.min(from.len())) {
            at += 1;
        }
    }
    (from, "")
}

/// Notes what the variables of a statement contain. Returns whether a raw part follows.
fn statement(block: &str, origins: &mut Origins, raw: bool) -> bool {
    let text = block.trim_start_matches(['{', '%', '-', '+']).trim_start();
    let word = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let parts = match word {
        "raw" | "endraw" => return word == "raw",
        "for" => text.split_once(" in "),
        "set" | "with" => text.split_once('='),
        _ => None,
    };
    if let Some((names, value)) = parts.filter(|_| !raw)
        && let Some(step) = found(value, origins)
    {
        let names = identifiers(names.trim_start_matches(word));
        let new: Vec<(String, String)> = names.map(|name| (name.to_owned(), step.clone())).collect();
        origins.extend(new);
    }
    raw
}

/// The steps whose results an expression reads.
fn found(expression: &str, origins: &Origins) -> Option<String> {
    let mut steps: Vec<&str> = Vec::new();
    for origin in identifiers(expression).filter_map(|name| origins.get(name)) {
        if !steps.contains(&origin.as_str()) {
            steps.push(origin);
        }
    }
    (!steps.is_empty()).then(|| steps.join(" "))
}

/// The names in an expression, without attributes. Those in texts are among them: a tag too many does no harm.
fn identifiers(expression: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expression.split(move |c: char| !is_part(c)).filter(|word| !word.is_empty());
    words.filter(move |word| {
        let at = word.as_ptr() as usize - expression.as_ptr() as usize;
        !expression[..at].trim_end().ends_with('.')
    })
}
