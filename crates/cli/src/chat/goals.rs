//! Chooses the goal to talk in: the one asked for, the last one, the demo's, or a new one.
//!
//! Goals saved in the folder: `chat.json` has the last goal for each server, `demo.json` the goal that `houston dev` created. A
//! file that is missing or unreadable counts as empty.
//!
//! ```json
//! {"last_goals": {"http://127.0.0.1:8080": "goal_0190…"}}
//! {"url": "http://127.0.0.1:8080", "goal": "goal_0190…"}
//! ```

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use houston_domain::id::Ids;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::problem::ProblemCode;
use houston_protocol::user::UserResponse;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::{ChatError, Result};
use super::server::Server;

/// Finds the goal, or creates one. `login` is the user's name on this machine; it becomes the name of a new user.
///
/// # Errors
/// [`ChatError::GoalNotFound`] when the requested goal does not exist; any other [`ChatError`] of the requests.
pub(crate) async fn find_goal(
    server: &Server,
    asked_for: Option<&str>,
    saved_goals: &SavedGoals,
    demo: Option<&Demo>,
    login: Option<&str>,
    ids: &Ids,
) -> Result<AgentableResponse> {
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
async fn make_user(server: &Server, login: &str, ids: &Ids) -> Result<UserResponse> {
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

/// `demo.json`: the server of `houston dev` and its demo goal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Demo {
    pub(crate) url: String,
    pub(crate) goal: String,
}

impl Demo {
    pub(crate) fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::write(folder.join("demo.json"), serde_json::to_vec(self)?)
    }

    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join("demo.json")).ok()?;
        serde_json::from_str::<Self>(&text).ok().map(|demo| Self { url: address(&demo.url), ..demo })
    }
}

/// Normalises a server's address, for comparisons and for joining with paths.
pub(crate) fn address(url: &str) -> String {
    url.trim().trim_end_matches('/').to_owned()
}

/// The last goal for each server.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedGoals {
    #[serde(skip)]
    file: PathBuf,
    /// Goal ids by the server's address.
    #[serde(default)]
    last_goals: BTreeMap<String, String>,
}

impl SavedGoals {
    pub(crate) fn read(folder: &Path) -> Self {
        let file = folder.join("chat.json");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        Self { file, ..serde_json::from_str(&text).unwrap_or_default() }
    }

    fn last_goal(&self, url: &str) -> Option<&str> {
        self.last_goals.get(url).map(String::as_str)
    }

    /// Saves a goal, in a file that only its owner can read.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub(crate) fn save(&mut self, url: &str, goal: &str) -> std::io::Result<()> {
        if self.last_goal(url) == Some(goal) {
            return Ok(());
        }
        self.last_goals.insert(url.to_owned(), goal.to_owned());
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        // Another chat may read the file at any time: it is replaced as a whole.
        let fresh = self.file.with_extension(format!("json.{}", std::process::id()));
        let mut file =
            std::fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&fresh)?;
        writeln!(file, "{}", serde_json::to_string_pretty(self)?)?;
        std::fs::rename(fresh, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn goals_are_saved_for_each_server() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let mut saved_goals = SavedGoals::read(&folder);
        assert_eq!(saved_goals.last_goal("http://a"), None);
        saved_goals.save("http://a", "goal_1").unwrap();
        saved_goals.save("http://b", "goal_2").unwrap();
        saved_goals.save("http://a", "goal_3").unwrap();
        let saved_goals = SavedGoals::read(&folder);
        assert_eq!(
            (saved_goals.last_goal("http://a"), saved_goals.last_goal("http://b")),
            (Some("goal_3"), Some("goal_2"))
        );
        let file = folder.join("chat.json");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);

        std::fs::write(&file, "{oops").unwrap();
        assert_eq!(SavedGoals::read(&folder).last_goal("http://a"), None);
    }

    #[test]
    fn demo_file_is_read_if_present() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Demo::read(folder.path()).is_none());
        let written = Demo { url: "http://127.0.0.1:1/".to_owned(), goal: "goal_1".to_owned() };
        written.write(folder.path()).unwrap();
        let demo = Demo::read(folder.path()).unwrap();
        assert_eq!((demo.url.as_str(), demo.goal.as_str()), ("http://127.0.0.1:1", "goal_1"));
    }
}
