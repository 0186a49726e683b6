//! Grants: lasting yes of a person.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::layer::{CALL_WORK, Matching, When, no_pointer};
use super::pattern::{Patterns, Star};
use super::{GuardError, LayerKind};
use crate::id::{GrantId, UserId};
use crate::time::Time;

/// The lasting yes of a person. It lifts questions that allow one, and nothing else.
///
/// ```json
/// {"tool": "github__create_issue", "when": {"/repo": {"glob": "acme/*"}, "/draft": {"equals": true}}, "pin": "6f1c…"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The name of the tool, or a pattern.
    pub tool: String,
    /// JSON pointers into the arguments: what they must be. All must hold.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub when: BTreeMap<String, Granted>,
    /// The pin of the tool's definition when the yes was given. It is void for a tool with another pin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
}

/// How far a grant reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    /// The agentable whose run asked.
    Agentable,
    /// All agentables of its user.
    User,
}

/// What an argument must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Granted {
    /// This value, exactly.
    Equals(Value),
    /// What matches this pattern, as in a rule that allows. See [`super::RuleSettings`].
    Glob(String),
}

/// A grant with its patterns compiled.
#[derive(Debug, Clone)]
pub struct CompiledGrant {
    pub(super) tool: String,
    tools: Patterns,
    equal: Vec<(String, Value)>,
    when: When,
    pin: Option<String>,
}

impl Grant {
    /// Compiles the grant. Errors name `layer`: that of the person who gave it.
    ///
    /// # Errors
    /// [`GuardError`] when a pattern or a pointer is wrong.
    pub fn compile(&self, layer: LayerKind) -> Result<CompiledGrant, GuardError> {
        let wrong =
            |wrong: String| GuardError::new(layer, &format!(", the grant of {:.100}{wrong}", self.tool));
        let tools = Patterns::new(std::slice::from_ref(&self.tool), Star::All)
            .map_err(|problem| wrong(format!(": {problem}")))?;
        let (mut equal, mut globs) = (Vec::new(), BTreeMap::new());
        for (pointer, granted) in &self.when {
            ensure!(pointer.starts_with('/'), wrong(no_pointer(pointer)));
            match granted {
                Granted::Equals(value) => equal.push((pointer.clone(), value.clone())),
                Granted::Glob(glob) => {
                    globs.insert(pointer.clone(), glob.clone());
                }
            }
        }
        let when = When::new(&globs, Matching::Exact).map_err(wrong)?;
        Ok(CompiledGrant { tool: self.tool.clone(), tools, equal, when, pin: self.pin.clone() })
    }
}

impl CompiledGrant {
    /// Stored grants, compiled. One that cannot be compiled was stored by a newer Houston, and allows nothing here.
    pub fn of_stored(grants: &[Grant]) -> Vec<Self> {
        grants.iter().filter_map(|grant| grant.compile(LayerKind::User).ok()).collect()
    }

    /// Whether it is about this call of a tool whose definition has this pin.
    pub fn covers(&self, tool: &str, input: &Value, pin: Option<&str>) -> bool {
        self.pin.as_deref() == pin
            && self.tools.is_match(tool)
            && self.equal.iter().all(|(pointer, value)| input.pointer(pointer) == Some(value))
            && self.when.is_met(input, &mut CALL_WORK.clone())
    }
}

/// A lasting yes: calls of the tool that it covers are not asked about, where a lasting yes is possible.
///
/// ```json
/// {"id": "grant_0190…", "user_id": "user_0190…", "agentable": "goal_0190…", "tool": "send_mail",
///  "when": {"/to": {"glob": "*@example.com"}}, "granted_by": "Ann", "created_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = GrantResponse))]
pub struct GivenGrant {
    pub id: GrantId,
    pub user_id: UserId,
    /// The agentable it is for; null: all of the user's.
    pub agentable: Option<String>,
    pub tool: String,
    /// JSON pointers into the arguments, and what they must be.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::schema::AnyJson>))]
    pub when: BTreeMap<String, Granted>,
    /// Who gave it, as the request said.
    pub granted_by: Option<String>,
    pub created_at: Time,
}
