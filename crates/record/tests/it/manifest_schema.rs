//! `docs/manifest.schema.json` describes the manifest.

use crate::fixture;

use std::path::Path;

use laggard_model::Manifest;

/// Variable that makes the test write the file instead of comparing it.
const REWRITE: &str = "LAGGARD_REWRITE_SCHEMA";

#[test]
fn published_schema_is_the_schema_of_the_manifest() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manifest.schema.json");
    let schema = schemars::schema_for!(Manifest);
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    if std::env::var_os(REWRITE).is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &text).unwrap();
    }

    let published = std::fs::read_to_string(&file).unwrap_or_default();

    assert!(
        published == text,
        "docs/manifest.schema.json is stale; run `{REWRITE}=1 cargo test -p laggard-record --test it manifest_schema`"
    );
}

#[test]
fn fields_of_a_manifest_are_in_the_schema() {
    let schema = serde_json::to_value(schemars::schema_for!(Manifest)).unwrap();
    let manifest = serde_json::to_value(fixture::manifest(laggard_model::Keep::All)).unwrap();

    for field in manifest.as_object().unwrap().keys() {
        // The state is flattened: its field is in the alternatives.
        let is_described = schema["properties"].get(field).is_some()
            || (field == "state" && schema.get("oneOf").is_some());
        assert!(is_described, "{field} is not in the schema");
    }
}
