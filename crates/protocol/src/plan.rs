//! Plans: graphs of steps that run by themselves.

use houston_domain::id::{QuestionId, RunId, UserId};
use houston_domain::plan::Failure;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::question::QuestionResponse;
use crate::time::Time;

/// A plan.
///
/// ```json
/// {"id": "plan_0190…", "user_id": "user_0190…", "parent_id": "goal_0190…", "run_id": "run_0190…", "attached": true,
///  "status": "running", "paused": false, "version": 1, "document": {"v": 1, "goal": "Compare hotels", "steps": []}, "input": {},
///  "checklist": {"status": "running", "done": 1, "of": 3, "steps": []}, "steps": [], "questions": [], "output": null,
///  "replans": 0, "calls": 2, "deadline_at": "2026-11-22T09:10:00.000Z", "created_at": "2026-11-22T09:00:00.000Z",
///  "ended_at": null}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanResponse {
    #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::id::AgentableId))]
    pub id: String,
    pub user_id: UserId,
    /// The agentable that it works for.
    #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::id::AgentableId))]
    pub parent_id: String,
    /// Its run.
    pub run_id: Option<RunId>,
    /// Whether the run that made it waits for it.
    pub attached: bool,
    /// That of its run (`queued`, `running`, `waiting`, `completed`, `failed`, `cancelled`), or `paused`.
    pub status: String,
    pub paused: bool,
    /// Number of the document that is in force, from 1.
    pub version: i32,
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::schema::AnyJson>))]
    pub document: Value,
    /// What its expressions read as `input`.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub input: Value,
    /// What people see: the content of the activity `houston.plan`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::schema::AnyJson>))]
    pub checklist: Value,
    /// The first 200 steps, with the beginnings of their results.
    pub steps: Vec<PlanStepResponse>,
    /// The open questions of its steps.
    pub questions: Vec<QuestionResponse>,
    /// The result, once it is completed.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
    pub output: Option<Value>,
    /// How often it was changed because a step had failed.
    pub replans: i32,
    /// Calls of tools and models so far.
    pub calls: i32,
    /// When it fails if it has not ended.
    pub deadline_at: Time,
    pub created_at: Time,
    pub ended_at: Option<Time>,
}

/// A plan in a list.
///
/// ```json
/// {"id": "plan_0190…", "run_id": "run_0190…", "attached": false, "status": "completed", "version": 1,
///  "checklist": {"status": "completed", "done": 3, "of": 3, "steps": []}, "created_at": "2026-11-22T09:00:00.000Z",
///  "ended_at": "2026-11-22T09:01:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanListItem {
    #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::id::AgentableId))]
    pub id: String,
    pub run_id: Option<RunId>,
    pub attached: bool,
    /// As in [`PlanResponse`].
    pub status: String,
    pub version: i32,
    /// What people see: the content of the activity `houston.plan`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::schema::AnyJson>))]
    pub checklist: Value,
    pub created_at: Time,
    pub ended_at: Option<Time>,
}

/// A step of a plan.
///
/// ```json
/// {"path": "each[2].read", "title": "Read reviews", "type": "task", "status": "succeeded", "attempt": 1, "result": "Good.",
///  "is_cut": false, "error": null, "due_at": null, "task_id": "task_0190…", "question_id": null,
///  "started_at": "2026-11-22T09:00:00.000Z", "ended_at": "2026-11-22T09:00:07.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanStepResponse {
    /// Its id, behind those of the containers that it is in.
    pub path: String,
    pub title: String,
    /// `tool`, `llm`, `task`, `input`, `condition`, `parallel` or `loop`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `pending`, `running`, `retrying`, `asking`, `succeeded`, `failed`, `cancelled` or `skipped`.
    pub status: String,
    /// How often it was started.
    pub attempt: u32,
    /// What it returned; null: nothing yet.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
    pub result: Option<Value>,
    /// Whether `result` is only the beginning, as a text. `GET …/steps` has whole results.
    pub is_cut: bool,
    /// Why it failed or was skipped.
    pub error: Option<Failure>,
    /// When it starts again, or fails or takes its default.
    pub due_at: Option<Time>,
    /// The executor that works on it, or has.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<houston_domain::id::AgentableId>))]
    pub task_id: Option<String>,
    /// The question that it asks, or has asked.
    pub question_id: Option<QuestionId>,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
}

/// A plan to be made.
///
/// ```json
/// {"document": {"v": 1, "goal": "Say hello", "steps": [{"id": "hello", "type": "llm", "prompt": "Greet {{ input.name }}."}],
///  "output": "{{ hello.result }}"}, "input": {"name": "Ada"}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreatePlan {
    /// Version 1 of the documents of plans: up to 512 KiB and 2,000 steps. Either this or `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, crate::schema::AnyJson>>))]
    pub document: Option<Map<String, Value>>,
    /// The name of a file of the installation (`jobs/plans/*.json`), whose document it is; `input` must match its schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "research"))]
    pub template: Option<String>,
    /// What its expressions read as `input`: up to 64 KiB.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::schema::AnyJson>))]
    pub input: Map<String, Value>,
}

/// Changes of a plan that has begun. Steps that have begun stay as they are.
///
/// ```json
/// {"version": 1, "remove": ["book"], "add": [{"id": "ask", "type": "input", "question": "Which hotel?"}], "reason": "ask first"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangePlan {
    /// The version that is changed: if the plan has another by now, nothing is changed.
    pub version: i32,
    /// Paths of steps that have not begun.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub remove: Vec<String>,
    /// Steps for the end of the outermost list.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::AnyJson>, max_items = 100))]
    pub add: Vec<Value>,
    /// Another template of the result.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
    pub output: Option<Value>,
    /// Why, for people: one line of at most 200 characters.
    pub reason: Option<String>,
}
