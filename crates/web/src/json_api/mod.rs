//! A customer's HTTP endpoints as tools: what a TOML file or an OpenAPI 3 document says about them, and requests from
//! the arguments that a model chose.
//!
//! Arguments fill in values, nothing else: scheme, host and port, the number of path segments, and the names of query
//! parameters and headers are those of the definition, whatever a value contains.

use http::{HeaderName, Method};
use serde_json::{Map, Value, json};

mod argument;
mod document;
mod file;
mod openapi;
mod prepare;
mod template;

#[cfg(test)]
mod tests;

pub use document::{from_document, not_public};
pub use file::from_toml;
pub use openapi::from_openapi;
pub use prepare::Credentials;
pub use template::Template;

/// The most endpoints of one document.
pub const MAX_ENDPOINTS: usize = 500;
/// The most bytes of an endpoint's schema of arguments, as JSON.
pub const MAX_SCHEMA: usize = 32 * 1024;
/// The most characters of a description.
pub const MAX_DESCRIPTION: usize = 1024;

/// The methods that an endpoint may have.
const METHODS: [Method; 6] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// One endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `[a-zA-Z0-9_-]{1,64}`, unique within its document.
    pub name: String,
    /// What it does, for models.
    pub description: String,
    /// The method.
    pub method: Method,
    /// Where it is.
    pub url: Template,
    /// What a model may choose, except a body as a whole.
    pub parameters: Vec<Parameter>,
    /// What the body is made of.
    pub body: Body,
    /// What may be repeated after a crash.
    pub effect: Effect,
    /// How requests are authorised.
    pub auth: Option<Auth>,
    /// The header for a key that makes the server execute a repeated request once.
    pub idempotency_header: Option<HeaderName>,
    /// The name of the secret that signs requests ([`crate::webhook`]).
    pub signed_with: Option<String>,
    /// Where the definition is: `crm.toml:12` or `openapi.json#/paths/~1orders/post`.
    pub at: String,
}

/// A value that a model chooses.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name as an argument, unique within its endpoint.
    pub argument: String,
    /// Its name in the request.
    pub name: String,
    /// Where in the request it is.
    pub location: Location,
    /// Whether a request without it is refused.
    pub is_required: bool,
    /// Its JSON Schema, with its description.
    pub schema: Value,
    /// How a list is written in a query: `a=1&a=2`, or `a=1,2`.
    pub repeats: bool,
    /// Whether a value in a path may contain slashes. They are sent as `%2F`, which some servers treat like a slash.
    pub allows_slashes: bool,
}

/// Where in a request a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// A part of the path.
    Path,
    /// A query parameter.
    Query,
    /// A header.
    Header,
    /// A field of the JSON object that is the body.
    Body,
}

/// The body of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A JSON object of the parameters with [`Location::Body`]; no body if there are none.
    Fields,
    /// The argument `body`, any JSON of this schema.
    Whole {
        /// Its JSON Schema.
        schema: Value,
        /// Whether a request without it is refused.
        is_required: bool,
    },
}

/// What may be repeated after a crash; the names are those of the tools' effect classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Twice is the same as once.
    Idempotent,
    /// Must not be repeated.
    Effect,
}

impl Effect {
    /// The class of a method, by RFC 9110: what is safe reads, PUT and DELETE are idempotent.
    pub fn of(method: &Method) -> Self {
        match *method {
            Method::GET | Method::HEAD | Method::OPTIONS => Self::Read,
            Method::PUT | Method::DELETE => Self::Idempotent,
            _ => Self::Effect,
        }
    }
}

/// How requests are authorised: a header with a secret, which the definition only names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// The header.
    pub header: HeaderName,
    /// What precedes the secret in the header.
    pub scheme: Scheme,
    /// The name of the secret.
    pub secret: String,
}

/// How a secret becomes the value of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheme {
    /// A text, and the secret.
    Prefix(String),
    /// `Basic` and base64; the secret is `user:password`.
    Basic,
}

/// What is wrong with a definition, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {message}")]
pub struct Problem {
    /// `crm.toml:12` or `openapi.json#/paths/~1orders/post`.
    pub at: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

/// The endpoints of an OpenAPI document.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// What can be called.
    pub endpoints: Vec<Endpoint>,
    /// Operations that were left out, with the reason.
    pub skipped: Vec<Problem>,
}

