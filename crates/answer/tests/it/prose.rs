//! JSON without prose. Each free string in the schema of a converted answer is a name, or
//! is listed here as text that another crate still writes.

use std::collections::BTreeSet;

use laggard_answer::check::CheckReport;
use laggard_answer::compare::{CompareReport, SeriesReport};
use laggard_answer::doctor::DoctorReport;
use laggard_answer::forecast::ForecastReport;
use laggard_answer::qos::QosReport;
use laggard_answer::rehearsal::RehearsalReport;
use laggard_answer::rtos::RtosReport;
use laggard_answer::sched::SchedReport;
use laggard_answer::show::IntervalsReport;
use laggard_answer::why::{BugReport, HandlersReport, WhyReport};
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

/// Text of `laggard-measure` and `laggard-workload`: why a test did not run, and warnings
/// about the machine.
const TEXT_OF_MEASURE: [&str; 4] = [
    "Absence.reason",
    "Absence.remedy",
    "Caveat.advice",
    "Caveat.what",
];
/// Type that has only names and versions from the machine.
const MACHINE: &str = "Host";

#[test]
fn rtos_has_no_prose() {
    let names = [
        "CompetingThread.name",
        "LoadFigures.load",
        "LockedFigures.limit",
        "RtosReason.load",
    ];

    let expected: BTreeSet<String> = names
        .iter()
        .chain(&TEXT_OF_MEASURE)
        .map(|name| (*name).into())
        .collect();
    assert_eq!(free_strings::<RtosReport>(), expected);
}

#[test]
fn doctor_has_no_prose() {
    let expected: BTreeSet<String> = [
        // Names.
        "DoctorReport.recording",
        "UnknownEffect.node",
        // Text of `laggard-measure`: abilities, settings and prerequisites.
        "Ability.gives",
        "Ability.name",
        "AudioRow.advice",
        "AudioRow.what",
        // Text in the file of an effect that was measured.
        "ProvenEffect.build",
        "ProvenEffect.effect",
        "ProvenEffect.kernel",
        "ProvenEffect.load",
        "ProvenEffect.measured_by",
        "ProvenEffect.measured_on",
        "ProvenEffect.node",
        "ProvenEffect.processor",
        "ProvenEffect.setting",
        "ProvenEffect.with",
        "ProvenEffect.without",
    ]
    .iter()
    .chain(&TEXT_OF_MEASURE)
    .map(|name| (*name).into())
    .collect();

    assert_eq!(free_strings::<DoctorReport>(), expected);
}

#[test]
fn qos_has_no_prose() {
    let expected: BTreeSet<String> = [
        // Names, and text from the user or the catalogue.
        "Application.name",
        "Application.source",
        "LoadOutlook.load",
        "LoadOutlook.recordings",
        "Note.recording",
        // Text of the trust in a recording.
        "Doubt.detail",
        "Caveat.advice",
        "Caveat.what",
    ]
    .map(String::from)
    .into();

    assert_eq!(free_strings::<QosReport>(), expected);
}

#[test]
fn forecast_has_no_prose() {
    let expected: BTreeSet<String> = [
        // Names.
        "Above.who",
        "LoadForecast.load",
        "LoadForecast.recordings",
        "NamedCause.who",
        "Note.recording",
        // Text of the trust in a recording.
        "Doubt.detail",
        "Caveat.advice",
        "Caveat.what",
    ]
    .map(String::from)
    .into();

    assert_eq!(free_strings::<ForecastReport>(), expected);
}

#[test]
fn check_has_no_prose() {
    let expected: BTreeSet<String> = [
        // Names, and text from the user or the catalogue.
        "Application.name",
        "Application.source",
        "CheckReport.file",
        "CheckReport.host",
        "CheckReport.recorded_at",
        "CheckReport.recordings",
        "CheckedRow.load",
        "CheckedRow.name",
        "LongestHandler.name",
        "Note.recording",
        // Text of the trust in a recording.
        "Doubt.detail",
        "Caveat.advice",
        "Caveat.what",
    ]
    .map(String::from)
    .into();

    assert_eq!(free_strings::<CheckReport>(), expected);
}

#[test]
fn compare_has_no_prose() {
    let expected: BTreeSet<String> = [
        // Names, and text from the user or the catalogue.
        "Application.name",
        "Application.source",
        "CauseComparison.who",
        "CausesUnknown.recording",
        "Note.recording",
        "SeriesRecording.kernel",
        "SeriesRecording.path",
        "SeriesRecording.recorded_at",
        "SeriesReport.load",
        "SideView.load",
        "SideView.recordings",
        "WorkComparison.unit",
        // Letters of the sides, such as `ABBA`.
        "OrderView.sides",
        // Conditions of the machine, and commands of the user.
        "Difference.first",
        "Difference.second",
        "Difference.what",
        // Text of the trust in a recording.
        "Doubt.detail",
        "Caveat.advice",
        "Caveat.what",
    ]
    .map(String::from)
    .into();

    let mut strings = free_strings::<CompareReport>();
    strings.extend(free_strings::<SeriesReport>());
    assert_eq!(strings, expected);
}

