//! `/v1/{kinds}`: the operations that all kinds of agentables share.

pub(crate) mod archive;
pub(crate) mod cancel;
pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod result;
pub(crate) mod runs;
mod serving;
pub(crate) mod tasks;
pub(crate) mod tools;

use std::collections::HashMap;

use houston_domain::agentable::{AgentType, MAX_DESCRIPTION_BYTES};
use houston_domain::id::AgentableId;
use houston_protocol::agentable::{AgentableResponse, TaskResultResponse};
use houston_protocol::time::Time;
use houston_store::agentable::Agentable;
use houston_store::read_mark::ReadMark;
use houston_store::task_result::TaskResult;

use crate::auth::Caller;
use crate::body::{check_size, check_text};
use crate::error::ApiError;
use crate::state::App;

/// The response for `agentable`. `kind` is its type; `None` if this server has no such kind, then the stored status is
/// returned.
pub(crate) fn response(agentable: Agentable, kind: Option<&AgentType>) -> AgentableResponse {
    let stored = agentable.status;
    let status = match kind {
        Some(kind) => kind.status(stored.as_deref(), agentable.run_status),
        None => stored,
    };
    AgentableResponse {
        id: AgentableId::public_id(agentable.id, &agentable.kind),
        user_id: agentable.user,
        parent_id: agentable.parent.map(|(kind, id)| id.public_id(&kind)),
        title: agentable.title,
        description: agentable.description,
        status,
        run_id: agentable.run,
        agent_id: agentable.served_by.agent,
        team_id: agentable.served_by.team,
        tools: agentable.tools,
        result: None,
        message: None,
        cost: agentable.cost.total.map(|cost| cost.normalize()),
        unpriced_calls: agentable.cost.unpriced_calls,
        last_seq: Some(agentable.last_seq),
        read_seq: None,
        unread: None,
        created_at: Time(agentable.created_at),
    }
}

/// The responses for `agentables`; tasks have their results, and those with messages say what is unread.
pub(crate) async fn responses(
    app: &App,
    caller: Caller,
    agentables: Vec<Agentable>,
) -> Result<Vec<AgentableResponse>, ApiError> {
    let tasks: Vec<AgentableId> =
        agentables.iter().filter(|one| one.parent.is_some()).map(|one| one.id).collect();
    let mut results = HashMap::new();
    if !tasks.is_empty() {
        for result in app.store(caller).task_results(&tasks).await? {
            results.insert(result.task, result);
        }
    }
    let mut marks = read_marks(app, caller, &agentables).await?;
    let with_result = |agentable: Agentable| {
        let result = results.remove(&agentable.id).map(task_result);
        let kind = app.state.agent_types.get(&agentable.kind);
        let mark = marks.remove(&agentable.id);
        let (read_seq, unread) = (mark.as_ref().map(|mark| mark.read_seq), mark.map(|mark| mark.unread));
        AgentableResponse { result, read_seq, unread, ..response(agentable, kind) }
    };
    Ok(agentables.into_iter().map(with_result).collect())
}

/// How far those with messages were read.
async fn read_marks(
    app: &App,
    caller: Caller,
    agentables: &[Agentable],
) -> Result<HashMap<AgentableId, ReadMark>, ApiError> {
    let kinds = &app.state.agent_types;
    let has_messages = |one: &&Agentable| kinds.get(&one.kind).is_some_and(|kind| kind.conversational);
    let threads: Vec<AgentableId> = agentables.iter().filter(has_messages).map(|one| one.id).collect();
    if threads.is_empty() {
        return Ok(HashMap::new());
    }
    let marks = app.store(caller).read_marks(&threads).await?;
    Ok(marks.into_iter().map(|mark| (mark.agentable, mark)).collect())
}

fn task_result(result: TaskResult) -> TaskResultResponse {
    TaskResultResponse {
        run_status: result.status,
        reason: result.reason,
        message: result.message,
        text: result.text,
        ended_at: Time(result.ended_at),
    }
}

fn check_description(description: &str) -> Result<(), ApiError> {
    check_text("/description", description)?;
    check_size("/description", description.len(), MAX_DESCRIPTION_BYTES)
}
