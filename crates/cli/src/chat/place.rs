//! Which goal to talk in: the one asked for, the last one, the demo's, or a new one.

use houston_domain::id::Ids;
use uuid::Uuid;

use super::error::ChatError;
use super::memory::{Demo, Memory};
use super::message::{Goal, User};
use super::server::Server;

/// Finds it, or makes it. `login` is what the person is called here.
///
/// # Errors
/// When the goal asked for does not exist, or the server does not answer.
pub(crate) async fn find(
    server: &Server,
    asked_for: Option<&str>,
    memory: &Memory,
    demo: Option<&Demo>,
    login: Option<&str>,
    ids: &Ids,
) -> Result<Goal, ChatError> {
    if let Some(goal) = asked_for {
        return server.goal(goal).await;
    }
    let demo = demo.filter(|demo| demo.url == server.url).map(|demo| demo.goal.as_str());
    for known in memory.last_goal(&server.url).into_iter().chain(demo) {
        match server.goal(known).await {
            // Another database, or another tenant's key: what is remembered does not hold there.
            Err(ChatError::NoGoal { .. }) => {}
            found => return found,
        }
    }
    let user = make_user(server, login.unwrap_or("chat"), ids).await?;
    server.create_goal(&user.id, super::TITLE).await
}

/// A user of that name; where the name is taken, it gets a suffix: whoever has it may be somebody else.
async fn make_user(server: &Server, login: &str, ids: &Ids) -> Result<User, ChatError> {
    if let Some(user) = server.create_user(login, login).await? {
        return Ok(user);
    }
    let random = ids.next::<Uuid>().simple().to_string();
    let suffixed = format!("{login}-{}", &random[random.len() - 8..]);
    let refused = || ChatError::Refused {
        code: "already_exists".to_owned(),
        detail: format!("no user could be made: there is a `{suffixed}` already; try again"),
    };
    server.create_user(&suffixed, login).await?.ok_or_else(refused)
}
