//! `POST /v1/users/{id}/tables`: creates a custom table, with fields or by the name of a preset.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::custom_table::{Fields, MAX_DESCRIPTION_BYTES, check_name};
use houston_domain::id::UserId;
use houston_protocol::table::CreateTable;
use houston_store::Error;
use houston_store::custom_table::{CustomTable, NewCustomTable};

use super::{refused, response};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::{Creation, check_size, check_text};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::state::App;

endpoint! {
    CREATE: post "/v1/users/{id}/tables" => create,
    tag = "tables",
    operation_id = "create_custom_table",
    summary = "Create a custom table, with fields or by the name of a preset.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = CreateTable,
    responses(
        (status = 201, description = "The new table.", body = houston_protocol::table::TableResponse),
        (status = 409, description = "`already_exists`: the user has a table with this name; `full`: the maximum number of tables exists.")
    ),
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    request: Creation<CreateTable>,
) -> Result<Response, ApiError> {
    let Creation { value, key } = request;
    let store = app.store(caller);
    let CreateTable { name, description, mut fields, preset } = value;
    let mut about = String::new();
    if let Some(preset) = &preset {
        if !fields.is_empty() {
            return Err(ApiError::field("/preset", "give either `fields` or `preset`, not both"));
        }
        let presets = store.table_presets();
        let found =
            presets.named(preset).map_err(|unknown| ApiError::field("/preset", unknown.to_string()))?;
        (about, fields) = (found.description.clone(), found.fields.clone());
    }
    let missing = || ApiError::field("/name", "missing field `name`");
    let name = name.or(preset).ok_or_else(missing)?;
    check_name(&name).map_err(|reason| ApiError::field("/name", reason))?;
    let description = description.unwrap_or(about);
    check_text("/description", &description)?;
    check_size("/description", description.len(), MAX_DESCRIPTION_BYTES)?;
    let limits = store.knowledge_limits().tables;
    let fields = Fields::new(fields, &limits).map_err(|faults| refused("/fields", faults))?;
    store.user(user).await?;
    let (id, created_at) = (app.state.ids.beside(user), app.now());
    let (name, description, fields) = (name.as_str(), description.as_str(), &fields);
    let new = NewCustomTable { id, user, name, description, fields, untrusted: false, created_at };
    let table = CustomTable {
        id,
        user,
        name: name.to_owned(),
        description: description.to_owned(),
        fields: fields.clone(),
        records: 0,
        bytes: 0,
        untrusted: false,
        created_at,
    };
    let done =
        store.create_table(&new, key.as_ref().map(Key::as_stored), &stored_body(&response(table))).await;
    let done = done.map_err(|error| match error {
        Error::Exists { what, existing } => ApiError::AlreadyExists { what, field: "name", existing },
        error => error.into(),
    })?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, "/v1/tables")
}
