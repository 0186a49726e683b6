//! Writes `CUSTOM` events so that generators of clients can read them.
//!
//! `Event` has them as `Fact`, a choice of objects, together with the fields of all events. Few generators can put a choice
//! and fields together, so the fields are written into each object, and each object gets a name.

use std::collections::BTreeMap;

use utoipa::openapi::schema::{Object, Schema};
use utoipa::openapi::{Ref, RefOr};

type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Changes `Event` and `Fact`, if the document has them.
pub(super) fn name_facts(schemas: &mut Schemas) {
    let Some(RefOr::T(Schema::OneOf(events))) = schemas.get_mut("Event") else { return };
    let is_fact = |part: &RefOr<Schema>| matches!(part, RefOr::Ref(part) if part.ref_location == "#/components/schemas/Fact");
    let custom = events
        .items
        .iter_mut()
        .find(|item| matches!(item, RefOr::T(Schema::AllOf(parts)) if parts.items.iter().any(is_fact)));
    let Some(custom) = custom else { return };
    let fact = RefOr::Ref(Ref::from_schema_name("Fact"));
    let RefOr::T(Schema::AllOf(parts)) = std::mem::replace(custom, fact) else { return };
    let of_all_events: Vec<Object> = parts.items.into_iter().filter_map(object).collect();

    let Some(RefOr::T(Schema::OneOf(facts))) = schemas.get_mut("Fact") else { return };
    let mut named = Schemas::new();
    for item in std::mem::take(&mut facts.items) {
        let Some(mut fact) = object(item) else { continue };
        for part in &of_all_events {
            fact.properties.extend(part.properties.clone());
            fact.required.extend(part.required.iter().cloned());
        }
        let name = schema_name(&fact);
        facts.items.push(RefOr::Ref(Ref::from_schema_name(name.clone())));
        named.insert(name, RefOr::T(Schema::Object(fact)));
    }
    schemas.extend(named);
}

fn object(schema: RefOr<Schema>) -> Option<Object> {
    if let RefOr::T(Schema::Object(object)) = schema { Some(object) } else { None }
}

/// `TitleSetEvent` for the fact with the `name` `houston.title.set`.
fn schema_name(fact: &Object) -> String {
    let Some(RefOr::T(Schema::Object(name))) = fact.properties.get("name") else { return String::new() };
    let name = name.enum_values.iter().flatten().find_map(|value| value.as_str()).unwrap_or_default();
    let words = name.trim_start_matches("houston.").split(['.', '_']);
    let capitalised = words.filter_map(|word| Some(word.get(..1)?.to_uppercase() + word.get(1..)?));
    capitalised.chain(["Event".to_owned()]).collect()
}