impl Endpoint {
    /// The JSON Schema of the arguments: an object without additional properties.
    pub fn schema(&self) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for parameter in &self.parameters {
            properties.insert(parameter.argument.clone(), parameter.schema.clone());
            if parameter.is_required {
                required.push(parameter.argument.clone());
            }
        }
        if let Body::Whole { schema, is_required } = &self.body {
            properties.insert("body".to_owned(), schema.clone());
            if *is_required {
                required.push("body".to_owned());
            }
        }
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// Checks what holds for every definition, wherever it comes from.
    fn check(&self) -> Result<(), String> {
        self.check_names()?;
        for name in self.url.names() {
            if !self.parameters.iter().any(|other| other.location == Location::Path && other.name == name) {
                return Err(format!(
                    "the path contains `{{{name}}}`, but no parameter in the path has this name"
                ));
            }
        }
        let set =
            self.auth.iter().map(|auth| &auth.header).filter(|name| **name != http::header::AUTHORIZATION);
        if let Some(name) = set.chain(&self.idempotency_header).find(|name| prepare::is_reserved(name)) {
            return Err(format!("the header `{name}` cannot carry a secret or a key"));
        }
        self.url.filled(|_| Ok::<_, String>("x".to_owned()))?;
        let length = self.schema().to_string().len();
        if length > MAX_SCHEMA {
            return Err(format!(
                "the schema of the arguments has {length} bytes; at most {MAX_SCHEMA} are allowed"
            ));
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.bytes().all(is_name) {
            return Err(format!(
                "the name `{}` must have 1 to 64 of the characters a-z, A-Z, 0-9, _ and -",
                self.name
            ));
        }
        let reads = matches!(self.method, Method::GET | Method::HEAD);
        if reads && self.has_body() {
            return Err(format!("a {} request has no body", self.method));
        }
        for (index, parameter) in self.parameters.iter().enumerate() {
            self.check_parameter(parameter)?;
            let same = |other: &Parameter| other.argument == parameter.argument;
            if self.parameters[..index].iter().any(same)
                || parameter.argument == "body" && self.has_whole_body()
            {
                return Err(format!("two arguments have the name `{}`", parameter.argument));
            }
        }
        Ok(())
    }

    fn check_parameter(&self, parameter: &Parameter) -> Result<(), String> {
        let name = &parameter.name;
        match parameter.location {
            Location::Path if !self.url.names().any(|other| other == name) => {
                Err(format!("the parameter `{name}` is not in the path: write `{{{name}}}` there"))
            }
            Location::Path if !parameter.is_required => {
                Err(format!("the parameter `{name}` in the path must be required"))
            }
            Location::Header => self.check_header(name),
            _ => Ok(()),
        }
    }

    /// A model must not choose headers that authorise, frame or sign a request.
    fn check_header(&self, name: &str) -> Result<(), String> {
        let Ok(header) = HeaderName::try_from(name) else {
            return Err(format!("`{name}` is not the name of a header"));
        };
        let auth = self.auth.as_ref().map(|auth| &auth.header);
        if prepare::is_reserved(&header)
            || auth == Some(&header)
            || self.idempotency_header.as_ref() == Some(&header)
        {
            return Err(format!("the header `{name}` cannot be a parameter: it is set with each request"));
        }
        Ok(())
    }

    fn has_body(&self) -> bool {
        self.has_whole_body() || self.parameters.iter().any(|parameter| parameter.location == Location::Body)
    }

    fn has_whole_body(&self) -> bool {
        matches!(self.body, Body::Whole { .. })
    }
}

/// A description without characters that a person who reviews it cannot see, cut to [`MAX_DESCRIPTION`].
fn description(text: &str) -> String {
    let is_hidden = |letter: char| {
        letter.is_control() && letter != '\n'
            || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || matches!(letter, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    let text: String = text.chars().filter(|letter| !is_hidden(*letter)).collect();
    text.trim().chars().take(MAX_DESCRIPTION).collect()
}
