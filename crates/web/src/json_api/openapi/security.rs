//! Authorisation of operations.

use http::HeaderName;
use serde_json::Value;

use super::Operation;
use super::pointer::Pointer;
use crate::json_api::{Auth, Problem, Scheme};

impl Operation<'_> {
    /// The first alternative that is one header, or none. The secret has the name of the scheme.
    pub(super) fn auth(&self, at: &Pointer) -> Result<Option<Auth>, Problem> {
        let alternatives =
            [self.operation, self.root].into_iter().find_map(|value| value["security"].as_array());
        let alternatives = match alternatives {
            Some(alternatives) if !alternatives.is_empty() => alternatives,
            _ => return Ok(None),
        };
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
