//! [`Object`]: a JSON object that is written field by field, in their order, so that a request is one list of its fields.

use serde::Serialize;

/// A JSON object being written.
pub(crate) struct Object(Vec<u8>);

impl Object {
    pub(crate) fn new() -> Self {
        Self(vec![b'{'])
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
        if inner.0.len() == 1 {
            return self;
        }
        let mut begun = self.begin(name);
        begun.0.extend(inner.end());
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