#[test]
fn intervals_have_no_prose() {
    let expected = ["Caveat.advice", "Caveat.what", "RecordingIntervals.path"];
    let expected: BTreeSet<String> = expected.map(String::from).into();

    assert_eq!(free_strings::<IntervalsReport>(), expected);
}

#[test]
fn why_has_no_prose() {
    // `who` has names: of a thread, an interrupt, a function, a control group.
    let strings = free_strings::<WhyReport>();

    for name in &strings {
        let is_text = TEXT_OF_MEASURE.contains(&name.as_str());
        let is_name = NAMES_OF_WHY.contains(&name.as_str());
        assert!(is_text || is_name, "{name} in {strings:?}");
    }
}

#[test]
fn sched_has_no_prose() {
    let expected: BTreeSet<String> = [
        // Names, and text from the user.
        "Note.recording",
        "SchedReport.load",
        "TaskRemark.key",
        "TaskRemark.phase",
        "TaskRemark.task",
        "TaskRemark.timer",
        "TaskVerdict.name",
        // Text of the trust in a recording.
        "Doubt.detail",
        "Caveat.advice",
        "Caveat.what",
    ]
    .map(String::from)
    .into();

    assert_eq!(free_strings::<SchedReport>(), expected);
}

#[test]
fn rehearsal_has_no_prose() {
    let expected: BTreeSet<String> = [
        // Names and paths, and text from the user.
        "Note.recording",
        "RehearsalReport.file",
        "RehearsalReport.load",
        "RehearsalReport.predicted_from",
        "RehearsalReport.recorded_in",
        "Remark.tasks",
        "TaskCount.name",
        "TaskVerdict.name",
        // Text of the trust in a recording.
        "Doubt.detail",
        "Caveat.advice",
        "Caveat.what",
    ]
    .map(String::from)
    .into();

    assert_eq!(free_strings::<RehearsalReport>(), expected);
}

/// Names, paths and commands of the reports of `laggard why`.
const NAMES_OF_WHY: [&str; 18] = [
    "BugReport.load",
    "BugReport.recording",
    "BugReport.reproduce",
    "BugReport.version",
    "CallChain.functions",
    "CauseShare.contenders",
    "CauseShare.who",
    "EpisodePart.who",
    "FirstFix.contenders",
    "FirstFix.who",
    "GroupQuota.file",
    "GroupQuota.group",
    "HandlerRow.who",
    "HandlersReport.path",
    "Layer.name",
    "NamedCause.who",
    "WhyReport.load",
    "WhyReport.path",
];

#[test]
fn reports_of_bugs_and_handlers_have_no_prose() {
    let strings: Vec<String> = free_strings::<BugReport>()
        .into_iter()
        .chain(free_strings::<HandlersReport>())
        .collect();

    for name in &strings {
        let is_text = TEXT_OF_MEASURE.contains(&name.as_str());
        let is_name = NAMES_OF_WHY.contains(&name.as_str())
            // Properties of the machine.
            || name.starts_with("Machine.");
        assert!(is_text || is_name, "{name} in {strings:?}");
    }
}

/// Returns each property that is a string with any content, as `Type.property`.
fn free_strings<T: JsonSchema>() -> BTreeSet<String> {
    let schema = schema_for!(T).to_value();
    let mut strings = BTreeSet::new();
    let root = T::schema_name();
    let mut types = vec![(root.clone().into_owned(), &schema)];
    let mut visited = BTreeSet::from([root.into_owned()]);
    while let Some((name, definition)) = types.pop() {
        let mut references = Vec::new();
        collect(definition, &name, &mut strings, &mut references);
        for reference in references {
            if reference != MACHINE && visited.insert(reference.to_owned()) {
                types.push((reference.to_owned(), &schema["$defs"][reference]));
            }
        }
    }
    strings
}

/// Collects the free strings below a part of a schema and the types that it refers to.
fn collect<'a>(
    schema: &'a Value,
    name: &str,
    found: &mut BTreeSet<String>,
    references: &mut Vec<&'a str>,
) {
    if is_free_string(schema) {
        found.insert(name.into());
    }
    if let Some(reference) = schema["$ref"].as_str() {
        references.push(reference.trim_start_matches("#/$defs/"));
    }
    let parts = ["anyOf", "oneOf", "allOf", "prefixItems"];
    let parts = parts.iter().filter_map(|key| schema[key].as_array());
    let items = ["items", "additionalProperties"];
    let items = items.iter().filter_map(|key| schema.get(key));
    for part in parts.flatten().chain(items) {
        collect(part, name, found, references);
    }
    let owner = name.split('.').next().unwrap();
    for (property, part) in schema["properties"].as_object().into_iter().flatten() {
        collect(part, &format!("{owner}.{property}"), found, references);
    }
}

fn is_free_string(schema: &Value) -> bool {
    let kind = &schema["type"];
    let is_string = kind == "string"
        || kind
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind == "string"));
    // A pattern restricts a string to names, such as those of services.
    let is_restricted = ["enum", "const", "pattern"]
        .iter()
        .any(|key| !schema[key].is_null());
    is_string && !is_restricted
}
