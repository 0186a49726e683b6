//! Fake servers of providers, and the settings that make Houston use one.

use std::net::SocketAddr;

/// The API of a provider at a fake server.
pub(crate) struct Endpoint {
    /// What people read.
    pub(crate) name: &'static str,
    pub(crate) model: &'static str,
    /// Path prefix of the API.
    pub(crate) path: &'static str,
    /// The variables of its URL and of its key begin so, and end so.
    prefix: &'static str,
    ends: [&'static str; 2],
    /// Further settings.
    more: &'static [(&'static str, &'static str)],
}

/// OpenAI is asked over its newer API.
pub(crate) const RESPONSES: (&str, &str) = ("HOUSTON_PROVIDERS__OPENAI__WIRE", "openai_responses");

impl Endpoint {
    /// One with the variables `<prefix>_BASE_URL` and `<prefix>_API_KEY`.
    pub(crate) const fn new(
        name: &'static str,
        model: &'static str,
        path: &'static str,
        prefix: &'static str,
    ) -> Self {
        Self { name, model, path, prefix, ends: ["BASE_URL", "API_KEY"], more: &[] }
    }

    pub(crate) const fn ends(self, ends: [&'static str; 2]) -> Self {
        Self { ends, ..self }
    }

    pub(crate) const fn with(self, more: &'static [(&'static str, &'static str)]) -> Self {
        Self { more, ..self }
    }

    /// The environment of Houston.
    pub(crate) fn variables(&self, server: SocketAddr) -> Vec<(String, String)> {
        let [url, key] = self.ends.map(|end| format!("{}_{end}", self.prefix));
        let mut variables = vec![
            ("HOUSTON_MODEL".to_owned(), self.model.to_owned()),
            (url, format!("http://{server}{}", self.path)),
            (key, "sk-not-a-key".to_owned()),
        ];
        variables.extend(self.more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        variables
    }
}
