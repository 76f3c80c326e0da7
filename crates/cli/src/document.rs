//! JSON schemas of the output.

use laggard_answer::Report;
use laggard_answer::why::WhyReport;
use laggard_model::{Digest, Manifest};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, schema_for};

use crate::args::SchemaOf;
use crate::exit::Exit;
use crate::pipe;

/// A JSON schema.
pub(crate) fn schema(of: SchemaOf) -> anyhow::Result<Exit> {
    let schema = match of {
        SchemaOf::Show => written::<Report>(),
        SchemaOf::Intervals => written::<laggard_answer::show::IntervalsReport>(),
        SchemaOf::Why => written::<WhyReport>(),
        SchemaOf::Wakeup => written::<laggard_answer::why::LateWakeup>(),
        SchemaOf::Cycle => written::<laggard_answer::attach::LateCycle>(),
        SchemaOf::Handlers => written::<laggard_answer::why::HandlersReport>(),
        SchemaOf::Bug => written::<laggard_answer::why::BugReport>(),
        SchemaOf::Qos => written::<laggard_answer::qos::QosReport>(),
        SchemaOf::QosProfiles => written::<laggard_answer::qos::ProfilesReport>(),
        SchemaOf::QosList => written::<laggard_answer::qos::CatalogueReport>(),
        SchemaOf::Forecast => written::<laggard_answer::forecast::ForecastReport>(),
        SchemaOf::Sched => written::<laggard_answer::sched::SchedReport>(),
        SchemaOf::Rehearse => written::<laggard_answer::rehearsal::RehearsalReport>(),
        SchemaOf::Compare => written::<laggard_answer::compare::CompareReport>(),
        SchemaOf::CompareOver => written::<laggard_answer::compare::SeriesReport>(),
        SchemaOf::Check => written::<laggard_answer::check::CheckReport>(),
        SchemaOf::Doctor => written::<laggard_answer::doctor::DoctorReport>(),
        SchemaOf::Attach => written::<laggard_view::attach::AttachJson<'_>>(),
        SchemaOf::Switch => written::<laggard_answer::switch::SwitchReport>(),
        SchemaOf::Rtos => written::<laggard_answer::rtos::RtosReport>(),
        SchemaOf::Study => written::<laggard_answer::study::StudyReport>(),
        SchemaOf::Timers => written::<laggard_answer::timers::TimersReport>(),
        SchemaOf::Import => written::<laggard_answer::trace::TraceReport>(),
        // These are read back, also as earlier versions wrote them.
        SchemaOf::Digest => schema_for!(Digest),
        SchemaOf::Manifest => schema_for!(Manifest),
    };
    pipe::print(&pipe::json(&schema)?)?;
    Ok(Exit::Ok)
}

/// Returns the schema of the serialized form: a key that can be missing is not required.
fn written<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>()
}
