//! Documents made from bytes, so that a failing one shrinks.

use proptest::prelude::ProptestConfig;
use serde_json::Map;

use super::*;

/// So many cases, or those of the environment variable `PROPTEST_CASES`.
pub(super) fn cases(usual: u32) -> ProptestConfig {
    let given = ProptestConfig::default();
    let cases = if given.cases == 256 { usual } else { given.cases };
    ProptestConfig { cases, failure_persistence: None, ..given }
}

/// Choices, one a byte. When there are no more, the first option is taken.
pub(super) struct Picks<'b>(pub(super) &'b [u8]);

impl Picks<'_> {
    pub(super) fn pick(&mut self, options: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % options
    }
}

pub(super) struct Generator<'b> {
    pub(super) picks: Picks<'b>,
    /// Whether only valid documents are made.
    pub(super) valid: bool,
    next: usize,
}

impl<'b> Generator<'b> {
    pub(super) fn new(bytes: &'b [u8], valid: bool) -> Self {
        Self { picks: Picks(bytes), valid, next: 0 }
    }

    pub(super) fn document(&mut self) -> Value {
        plan(self.list(&[], 0))
    }

    fn list(&mut self, outer: &[String], depth: usize) -> Value {
        let count = 1 + self.picks.pick(4);
        let mut visible = outer.to_vec();
        let mut steps = Vec::new();
        for _ in 0..count {
            if self.next < 40 {
                let step = self.step(&visible, depth);
                visible.push(step["id"].as_str().unwrap().to_owned());
                steps.push(step);
            }
        }
        if steps.is_empty() {
            self.next += 1;
            steps.push(llm(&format!("s{}", self.next), "x"));
        }
        steps.into()
    }

    /// A name to read, as `a.result`.
    fn name(&mut self, visible: &[String]) -> Option<String> {
        let name = match self.picks.pick(if self.valid { 6 } else { 10 }) {
            0..=2 => return None,
            3..=6 => visible.get(self.picks.pick(visible.len().max(1)))?.clone(),
            7 => format!("s{}", 1 + self.picks.pick(self.next + 3)),
            8 => format!("s{}", 1 + self.next),
            _ => "item".to_owned(),
        };
        Some(format!("{name}.result"))
    }

    fn step(&mut self, visible: &[String], depth: usize) -> Value {
        self.next += 1;
        let mut id = format!("s{}", self.next);
        if !self.valid && self.picks.pick(16) == 15 {
            id = format!("s{}", 1 + self.picks.pick(self.next));
        }
        let read = self.name(visible);
        let most = if self.valid { 3 } else { 5 };
        let kind = self.picks.pick(9);
        let mut step = match kind {
            6 if depth < most => {
                let test = read.unwrap_or_else(|| "true".to_owned());
                let (then, other) = (self.list(visible, depth + 1), self.list(visible, depth + 1));
                json!({"type": "condition", "if": test, "then": then, "else": other})
            }
            7 if depth < most => {
                let join = ["all", "any", "settled"][self.picks.pick(3)];
                let at_once = 1 + self.picks.pick(3);
                json!({"type": "parallel", "join": join, "at_once": at_once, "steps": self.list(visible, depth + 1)})
            }
            8 if depth < most => self.turns(&id, read, visible, depth),
            5 => json!({"type": "input", "question": text(read)}),
            _ => json!({"type": "llm", "prompt": text(read)}),
        };
        let fields = step.as_object_mut().unwrap();
        fields.insert("id".to_owned(), id.into());
        self.common(fields, visible);
        step
    }

    fn turns(&mut self, id: &str, read: Option<String>, visible: &[String], depth: usize) -> Value {
        let at_once = 1 + self.picks.pick(3);
        let mut step = json!({"type": "loop", "max": 3, "at_once": at_once});
        match read {
            None if self.picks.pick(2) == 1 => step["while"] = format!("{id}.result|length < 2").into(),
            read => step["over"] = read.unwrap_or_else(|| "[1, 2]".to_owned()).into(),
        }
        step["steps"] = self.list(visible, depth + 1);
        step
    }

    fn common(&mut self, fields: &mut Map<String, Value>, visible: &[String]) {
        if let Some(after) = self.name(visible).filter(|_| self.picks.pick(3) == 2) {
            let id = after.trim_end_matches(".result").to_owned();
            // Only those of the same list can be named; a valid document names what it reads instead.
            let field = if self.valid { ("when", after.into()) } else { ("after", json!([id])) };
            fields.insert(field.0.to_owned(), field.1);
        }
        if self.picks.pick(4) == 3 {
            fields.insert("on_error".to_owned(), "continue".into());
        }
    }
}

fn text(read: Option<String>) -> String {
    read.map_or_else(|| "x".to_owned(), |read| format!("{{{{ {read} }}}}"))
}
