//! Who signs in, by the claims of the provider.

use serde_json::{Map, Value};

/// The most groups of a person that are read.
const MAX_GROUPS: usize = 1_000;
/// The longest text of a claim that is kept.
const MAX_NAME_CHARS: usize = 80;

/// Who signs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    /// Who it is, for the provider: never of another person.
    pub(crate) subject: String,
    /// What people call it; empty if the provider does not say.
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl Person {
    /// What lists of keys and the audit log show.
    pub(crate) fn label(&self) -> String {
        if self.name.is_empty() || self.name == self.subject {
            self.subject.clone()
        } else {
            format!("{} ({})", self.name, self.subject)
        }
    }
}

/// What the provider says of a person.
#[derive(Debug, Clone)]
pub(super) struct Claims(pub(super) Map<String, Value>);

impl Claims {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// A claim by its name, or by a path: `realm_access.roles`.
    fn find(&self, name: &str) -> Option<&Value> {
        self.0.get(name).or_else(|| {
            let (first, rest) = name.split_once('.')?;
            rest.split('.').try_fold(self.0.get(first)?, |value, part| value.get(part))
        })
    }

    /// Adds what the provider says of the same person. What it has signed stays.
    pub(super) fn add(&mut self, more: Map<String, Value>) -> Result<(), String> {
        if more.get("sub") != self.0.get("sub") {
            return Err("it speaks of another person".to_owned());
        }
        for (name, value) in more {
            self.0.entry(name).or_insert(value);
        }
        Ok(())
    }

    pub(super) fn person(&self, groups_claim: &str) -> Result<Person, String> {
        let subject = self.text("sub").map(shortened).filter(|text| !text.is_empty());
        let subject = subject.ok_or("it does not say who this is")?;
        let names = ["email", "preferred_username", "name"];
        let name = names.into_iter().find_map(|name| self.text(name)).map(shortened).unwrap_or_default();
        let groups = match self.find(groups_claim) {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => {
                all.iter().filter_map(Value::as_str).take(MAX_GROUPS).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        Ok(Person { subject, name, groups })
    }
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(of: Value) -> Claims {
        Claims(serde_json::from_value(of).unwrap())
    }

    #[test]
    fn groups_are_read_by_name_and_by_path() {
        let groups = |of: Value, name: &str| claims(of).person(name).unwrap().groups;
        assert_eq!(groups(json!({"sub": "1", "groups": ["a", 2, "b"]}), "groups"), ["a", "b"]);
        assert_eq!(groups(json!({"sub": "1", "groups": "a"}), "groups"), ["a"]);
        let keycloak = json!({"sub": "1", "realm_access": {"roles": ["ops"]}});
        assert_eq!(groups(keycloak, "realm_access.roles"), ["ops"]);
        let named = json!({"sub": "1", "https://a.example/groups": ["ops"]});
        assert_eq!(groups(named, "https://a.example/groups"), ["ops"]);
        assert!(groups(json!({"sub": "1"}), "groups").is_empty());
    }

    #[test]
    fn person_has_a_name_and_a_subject() {
        let of = claims(json!({"sub": "4711", "email": "ada@example.org\n"})).person("groups").unwrap();
        assert_eq!(of.label(), "ada@example.org (4711)");
        assert_eq!(claims(json!({"sub": "ada"})).person("groups").unwrap().label(), "ada");
        assert!(claims(json!({"name": "Ada"})).person("groups").is_err());
        let mut of = claims(json!({"sub": "1", "name": "Ada"}));
        assert!(of.add(Map::from_iter([("sub".to_owned(), json!("2"))])).is_err());
        of.add(serde_json::from_value(json!({"sub": "1", "name": "Eve", "groups": "a"})).unwrap()).unwrap();
        assert_eq!(of.person("groups").unwrap().name, "Ada", "what is signed stays");
    }
}
