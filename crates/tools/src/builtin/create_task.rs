//! `create_task`: creates a task that runs on its own.

use houston_domain::answering::Output;
use houston_domain::id::AgentableId;
use houston_domain::knowledge::MAX_TITLE_CHARS;
use houston_domain::model_policy::Latency;
use houston_domain::task::{MAX_INSTRUCTIONS_BYTES, NewTask, TaskLimits};
use houston_store::record::RecordIds;
use houston_store::task::TaskCounts;
use serde_json::{Map, Value};

use super::prelude::*;
use crate::record::NewTaskInfo;
use crate::tool::TaskKind;

built_in! {
    CreateTask: "create_task", Idempotent;
}

// How many there may be is checked when it is written.
/// Let a task carry something out on its own, in the background. It knows what you work for and its instructions,
/// nothing else: no notes, no messages. When it has ended you get its result and its notes. Do not wait for it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateTask {
    /// One line that says what the task is about.
    title: String,
    /// What to do, what to know for it, and what the result should be.
    instructions: String,
    /// Which kind of task, if there are several; the usual one when left out.
    kind: Option<String>,
    /// The names of the tools it may call; all that tasks have when left out.
    tools: Option<Vec<String>>,
    /// The JSON Schema of its result, an object, if you need values; a text when left out.
    #[schemars(with = "Option<Map<String, Value>>")]
    output: Option<Value>,
    /// When it is needed, if not as soon as yours: `relaxed` in hours, `batch` in a day, cheaper.
    #[serde(default)]
    #[schemars(with = "Patience")]
    latency: Option<Patience>,
}

// `Latency` without the dear one, which only a person chooses.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Patience {
    Interactive,
    Relaxed,
    Batch,
}

impl From<Patience> for Latency {
    fn from(patience: Patience) -> Self {
        match patience {
            Patience::Interactive => Self::Interactive,
            Patience::Relaxed => Self::Relaxed,
            Patience::Batch => Self::Batch,
        }
    }
}

impl BuiltIn for CreateTask {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let Self { title, instructions, kind, tools, output, latency } = self;
        line("title", title.as_str(), MAX_TITLE_CHARS)?;
        text("instructions", instructions.as_str(), MAX_INSTRUCTIONS_BYTES)?;
        let kind = kind_of(&context.tasks, kind.as_deref())
            .map_err(|reason| failed(ToolErrorCode::PermissionDenied, reason))?
            .clone();
        let tools = tools_of_task(&kind.tools, tools).map_err(invalid)?;
        let output = output.map(Output::of);
        if let Some(Err(wrong)) = output.as_ref().map(Output::check) {
            return Err(invalid(format!("output: {}", wrong.reason)));
        }
        let create = Create { title, instructions, kind: TaskKind { tools, ..kind }, output, latency };
        Ok(Plan::record(create, context))
    }
}

/// A task to be created; `kind` has the tools it gets.
#[derive(Debug)]
struct Create {
    title: String,
    instructions: String,
    kind: TaskKind,
    output: Option<Output>,
    latency: Option<Patience>,
}

impl Access for Create {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let (counts, limits) = (tx.task_counts().await?, tx.limits.tasks);
        check_counts(&counts, &limits, tx.settings.knowledge_limits.max_notes)?;
        let (RecordIds { row, run, message }, Self { title, kind, .. }) = (tx.ids, self);
        let id = AgentableId(row);
        let task = NewTask {
            id,
            run,
            message,
            kind: kind.kind.clone(),
            status: kind.status.clone(),
            title: title.clone(),
            instructions: self.instructions.clone(),
            tools: kind.tools.clone(),
            output: self.output.clone(),
            latency: self.latency.map(Latency::from),
            traceparent: None,
        };
        tx.create_task(task, counts.depth + 1).await?;
        Ok(format!(
            "Created {}: {title}. It works on its own; you will be told when it has ended. Do not wait for it.",
            id.public_id(&kind.kind)
        ))
    }

    fn task(&self) -> Option<NewTaskInfo<'_>> {
        Some(NewTaskInfo { kind: &self.kind.kind, title: &self.title, plan: None })
    }
}

/// The kind with this name, or the first one.
fn kind_of<'k>(kinds: &'k [TaskKind], wanted: Option<&str>) -> Result<&'k TaskKind, String> {
    let mut kinds = kinds.iter().filter(|kind| !kind.is_plan);
    let names: Vec<&str> = kinds.clone().map(|kind| kind.kind.as_str()).collect();
    let found = match wanted {
        Some(wanted) => kinds.find(|kind| kind.kind == wanted),
        None => kinds.next(),
    };
    found.ok_or_else(|| match wanted {
        Some(wanted) => {
            format!("you cannot create a `{wanted}`; there are: {}", names.join(", "))
        }
        None => "you cannot create tasks: do it yourself, with your own tools".to_owned(),
    })
}

