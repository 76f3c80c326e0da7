//! JSON schema of the manifest.

use crate::fixture;

use std::collections::BTreeSet;

use laggard_model::{Episode, EpisodeNotes, Manifest};
use serde_json::Value;

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

/// Texts of a manifest, of late wakeups and of their notes. `record/src/redact` replaces or keeps
/// each of them: a new one needs a decision there, and its line here.
const TEXTS: [&str; 56] = [
    "Address",
    "AskedApplication.name",
    "AskedApplication.source",
    "Caveat.advice",
    "Caveat.what",
    "Clock.name",
    "Clock.start_wall",
    "Clocksource.available",
    "Clocksource.current",
    "CpuFreq.driver",
    "CpuFreq.governor",
    "GroupQuota.file",
    "GroupQuota.group",
    "Happening.switch.name",
    "Hardware.audio",
    "Hardware.board",
    "Hardware.disks",
    "Hardware.file_system",
    "Hardware.firmware",
    "Hardware.graphics",
    "Hardware.network",
    "Host.architecture",
    "Host.build",
    "Host.command_line",
    "Host.config",
    "Host.distribution",
    "Host.huge_pages",
    "Host.hypervisor",
    "Host.idle_driver",
    "Host.kernel",
    "Host.lockdown",
    "Host.mitigations",
    "Host.node",
    "Host.preemption",
    "Idle.name",
    "LoadRun.command",
    "LoadRun.ended",
    "LoadRun.name",
    "Manifest.command",
    "Manifest.error",
    "Manifest.version",
    "Processor.microcode",
    "Processor.model",
    "ProgramCost.name",
    "RecordedCause.contender",
    "RecordedCause.who",
    "SchedEntity.group",
    "SchedEntity.setting",
    "SegmentEntry.file",
    "Service",
    "SwitchPolicy",
    "Symbol.module",
    "Symbol.name",
    "Symbol.unknown",
    "Symbols.interrupts",
    "Throughput.unit",
];

/// Returns true if a value of this schema can be any text.
fn is_text(schema: &Value) -> bool {
    if !schema.is_object() {
        return false;
    }
    let is_string = match &schema["type"] {
        Value::Array(types) => types.contains(&"string".into()),
        kind => kind == "string",
    };
    let is_fixed = schema.get("enum").or(schema.get("const")).is_some();
    let alternatives = ["anyOf", "oneOf", "allOf"].into_iter();
    let mut alternatives = alternatives
        .filter_map(|key| schema[key].as_array())
        .flatten();
    is_string && !is_fixed
        || ["items", "additionalProperties"]
            .iter()
            .any(|key| is_text(&schema[*key]))
        || (schema["patternProperties"]
            .as_object()
            .into_iter()
            .flatten())
        .any(|(_, value)| is_text(value))
        || alternatives.any(is_text)
}

/// Collects the texts below a schema.
fn texts(name: &str, schema: &Value, paths: &mut BTreeSet<String>) {
    for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
        if is_text(schema) {
            paths.insert(format!("{name}.{field}"));
        }
        texts(&format!("{name}.{field}"), schema, paths);
    }
    for (other, schema) in schema["$defs"].as_object().into_iter().flatten() {
        if is_text(schema) {
            paths.insert(other.clone());
        }
        texts(other, schema, paths);
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        for schema in schema[key].as_array().into_iter().flatten() {
            texts(name, schema, paths);
        }
    }
}

#[test]
fn every_text_of_a_recording_is_redacted_or_public() {
    let mut paths = BTreeSet::new();
    for (name, schema) in [
        ("Manifest", schemars::schema_for!(Manifest)),
        ("Episode", schemars::schema_for!(Episode)),
        ("EpisodeNotes", schemars::schema_for!(EpisodeNotes)),
    ] {
        texts(name, schema.as_value(), &mut paths);
    }

    let paths: Vec<String> = paths.into_iter().collect();
    assert_eq!(paths, TEXTS);
}
