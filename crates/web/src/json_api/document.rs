//! A document of endpoints as tenants send it.

use serde_json::Value;

use super::{Loaded, Problem, from_openapi, from_toml};
use crate::target::{Reach, Target};

/// The endpoints of a document: the text of a TOML file ([`from_toml`]), an OpenAPI document in JSON, or a JSON object of the
/// shape of the TOML file. `name` is its name for error messages.
///
/// # Errors
/// The first [`Problem`]. For a JSON object that is no OpenAPI document it has no line.
pub fn from_document(text: &str, name: &str) -> Result<Loaded, Problem> {
    let of = |endpoints| Loaded { endpoints, skipped: Vec::new() };
    if !text.trim_start().starts_with('{') {
        return from_toml(text, name).map(of);
    }
    let problem = |message| Problem { at: name.to_owned(), message };
    let value: Value =
        serde_json::from_str(text).map_err(|error| problem(format!("this is not JSON: {error}")))?;
    if value.get("openapi").is_some() {
        return from_openapi(text, name, None);
    }
    let text = toml::to_string(&value).map_err(|error| problem(error.to_string()))?;
    from_toml(&text, name).map(of).map_err(|error| problem(error.message))
}

/// The first endpoint at an address that is not on the public internet, as far as its URL says so.
pub fn not_public(loaded: &Loaded) -> Option<Problem> {
    loaded.endpoints.iter().find_map(|endpoint| {
        let url = endpoint.url.filled(|_| Ok::<_, String>("x".to_owned())).ok()?;
        let refusal = Target::judge(url, &Reach::Public).err()?;
        Some(Problem { at: endpoint.at.clone(), message: refusal.to_string() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "base = \"https://crm.example.com\"\n[[endpoint]]\nname = \"list_orders\"\ndescription = \"Orders.\"\nmethod = \"GET\"\npath = \"/orders\"\n";

    #[test]
    fn toml_its_shape_in_json_and_openapi_are_read() {
        let shape = r#"{"endpoint": [{"name": "list_orders", "description": "Orders.", "method": "GET", "path": "/orders"}],
                        "base": "https://crm.example.com"}"#;
        let openapi = r#"{"openapi": "3.0.0", "servers": [{"url": "https://crm.example.com"}],
                          "paths": {"/orders": {"get": {"operationId": "list_orders", "summary": "Orders."}}}}"#;
        for text in [TOML, shape, openapi] {
            let loaded = from_document(text, "crm").unwrap();
            assert_eq!(loaded.endpoints.len(), 1, "{text}");
            assert_eq!(loaded.endpoints[0].name, "list_orders", "{text}");
            assert_eq!(not_public(&loaded), None, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, words) in [
            (TOML.replace("GET", "FETCH"), "crm:5: "),
            (r#"{"base": 7}"#.to_owned(), "crm: "),
            (r#"{"base": "https://x.example", "endpoint": [{"name": null}]}"#.to_owned(), "crm: "),
            ("{".to_owned(), "not JSON"),
            (r#"{"openapi": "2.0"}"#.to_owned(), "only 3.x"),
        ] {
            let problem = from_document(&text, "crm").unwrap_err().to_string();
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }

    #[test]
    fn addresses_of_private_networks_are_refused_before_any_call() {
        for base in ["http://127.0.0.1:8080", "https://10.0.0.1", "https://[::1]", "http://169.254.169.254"] {
            let loaded = from_document(&TOML.replace("https://crm.example.com", base), "crm").unwrap();
            assert!(not_public(&loaded).is_some(), "{base}");
        }
    }
}
