//! Endpoints from an OpenAPI 3.0 or 3.1 document in JSON. (A document in YAML must be converted first.)
//!
//! An operation is left out, with the reason, if it needs what a request here cannot have: a body that is not JSON, a
//! required cookie, objects in a query, a reference to another document, an authorisation other than a header.
//!
//! Extensions: `x-houston-effect` (`read`, `idempotent`, `effect`) on an operation.

mod reference;
mod request;

#[cfg(test)]
mod tests;

use http::{HeaderName, Method};
use reference::Document;
use serde_json::Value;

use super::{
    Auth, Body, Effect, Endpoint, Loaded, Location, MAX_ENDPOINTS, METHODS, Problem, Scheme, Template,
    description,
};

/// Reads a document. `file` is its name for error messages; `base` replaces its servers, and is needed if they are
/// relative.
///
/// # Errors
/// A [`Problem`] if the document as a whole cannot be used.
pub fn from_openapi(text: &str, file: &str, base: Option<&str>) -> Result<Loaded, Problem> {
    let parsed: Value = serde_json::from_str(text).map_err(|error| Problem {
        at: format!("{file}:{}:{}", error.line(), error.column()),
        message: format!("this is not JSON ({error}); a document in YAML must be converted to JSON first"),
    })?;
    let root = Pointer::root(file);
    match parsed["openapi"].as_str() {
        Some(version) if version.starts_with("3.") => {}
        Some(version) => {
            return Err(root.child("openapi").problem(format!("version {version}: only 3.x can be read")));
        }
        None => return Err(root.problem("there is no `openapi`: only OpenAPI 3.x documents can be read")),
    }
    let document = Document::new(&parsed);
    let Some(paths) = parsed["paths"].as_object() else {
        return Err(root.child("paths").problem("there are no paths"));
    };
    let mut loaded = Loaded::default();
    for (path, item) in paths {
        let at = root.child("paths").child(path);
        let item = match document.resolved(item, &at) {
            Ok(item) => item,
            Err(problem) => {
                loaded.skipped.push(problem);
                continue;
            }
        };
        for method in METHODS {
            let name = method.as_str().to_ascii_lowercase();
            let Some(operation) = item.get(&name) else { continue };
            let at = at.child(&name);
            let operation =
                Operation { document: &document, root: &parsed, item, operation, path, method, base };
            match operation.endpoint(&at) {
                Ok(endpoint) => add(endpoint, &at, &mut loaded)?,
                Err(problem) => loaded.skipped.push(problem),
            }
        }
    }
    Ok(loaded)
}

fn add(endpoint: Endpoint, at: &Pointer, loaded: &mut Loaded) -> Result<(), Problem> {
    if let Err(message) = endpoint.check() {
        loaded.skipped.push(at.problem(message));
    } else if loaded.endpoints.iter().any(|other| other.name == endpoint.name) {
        let message = format!("another operation has the name `{}`: set `operationId`", endpoint.name);
        loaded.skipped.push(at.problem(message));
    } else if loaded.endpoints.len() == MAX_ENDPOINTS {
        return Err(at.problem(format!("more than {MAX_ENDPOINTS} operations")));
    } else {
        loaded.endpoints.push(endpoint);
    }
    Ok(())
}

/// One operation of the document.
struct Operation<'d> {
    document: &'d Document<'d>,
    root: &'d Value,
    /// The path item that contains it.
    item: &'d Value,
    operation: &'d Value,
    path: &'d str,
    method: Method,
    base: Option<&'d str>,
}

