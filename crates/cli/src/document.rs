//! Schemas of what the program writes.

use laggard_answer::Report;
use laggard_answer::why::WhyReport;
use laggard_model::{Digest, Manifest};
use schemars::schema_for;

use crate::args::SchemaOf;
use crate::exit::Exit;
use crate::pipe;

/// A JSON schema.
pub(crate) fn schema(of: SchemaOf) -> anyhow::Result<Exit> {
    let schema = match of {
        SchemaOf::Show => schema_for!(Report),
        SchemaOf::Intervals => schema_for!(laggard_answer::show::IntervalsReport),
        SchemaOf::Why => schema_for!(WhyReport),
        SchemaOf::Handlers => schema_for!(laggard_answer::why::HandlersReport),
        SchemaOf::Bug => schema_for!(laggard_answer::why::BugReport),
        SchemaOf::Qos => schema_for!(laggard_answer::qos::QosReport),
        SchemaOf::Forecast => schema_for!(laggard_answer::forecast::ForecastReport),
        SchemaOf::Sched => schema_for!(laggard_answer::sched::SchedReport),
        SchemaOf::Rehearse => schema_for!(laggard_answer::rehearsal::RehearsalReport),
        SchemaOf::Compare => schema_for!(laggard_answer::compare::CompareReport),
        SchemaOf::CompareOver => schema_for!(laggard_answer::compare::SeriesReport),
        SchemaOf::Check => schema_for!(laggard_answer::check::CheckReport),
        SchemaOf::Doctor => schema_for!(laggard_answer::doctor::DoctorReport),
        SchemaOf::Attach => schema_for!(laggard_answer::attach::AttachReport),
        SchemaOf::Switch => schema_for!(laggard_answer::switch::SwitchReport),
        SchemaOf::Rtos => schema_for!(laggard_answer::rtos::RtosReport),
        SchemaOf::Timers => schema_for!(laggard_answer::timers::TimersReport),
        SchemaOf::Import => schema_for!(laggard_answer::trace::TraceReport),
        SchemaOf::Digest => schema_for!(Digest),
        SchemaOf::Manifest => schema_for!(Manifest),
    };
    pipe::print(&pipe::json(&schema)?)?;
    Ok(Exit::Ok)
}
