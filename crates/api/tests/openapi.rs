//! Compares `openapi.json` with the endpoints. `cargo xtask check` runs it, with the feature `openapi`.

#[test]
fn checked_in_document_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let generated = houston_api::openapi::generate();
    if std::fs::read_to_string(path).unwrap_or_default() != generated {
        std::fs::write(path, &generated).unwrap();
        panic!("crates/api/openapi.json was out of date and has been rewritten: commit it");
    }
}
