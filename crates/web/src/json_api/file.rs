//! Endpoints from a TOML file:
//!
//! ```toml
//! base = "https://api.example.com/v2"
//! idempotency_header = "Idempotency-Key"   # sent with POST and PATCH
//! signed_with = "crm_webhook"              # a secret; without it requests are not signed
//! auth = { secret = "crm" }                # Authorization: Bearer …; also `header`, `prefix`, `basic = true`
//!
//! [[endpoint]]
//! name = "list_orders"
//! description = "Orders of a customer, the newest first."
//! method = "GET"
//! path = "/customers/{customer}/orders"
//! effect = "read"                          # if it is not what follows from the method
//!
//! [[endpoint.parameter]]
//! name = "customer"
//! in = "path"                              # path, query, header, body
//! description = "The customer's number."
//!
//! [[endpoint.parameter]]
//! name = "status"
//! in = "query"
//! enum = ["open", "closed"]                # also: type, items, required, argument, repeats, slashes
//! ```

use http::{HeaderName, Method};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toml::Spanned;

use super::{
    Auth, Body, Effect, Endpoint, Location, MAX_ENDPOINTS, METHODS, Parameter, Problem, Scheme, Template,
    description,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    base: Spanned<String>,
    auth: Option<Spanned<RawAuth>>,
    idempotency_header: Option<Spanned<String>>,
    signed_with: Option<String>,
    #[serde(default)]
    endpoint: Vec<Spanned<RawEndpoint>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAuth {
    secret: String,
    header: Option<String>,
    prefix: Option<String>,
    #[serde(default)]
    basic: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEndpoint {
    name: String,
    description: String,
    method: Spanned<String>,
    path: Spanned<String>,
    effect: Option<Effect>,
    #[serde(default)]
    parameter: Vec<Spanned<RawParameter>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawParameter {
    name: String,
    r#in: Location,
    argument: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    r#type: Type,
    /// Of the elements of an array.
    items: Option<Type>,
    r#enum: Option<Vec<String>>,
    required: Option<bool>,
    #[serde(default = "yes")]
    repeats: bool,
    #[serde(default)]
    slashes: bool,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
enum Type {
    #[default]
    String,
    Integer,
    Number,
    Boolean,
    Array,
    Object,
}

fn yes() -> bool {
    true
}

/// Reads a TOML file. `file` is its name for error messages.
///
/// # Errors
/// The first [`Problem`], with its line.
pub fn from_toml(text: &str, file: &str) -> Result<Vec<Endpoint>, Problem> {
    let at = |offset: usize| {
        let before = text.get(..offset).unwrap_or(text);
        format!("{file}:{}", before.matches('\n').count() + 1)
    };
    let parsed: File = toml::from_str(text).map_err(|error| Problem {
        at: at(error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    let problem = |offset: usize, message: String| Problem { at: at(offset), message };
    if parsed.endpoint.len() > MAX_ENDPOINTS {
        let message = format!("{} endpoints; at most {MAX_ENDPOINTS} are allowed", parsed.endpoint.len());
        return Err(problem(0, message));
    }
    let base = parsed.base.get_ref();
    Template::new(base, "").map_err(|message| problem(parsed.base.span().start, message))?;
    let auth = parsed
        .auth
        .as_ref()
        .map(|raw| raw.get_ref().auth().map_err(|message| problem(raw.span().start, message)));
    let auth = auth.transpose()?;
    let idempotency = parsed.idempotency_header.as_ref().map(|name| {
        let message = || format!("`{}` is not the name of a header", name.get_ref());
        HeaderName::try_from(name.get_ref().as_str()).map_err(|_| problem(name.span().start, message()))
    });
    let idempotency = idempotency.transpose()?;
    let mut endpoints: Vec<Endpoint> = Vec::with_capacity(parsed.endpoint.len());
    for raw in &parsed.endpoint {
        let start = raw.span().start;
        let mut endpoint = raw
            .get_ref()
            .endpoint(base)
            .map_err(|(offset, message)| problem(offset.unwrap_or(start), message))?;
        endpoint.at = at(start);
        endpoint.auth.clone_from(&auth);
        endpoint.signed_with.clone_from(&parsed.signed_with);
        if matches!(endpoint.method, Method::POST | Method::PATCH) {
            endpoint.idempotency_header.clone_from(&idempotency);
        }
        endpoint.check().map_err(|message| problem(start, format!("`{}`: {message}", endpoint.name)))?;
        if endpoints.iter().any(|other| other.name == endpoint.name) {
            return Err(problem(start, format!("there are two endpoints with the name `{}`", endpoint.name)));
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

impl RawAuth {
    fn auth(&self) -> Result<Auth, String> {
        let header = self.header.as_deref().unwrap_or("authorization");
        let header =
            HeaderName::try_from(header).map_err(|_| format!("`{header}` is not the name of a header"))?;
        let scheme = match (self.basic, &self.prefix) {
            (true, Some(_)) => return Err("`basic` has a prefix of its own: leave `prefix` out".to_owned()),
            (true, None) => Scheme::Basic,
            (false, Some(prefix)) => Scheme::Prefix(prefix.clone()),
            (false, None) if header == http::header::AUTHORIZATION => Scheme::Prefix("Bearer ".to_owned()),
            (false, None) => Scheme::Prefix(String::new()),
        };
        Ok(Auth { header, scheme, secret: self.secret.clone() })
    }
}

/// What is wrong, and where if it is not at the beginning of the endpoint.
type Wrong = (Option<usize>, String);

impl RawEndpoint {
    fn endpoint(&self, base: &str) -> Result<Endpoint, Wrong> {
        let given = self.method.get_ref();
        let Some(method) = METHODS.into_iter().find(|method| method.as_str() == given) else {
            let message =
                format!("`{given}` is not allowed as method: GET, HEAD, POST, PUT, PATCH and DELETE are");
            return Err((Some(self.method.span().start), message));
        };
        let url = Template::new(base, self.path.get_ref());
        let url = url.map_err(|message| (Some(self.path.span().start), message))?;
        let mut parameters = Vec::with_capacity(self.parameter.len());
        for raw in &self.parameter {
            let parameter = raw.get_ref().parameter();
            parameters.push(parameter.map_err(|message| (Some(raw.span().start), message))?);
        }
        Ok(Endpoint {
            name: self.name.clone(),
            description: description(&self.description),
            effect: self.effect.unwrap_or_else(|| Effect::of(&method)),
            method,
            url,
            parameters,
            body: Body::Fields,
            auth: None,
            idempotency_header: None,
            signed_with: None,
            at: String::new(),
        })
    }
}

impl RawParameter {
    fn parameter(&self) -> Result<Parameter, String> {
        let name = &self.name;
        let is_list = self.r#type == Type::Array;
        match (self.r#in, self.r#type) {
            (Location::Path | Location::Header, Type::Array | Type::Object)
            | (Location::Query, Type::Object) => {
                return Err(format!("the parameter `{name}` cannot be an array or an object there"));
            }
            _ if self.items.is_some() && !is_list => {
                return Err(format!("the parameter `{name}` has `items`, but its type is not \"array\""));
            }
            _ => {}
        }
        let mut schema = Map::from_iter([("type".to_owned(), json!(self.r#type))]);
        if is_list {
            schema.insert("items".to_owned(), json!({"type": self.items.unwrap_or_default()}));
        }
        if !self.description.is_empty() {
            schema.insert("description".to_owned(), json!(description(&self.description)));
        }
        if let Some(values) = &self.r#enum {
            schema.insert("enum".to_owned(), json!(values));
        }
        Ok(Parameter {
            argument: self.argument.clone().unwrap_or_else(|| name.clone()),
            name: name.clone(),
            location: self.r#in,
            is_required: self.required.unwrap_or(self.r#in == Location::Path),
            schema: Value::Object(schema),
            repeats: self.repeats,
            allows_slashes: self.slashes,
        })
    }
}
