//! JSON schemas of the output.

use std::io::Read as _;

use clap::ValueEnum as _;
use flate2::read::ZlibDecoder;

use crate::args::SchemaOf;
use crate::exit::Exit;
use crate::pipe;

/// Files of `docs/schemas` by name, as start and end of parts of the text in `PARTS`. The code that
/// generates them from the types is several times as large and is in the tests only.
const SCHEMAS: &[(&str, &[(usize, usize)])] = include!(concat!(env!("OUT_DIR"), "/schemas.rs"));

/// Compressed text. Definitions that several schemas share occur once.
const PARTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schemas.zlib"));

/// Prints a JSON schema.
pub(crate) fn schema(of: SchemaOf) -> anyhow::Result<Exit> {
    pipe::print(&published(&name(of)))?;
    Ok(Exit::Ok)
}

fn name(of: SchemaOf) -> String {
    let value = of.to_possible_value().expect("no value is hidden");
    value.get_name().to_owned()
}

fn published(name: &str) -> String {
    let (_, ranges) = SCHEMAS
        .iter()
        .find(|(schema, _)| *schema == name)
        .expect("a test reads every schema");
    let mut text = String::new();
    ZlibDecoder::new(PARTS)
        .read_to_string(&mut text)
        .expect("the build script compressed text");
    ranges
        .iter()
        .map(|&(start, end)| &text[start..end])
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use laggard_answer::Report;
    use laggard_answer::why::WhyReport;
    use laggard_model::{Digest, Manifest};
    use schemars::generate::SchemaSettings;
    use schemars::{JsonSchema, Schema, schema_for};

    use super::*;

    const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas");

    /// Variable that makes the test write the files instead of comparing them.
    const REWRITE: &str = "LAGGARD_REWRITE_SCHEMA";

    fn generate(of: SchemaOf) -> Schema {
        match of {
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
        }
    }

    /// Returns the schema of the serialized form: a key that can be missing is not required.
    fn written<T: JsonSchema>() -> Schema {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        settings.into_generator().into_root_schema_for::<T>()
    }

    #[test]
    fn published_schemas_describe_the_types() {
        let mut stale = Vec::new();
        for &of in SchemaOf::value_variants() {
            let (name, text) = (name(of), pipe::json(&generate(of)).unwrap());
            let file = Path::new(DIRECTORY).join(format!("{name}.schema.json"));
            if std::env::var_os(REWRITE).is_some() {
                std::fs::write(&file, &text).unwrap();
            }
            if std::fs::read_to_string(&file).ok() != Some(text) {
                stale.push(name);
            }
        }

        assert!(
            stale.is_empty(),
            "docs/schemas is stale: {stale:?}; run `{REWRITE}=1 cargo test -p laggard document::`"
        );
    }

    #[test]
    fn program_contains_each_published_schema() {
        let names: BTreeSet<String> = SchemaOf::value_variants()
            .iter()
            .copied()
            .map(name)
            .collect();

        let published: BTreeSet<String> = SCHEMAS.iter().map(|(name, _)| (*name).into()).collect();

        assert_eq!(published, names);
        for name in &names {
            let file = Path::new(DIRECTORY).join(format!("{name}.schema.json"));
            let text = std::fs::read_to_string(file).unwrap();
            assert!(super::published(name) == text, "for {name}");
        }
    }
}
