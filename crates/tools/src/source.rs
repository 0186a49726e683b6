//! The arguments that say where a text is: in the call, in the workspace, or in a large result.

use houston_domain::guard::is_listed;
use houston_domain::id::ResultId;
use serde_json::{Value, json};

use crate::ask::TextSource;
use crate::files;
use crate::tool::{CallContext, InvalidInput};

/// Where a text is: exactly one of these is given.
pub(crate) struct Place {
    pub(crate) text: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) result_id: Option<ResultId>,
}

/// The properties of these arguments in a schema.
pub(crate) fn properties() -> Value {
    json!({
        "text": {"type": "string", "description": "The text itself; or one of the next two."},
        "path": {"type": "string", "description": "A file of the workspace."},
        "result_id": {"type": "string", "description": "A large result: an id that a shortened result names."},
    })
}

/// The source that the arguments name.
///
/// # Errors
/// [`InvalidInput`] when there is not exactly one, the path is none, or the guards do not let the agent read it.
pub(crate) fn of(tool: &str, place: Place, context: &CallContext) -> Result<TextSource, InvalidInput> {
    match place {
        Place { text: Some(text), path: None, result_id: None } => Ok(TextSource::Given(text)),
        Place { text: None, path: Some(path), result_id: None } => {
            let path = files::file(tool, &path)?;
            if !is_listed(&context.guards, path.as_str()) {
                return Err(InvalidInput(format!(
                    "{tool}: `{path}` is not among the paths that you may read"
                )));
            }
            Ok(TextSource::File(path))
        }
        Place { text: None, path: None, result_id: Some(id) } => Ok(TextSource::Result(id)),
        _ => Err(InvalidInput(format!("{tool}: give exactly one of `text`, `path` and `result_id`"))),
    }
}