impl Operation<'_> {
    fn endpoint(&self, at: &Pointer) -> Result<Endpoint, Problem> {
        let url = Template::new(&self.base(at)?, self.path).map_err(|message| at.problem(message))?;
        let auth = self.auth(at)?;
        let mut parameters = self.parameters(at)?;
        // A header for an idempotency key is not for a model to fill in.
        let is_key = |name: &str| name.eq_ignore_ascii_case("idempotency-key");
        let key = parameters.iter().position(|one| one.location == Location::Header && is_key(&one.name));
        let idempotency_header =
            key.and_then(|index| HeaderName::try_from(parameters.remove(index).name).ok());
        // Neither is the header of the authorisation, which some documents describe twice.
        if let Some(auth) = &auth {
            let is_auth = |name: &str| name.eq_ignore_ascii_case(auth.header.as_str());
            parameters.retain(|one| one.location != Location::Header || !is_auth(&one.name));
        }
        Ok(Endpoint {
            name: self.name(),
            description: self.description(),
            effect: self.effect(at)?,
            method: self.method.clone(),
            url,
            parameters,
            body: self.body(at)?.unwrap_or(Body::Fields),
            auth,
            idempotency_header,
            signed_with: None,
            at: at.0.clone(),
        })
    }

    /// The base that was given, or the first server of the operation, the path or the document.
    fn base(&self, at: &Pointer) -> Result<String, Problem> {
        if let Some(base) = self.base {
            return Ok(base.to_owned());
        }
        let server =
            [self.operation, self.item, self.root].into_iter().find_map(|value| value["servers"].get(0));
        let Some(url) = server.and_then(|server| server["url"].as_str()) else {
            return Err(at.problem("there is no server: a base URL must be given"));
        };
        let mut url = url.to_owned();
        for (name, variable) in
            server.and_then(|server| server["variables"].as_object()).into_iter().flatten()
        {
            url = url.replace(&format!("{{{name}}}"), variable["default"].as_str().unwrap_or_default());
        }
        if url.contains("://") {
            Ok(url)
        } else {
            Err(at.problem("the server is relative: a base URL must be given"))
        }
    }

    /// `operationId`, or method and path, in the characters of a name.
    fn name(&self) -> String {
        let text = match self.operation["operationId"].as_str() {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("{}_{}", self.method.as_str().to_ascii_lowercase(), self.path.trim_matches('/')),
        };
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        let words: String = text.chars().map(plain).collect();
        let words: Vec<&str> = words.split('_').filter(|word| !word.is_empty()).collect();
        words.join("_").chars().take(64).collect()
    }

    fn description(&self) -> String {
        let texts =
            ["summary", "description"].map(|name| self.operation[name].as_str().unwrap_or_default().trim());
        let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        if texts.is_empty() {
            format!("{} {}", self.method, self.path)
        } else {
            description(&texts.join("\n"))
        }
    }

    fn effect(&self, at: &Pointer) -> Result<Effect, Problem> {
        match &self.operation["x-houston-effect"] {
            Value::Null => Ok(Effect::of(&self.method)),
            stated => serde::Deserialize::deserialize(stated).map_err(|_| {
                at.child("x-houston-effect")
                    .problem(format!("{stated} is not `read`, `idempotent` or `effect`"))
            }),
        }
    }
}

/// A file and a JSON Pointer (RFC 6901).
#[derive(Debug, Clone)]
struct Pointer(String);

impl Pointer {
    pub(super) fn root(file: &str) -> Self {
        Self(format!("{file}#"))
    }

    pub(super) fn child(&self, key: &str) -> Self {
        Self(format!("{}/{}", self.0, key.replace('~', "~0").replace('/', "~1")))
    }

    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem { at: self.0.clone(), message: message.into() }
    }
}

impl Operation<'_> {
    /// The first alternative that is one header, or none. The secret has the name of the scheme.
    pub(super) fn auth(&self, at: &Pointer) -> Result<Option<Auth>, Problem> {
        let alternatives =
            [self.operation, self.root].into_iter().find_map(|value| value["security"].as_array());
        let Some(alternatives) = alternatives.filter(|all| !all.is_empty()) else { return Ok(None) };
        let mut last = None;
        for alternative in alternatives {
            let names: Vec<&String> =
                alternative.as_object().into_iter().flat_map(|schemes| schemes.keys()).collect();
            match names.as_slice() {
                [] => return Ok(None),
                [name] => match self.scheme(name) {
                    Ok(auth) => return Ok(Some(auth)),
                    Err(message) => last = Some(message),
                },
                _ => last = Some("it needs several authorisations at once".to_owned()),
            }
        }
        Err(at.child("security").problem(last.unwrap_or_default()))
    }

    fn scheme(&self, name: &str) -> Result<Auth, String> {
        let at = Pointer::root("");
        let raw = self.root["components"]["securitySchemes"].get(name);
        let raw = raw.and_then(|raw| self.document.resolved(raw, &at).ok()).unwrap_or(&Value::Null);
        let (header, scheme) = match (raw["type"].as_str(), raw["scheme"].as_str(), raw["in"].as_str()) {
            (Some("http"), Some(scheme), _) if scheme.eq_ignore_ascii_case("basic") => {
                ("authorization", Scheme::Basic)
            }
            (Some("http"), Some(scheme), _) if scheme.eq_ignore_ascii_case("bearer") => {
                ("authorization", Scheme::Prefix("Bearer ".to_owned()))
            }
            (Some("oauth2" | "openIdConnect"), _, _) => {
                ("authorization", Scheme::Prefix("Bearer ".to_owned()))
            }
            (Some("apiKey"), _, Some("header")) => {
                (raw["name"].as_str().unwrap_or_default(), Scheme::Prefix(String::new()))
            }
            (Some("apiKey"), _, _) => {
                return Err(format!(
                    "`{name}` sends a key in the URL or a cookie; only headers are supported"
                ));
            }
            _ => return Err(format!("the authorisation `{name}` is not supported or not defined")),
        };
        let header = HeaderName::try_from(header).map_err(|_| format!("`{name}` does not name a header"))?;
        Ok(Auth { header, scheme, secret: name.to_owned() })
    }
}
