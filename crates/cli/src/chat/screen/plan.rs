//! Plans of the agent: on a terminal their lists stay below everything else and change in place, elsewhere each change is a
//! line.

use std::collections::HashSet;

use houston_domain::plan::{Checklist, LineStatus};
use houston_domain::shared_state::apply;
use houston_protocol::agui::EntityId;
use serde_json::Value;

use super::{Paint, Screen};
use crate::chat::checklist::{all, head, is_over, line, part};
use crate::chat::output::{Output, Transient};

/// The plans that are listed.
#[derive(Debug, Default)]
pub(super) struct Plans {
    open: Vec<(EntityId, Value)>,
    /// Ids of the questions of their steps that were seen.
    asked: HashSet<String>,
    /// Plans with questions that were not seen before.
    asking: Vec<String>,
}

impl Plans {
    /// The lists below everything else.
    pub(super) fn transients(&self) -> impl Iterator<Item = Transient> {
        let lists = self.open.iter().filter_map(|(_, content)| read(content));
        lists.map(|list| {
            let lines = part(&list);
            Transient { paint: Paint::Dim, rows: lines.len(), text: lines.join("\n") }
        })
    }

    fn take_note(&mut self, list: &Checklist) {
        let questions = list.steps.iter().filter_map(|line| line.question_id.clone());
        let mut is_new = false;
        for question in questions {
            is_new |= self.asked.insert(question);
        }
        self.asking.extend(list.plan_id.clone().filter(|_| is_new));
    }
}

fn read(content: &Value) -> Option<Checklist> {
    serde_json::from_value(content.clone()).ok()
}

impl Screen {
    /// Ids of the plans that ask something new.
    pub(crate) fn take_asking(&mut self) -> Vec<String> {
        std::mem::take(&mut self.plans.asking)
    }

    pub(super) fn plan_delta(&mut self, out: &mut Output, message: EntityId, patch: &[Value]) {
        let open = self.plans.open.iter().find(|(id, _)| *id == message);
        if let Some((id, content)) = open.cloned() {
            let mut content = content;
            apply(&mut content, patch);
            self.plan(out, id, content);
        }
    }

    pub(super) fn plan(&mut self, out: &mut Output, id: EntityId, content: Value) {
        let Some(list) = read(&content) else { return };
        self.plans.take_note(&list);
        let at = self.plans.open.iter().position(|(open, _)| *open == id);
        let before = at.and_then(|at| read(&self.plans.open.swap_remove(at).1));
        if is_over(&list) {
            let lines = if self.style.live { all(&list) } else { changes(before.as_ref(), &list) };
            lines.iter().for_each(|text| self.write_line(out, Paint::Dim, text));
            return;
        }
        if !self.style.live {
            changes(before.as_ref(), &list).iter().for_each(|text| self.write_line(out, Paint::Dim, text));
        }
        self.plans.open.push((id, content));
    }

    /// The run ends: plans that go on are no longer reported of.
    pub(super) fn end_plans(&mut self, out: &mut Output) {
        let open = std::mem::take(&mut self.plans.open);
        for list in open.iter().filter_map(|(_, content)| read(content)) {
            let id = list.plan_id.as_deref().unwrap_or("the plan");
            self.write_line(out, Paint::Dim, &format!("{}; it goes on: houston plan show {id}", head(&list)));
        }
    }
}

/// The lines of what is new.
fn changes(before: Option<&Checklist>, list: &Checklist) -> Vec<String> {
    let was = |id: &str| {
        let line = before.and_then(|before| before.steps.iter().find(|line| line.id == id));
        line.map_or(LineStatus::Pending, |line| line.status)
    };
    let changed = list.steps.iter().filter(|line| was(&line.id) != line.status).map(line);
    match before {
        None => [head(list)].into_iter().chain(changed).collect(),
        Some(before) => {
            let ended = (before.status != list.status && is_over(list)).then(|| head(list));
            changed.chain(ended).collect()
        }
    }
}