/// Of the allowed tools only the `wanted` ones, if given.
fn tools_of_task(allowed: &[String], wanted: Option<Vec<String>>) -> Result<Vec<String>, String> {
    let Some(wanted) = wanted else { return Ok(allowed.to_vec()) };
    match wanted.iter().find(|name| !allowed.contains(name)) {
        None => Ok(wanted),
        Some(name) => {
            let allowed = allowed.join(", ");
            Err(format!("a task cannot have `{name}`; there are: {allowed}"))
        }
    }
}

/// Refuses a task when a limit is reached, with what the model can do instead.
pub(super) fn check_counts(counts: &TaskCounts, limits: &TaskLimits, max_notes: u32) -> Result<()> {
    let TaskLimits { max_depth, max_open, max_per_run, .. } = *limits;
    let TaskCounts { depth, open, of_this_run, notes, is_cancelled } = *counts;
    let (code, text) = if is_cancelled {
        let text = "this run is being cancelled: no task was created".to_owned();
        (ToolErrorCode::PermissionDenied, text)
    } else if depth >= max_depth {
        let text = format!(
            "tasks may go {max_depth} deep, and you are {depth} deep: do it yourself, with your own tools"
        );
        (ToolErrorCode::PermissionDenied, text)
    } else if open >= max_open {
        let text = format!(
            "{open} of your tasks are open, and at most {max_open} may be: wait until one has ended (you will be \
             told), then create this one"
        );
        (ToolErrorCode::RateLimited, text)
    } else if of_this_run >= max_per_run {
        let text = format!(
            "you have created {of_this_run} tasks in this run, and at most {max_per_run} are allowed: put what is \
             left into one task later, or do it yourself"
        );
        (ToolErrorCode::RateLimited, text)
    } else if notes >= i64::from(max_notes) {
        let text = format!(
            "you have {max_notes} notes, the maximum, so a task could not hand over its own. Delete some first"
        );
        (ToolErrorCode::RateLimited, text)
    } else {
        return Ok(());
    };
    Err(failed(code, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do_instead() {
        let limits = TaskLimits { max_depth: 1, max_open: 2, max_per_run: 3, ..TaskLimits::default() };
        let fine = || TaskCounts { depth: 0, open: 1, of_this_run: 2, notes: 0, is_cancelled: false };
        assert!(check_counts(&fine(), &limits, 4).is_ok());
        for (counts, expected) in [
            (TaskCounts { depth: 1, ..fine() }, "1 deep"),
            (TaskCounts { open: 2, ..fine() }, "at most 2 may be: wait until one has ended"),
            (TaskCounts { of_this_run: 3, ..fine() }, "at most 3 are allowed: put what is left"),
            (TaskCounts { notes: 4, ..fine() }, "Delete some"),
            (TaskCounts { is_cancelled: true, ..fine() }, "being cancelled"),
        ] {
            let refusal = format!("{:?}", check_counts(&counts, &limits, 4).unwrap_err());
            assert!(refusal.contains("Failure") && refusal.contains(expected), "{refusal}");
        }
    }

    #[test]
    fn task_gets_wanted_tools_out_of_the_allowed_ones() {
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let allowed = names(&["create_note", "list_notes"]);
        assert_eq!(tools_of_task(&allowed, None).unwrap(), allowed);
        assert_eq!(tools_of_task(&allowed, Some(names(&["list_notes"]))).unwrap(), ["list_notes"]);
        assert_eq!(tools_of_task(&allowed, Some(names(&[]))).unwrap(), [""; 0]);
        for refused in ["read_note", "send_message", "create_task", "fly"] {
            let error = tools_of_task(&allowed, Some(names(&["create_note", refused]))).unwrap_err();
            assert!(error.contains(refused) && error.contains("create_note, list_notes"), "{error}");
        }
    }

    #[test]
    fn task_is_of_a_kind_that_the_agent_may_create() {
        let kind = |kind: &str| TaskKind { kind: kind.to_owned(), ..TaskKind::default() };
        let kinds = [kind("task"), kind("study")];
        assert_eq!(kind_of(&kinds, None).unwrap().kind, "task");
        assert_eq!(kind_of(&kinds, Some("study")).unwrap().kind, "study");
        assert!(kind_of(&kinds, Some("goal")).unwrap_err().contains("there are: task, study"));
        assert!(kind_of(&[], None).unwrap_err().contains("you cannot create tasks"));
    }
}
