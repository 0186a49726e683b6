//! Parts of JSON documents.

use serde_json::Value;

/// Maximum number of values that a pointer with `*` finds.
const MAX_FOUND: usize = 1000;

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("`text` is not JSON: {error}"))
}

pub(super) fn format(text: &str) -> Result<String, String> {
    serde_json::to_string_pretty(&parse(text)?).map_err(|error| error.to_string())
}

/// The value at a JSON pointer; with `*` for any key or index, the list of all values.
pub(super) fn get(pointer: &str, text: &str) -> Result<String, String> {
    let document = parse(text)?;
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(format!(
            "`pattern` is `{pointer}`, but a JSON pointer begins with `/`, as /items/0/name"
        ));
    }
    let mut found = vec![&document];
    for key in pointer.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        found = found.into_iter().flat_map(|value| children(value, &key)).take(MAX_FOUND + 1).collect();
    }
    if pointer.split('/').any(|key| key == "*") {
        found.truncate(MAX_FOUND);
        return Ok(found.into_iter().cloned().collect::<Value>().to_string());
    }
    match found.first() {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(value) => Ok(value.to_string()),
        None => Err(format!("there is nothing at `{pointer}`; {}", keys(&document))),
    }
}

fn children<'v>(value: &'v Value, key: &str) -> Vec<&'v Value> {
    match (value, key) {
        (Value::Object(map), "*") => map.values().collect(),
        (Value::Array(items), "*") => items.iter().collect(),
        (Value::Object(map), key) => map.get(key).into_iter().collect(),
        (Value::Array(items), key) => {
            key.parse().ok().and_then(|at: usize| items.get(at)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// What the document has at its top.
fn keys(document: &Value) -> String {
    match document {
        Value::Object(map) => {
            let keys: Vec<&str> = map.keys().take(20).map(String::as_str).collect();
            format!("its keys are {}", keys.join(", "))
        }
        Value::Array(items) => format!("it is a list of {}", items.len()),
        _ => "it is a single value".to_owned(),
    }
}
