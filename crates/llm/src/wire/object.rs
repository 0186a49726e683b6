//! [`Object`]: a JSON object that is written field by field, in their order, so that a request is one list of its fields.

use serde::Serialize;

/// A JSON object being written.
pub(crate) struct Object(Vec<u8>);

impl Object {
    pub(crate) fn new() -> Self {
        Self(vec![b'{'])
    }

    /// An object whose first field says of which type it is.
    pub(crate) fn typed(kind: &str) -> Self {
        Self::new().with("type", kind)
    }

    /// Adds a field.
    pub(crate) fn with(self, name: &str, value: impl Serialize) -> Self {
        let mut begun = self.begin(name);
        // Cannot fail: all map keys are strings, and no `Serialize` implementation returns an error.
        drop(serde_json::to_writer(&mut begun.0, &value));
        begun
    }

    /// Adds a field unless its value is missing.
    pub(crate) fn maybe(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a list unless it is empty.
    pub(crate) fn listed(self, name: &str, values: &[impl Serialize]) -> Self {
        self.maybe(name, Some(values).filter(|values| !values.is_empty()))
    }

    /// Adds an object unless it is empty.
    pub(crate) fn nested(self, name: &str, inner: Self) -> Self {
        if inner.0.len() == 1 { self } else { self.json(name, inner.end()) }
    }

    /// Adds a list of what is JSON already, unless it is empty.
    pub(crate) fn all(self, name: &str, values: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let list = list(values);
        if list == b"[]" { self } else { self.json(name, list) }
    }

    /// Adds a field whose value is JSON already.
    pub(crate) fn json(self, name: &str, value: Vec<u8>) -> Self {
        let mut begun = self.begin(name);
        begun.0.extend(value);
        begun
    }

    fn begin(mut self, name: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.0.extend(format!("\"{name}\":").bytes());
        self
    }

    /// The JSON.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

/// A list of what is JSON already.
pub(crate) fn list(values: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut list = vec![b'['];
    for value in values {
        if list.len() > 1 {
            list.push(b',');
        }
        list.extend(value);
    }
    list.push(b']');
    list
}
