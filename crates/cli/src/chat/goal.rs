//! Chooses the goal to talk in: the one asked for, the last one, the demo's, or a new one.

use houston_domain::id::Ids;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::problem::ProblemCode;
use houston_protocol::user::UserResponse;
use uuid::Uuid;

use super::error::ChatError;
use super::saved_goals::{Demo, SavedGoals};
use super::server::Server;

/// Finds the goal, or creates one. `login` is the user's name on this machine; it becomes the name of a new user.
///
/// # Errors
/// [`ChatError::GoalNotFound`] when the requested goal does not exist; any other [`ChatError`] of the requests.
pub(crate) async fn find(
    server: &Server,
    asked_for: Option<&str>,
    saved_goals: &SavedGoals,
    demo: Option<&Demo>,
    login: Option<&str>,
    ids: &Ids,
) -> Result<AgentableResponse, ChatError> {
    if let Some(goal) = asked_for {
        return server.goal(goal).await;
    }
    let demo = demo.filter(|demo| demo.url == server.url).map(|demo| demo.goal.as_str());
    for goal in saved_goals.last_goal(&server.url).into_iter().chain(demo) {
        match server.goal(goal).await {
            // Another database, or another tenant's key: the saved goal does not exist there.
            Err(ChatError::GoalNotFound { .. }) => {}
            found => return found,
        }
    }
    let user = make_user(server, login.unwrap_or("chat"), ids).await?;
    server.create_goal(user.id, super::TITLE).await
}

/// Creates a user of that name. If the name is taken, possibly by another person, it gets a random suffix.
async fn make_user(server: &Server, login: &str, ids: &Ids) -> Result<UserResponse, ChatError> {
    if let Some(user) = server.create_user(login, login).await? {
        return Ok(user);
    }
    let random = ids.next::<Uuid>().simple().to_string();
    let suffixed = format!("{login}-{}", &random[random.len() - 8..]);
    let refused = || ChatError::Refused {
        code: ProblemCode::AlreadyExists,
        detail: format!("the user could not be created: `{suffixed}` exists already; try again"),
    };
    server.create_user(&suffixed, login).await?.ok_or_else(refused)
}
