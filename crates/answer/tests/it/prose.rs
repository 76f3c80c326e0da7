//! JSON without prose. Each free string in the schema of an answer is listed here: a name,
//! or text of a user, the machine or another crate.

use std::collections::BTreeSet;

use laggard_answer::Report;
use laggard_answer::attach::{AttachReport, LateCycle};
use laggard_answer::check::CheckReport;
use laggard_answer::compare::{CompareReport, SeriesReport};
use laggard_answer::doctor::DoctorReport;
use laggard_answer::forecast::ForecastReport;
use laggard_answer::qos::{CatalogueReport, ProfilesReport, QosReport};
use laggard_answer::rehearsal::RehearsalReport;
use laggard_answer::rtos::RtosReport;
use laggard_answer::sched::SchedReport;
use laggard_answer::show::IntervalsReport;
use laggard_answer::switch::SwitchReport;
use laggard_answer::timers::TimersReport;
use laggard_answer::trace::TraceReport;
use laggard_answer::why::{BugReport, HandlersReport, LateWakeup, WhyReport};
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

/// Names, paths, versions and commands.
const NAMES: &str = "
    Ability.name Above.who Application.name AttachCauseKind.call AttachCauseKind.contender
    AttachCauseKind.file AttachCauseKind.holder AttachCauseKind.who AttachCycles.name AudioState.devices
    AudioState.file AudioState.governor AudioState.name AudioState.number AttachLate.call
    AttachLate.contender AttachLate.file AttachLate.holder AttachLate.who AttachOthers.name
    AttachPolicy.policy AttachRanked.call AttachRanked.contender AttachRanked.file
    AttachRanked.holder AttachRanked.threads AttachRanked.who AttachReport.application
    AttachRow.name AttachRow.policy AttachRow.woken_by AttachSite.call AttachSite.clock
    AttachSite.file AttachTaken.call AttachTaken.contender AttachTaken.file
    AttachTaken.holder AttachTaken.who AttachWaker.who AttachWorst.name BugReport.load
    BugReport.recording BugReport.reproduce BugReport.version CallChain.functions
    CauseComparison.who CauseShare.contenders CauseShare.who CausesUnknown.recording
    CheckReport.file CheckReport.host CheckReport.recorded_at CheckReport.recordings
    CheckedRow.load CheckedRow.name ClockSeen.name Clocksource.available Clocksource.current
    CompetingThread.name Conditions.hypervisor Conditions.kernel Conditions.load
    Conditions.preemption Conditions.processor Conditions.started CpuFreq.driver
    CpuFreq.governor Difference.first Difference.second Difference.what
    DoctorReport.recording EpisodePart.who FirstFix.contenders FirstFix.who GroupQuota.file
    GroupQuota.group HandlerRow.who HandlersReport.path Hardware.audio Hardware.board
    Hardware.disks Hardware.file_system Hardware.firmware Hardware.graphics Hardware.network
    HolderState.preempted Host.architecture Host.build Host.command_line Host.config
    Host.distribution Host.huge_pages Host.hypervisor Host.idle_driver Host.kernel
    Host.lockdown Host.mitigations Host.node Host.preemption Idle.name LateCycle.name
    LateWakeupCause.who Layer.name LoadFigures.load LoadForecast.load
    LoadForecast.recordings LoadOutlook.load LoadOutlook.recordings LoadProfiles.load
    LoadProfiles.recordings LoadRun.command LoadRun.name LockedPages.limit
    LongestHandler.name Machine.architecture Machine.build Machine.distribution
    Machine.hypervisor Machine.kernel Machine.options Machine.preemption Machine.processor
    MissingFits.applications NamedCause.who Note.recording OrderView.sides Overview.path
    Processor.microcode Processor.model ProfileVerdict.name ProgramCost.name ProvenEffect.build
    ProvenEffect.kernel ProvenEffect.load ProvenEffect.measured_on ProvenEffect.node
    ProvenEffect.processor ProvenEffect.setting ProvenEffect.with ProvenEffect.without
    RecordingIntervals.path RecordingReport.path RecordingReport.started
    RehearsalReport.file RehearsalReport.load RehearsalReport.predicted_from
    RehearsalReport.recorded_in Remark.tasks Report.version RtosReason.load SchedReport.load
    SeriesRecording.kernel SeriesRecording.path SeriesRecording.recorded_at
    SeriesReport.load Shortfall.file SideView.load SideView.recordings SwitchReport.load
    TaskCount.name TaskRemark.group TaskRemark.key TaskRemark.phase TaskRemark.task
    TaskRemark.timer
    TaskVerdict.name Throughput.unit TraceHandlerRow.name TraceReport.path
    TraceReport.session TraceReport.windows TraceThreadRow.name UnknownEffect.node
    WaitEnd.thread WhyReport.load WhyReport.path WorkComparison.unit";
/// Text of other crates: warnings, absent abilities and errors, with remedies; and sources of a
/// catalogue.
const TEXT: &str = "
    Absence.reason Absence.remedy Application.source
    Caveat.advice Caveat.what LoadRun.ended Shortfall.reason State.error
    TraceLosses.first_damage";

#[test]
fn json_has_no_prose() {
    let strings: BTreeSet<String> = [
        free_strings::<AttachReport>(),
        free_strings::<BugReport>(),
        free_strings::<CatalogueReport>(),
        free_strings::<CheckReport>(),
        free_strings::<CompareReport>(),
        free_strings::<DoctorReport>(),
        free_strings::<ForecastReport>(),
        free_strings::<HandlersReport>(),
        free_strings::<IntervalsReport>(),
        free_strings::<LateCycle>(),
        free_strings::<LateWakeup>(),
        free_strings::<ProfilesReport>(),
        free_strings::<QosReport>(),
        free_strings::<RehearsalReport>(),
        free_strings::<Report>(),
        free_strings::<RtosReport>(),
        free_strings::<SchedReport>(),
        free_strings::<SeriesReport>(),
        free_strings::<SwitchReport>(),
        free_strings::<TimersReport>(),
        free_strings::<TraceReport>(),
        free_strings::<WhyReport>(),
    ]
    .into_iter()
    .flatten()
    .collect();

    let expected = NAMES.split_whitespace().chain(TEXT.split_whitespace());
    let expected: BTreeSet<String> = expected.map(str::to_owned).collect();
    assert_eq!(strings, expected);
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
            if visited.insert(reference.to_owned()) {
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
    prose: &mut BTreeSet<String>,
    references: &mut Vec<&'a str>,
) {
    if is_free_string(schema) {
        prose.insert(name.into());
    }
    if let Some(reference) = schema["$ref"].as_str() {
        references.push(reference.trim_start_matches("#/$defs/"));
    }
    let parts = ["anyOf", "oneOf", "allOf", "prefixItems"];
    let parts = parts.iter().filter_map(|key| schema[key].as_array());
    let items = ["items", "additionalProperties"];
    let items = items.iter().filter_map(|key| schema.get(key));
    for part in parts.flatten().chain(items) {
        collect(part, name, prose, references);
    }
    let owner = name.split('.').next().unwrap();
    for (property, part) in schema["properties"].as_object().into_iter().flatten() {
        collect(part, &format!("{owner}.{property}"), prose, references);
    }
}

fn is_free_string(schema: &Value) -> bool {
    let kind = &schema["type"];
    let is_string = kind == "string"
        || kind
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind == "string"));
    // A pattern restricts a string to names, for example of services.
    let is_restricted = ["enum", "const", "pattern"]
        .iter()
        .any(|key| !schema[key].is_null());
    is_string && !is_restricted
}
