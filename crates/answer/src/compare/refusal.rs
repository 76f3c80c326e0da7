//! What cannot be compared, by the row in which it differs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use laggard_analyze::InputError;
use laggard_model::name::line_name;
use laggard_model::{Backend, CaveatKind, LoadLabel, Manifest, Service, Stage};
use laggard_record::{OpenError, Recording};

use crate::load::LoadError;
use crate::qos::QosError;

/// Why recordings cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// One cannot be opened, or is given twice, on either side.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// One cannot be read again.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// They were not measured alike.
    #[error("{what}: `{second}` in `{}`, but `{first}` in `{}`; {remedy}", other.display(), one.display())]
    Differ {
        /// The row.
        what: &'static str,
        /// A recording, and what it has.
        one: Box<Path>,
        /// Its value.
        first: Box<str>,
        /// Another.
        other: Box<Path>,
        /// Its value.
        second: Box<str>,
        /// What to do.
        remedy: &'static str,
    },
    /// A service was asked for that some recording lacks.
    #[error("`{}` did not measure the service `{service}`; `laggard show` lists those it has", .dir.display())]
    NoService {
        /// The recording.
        dir: PathBuf,
        /// The service.
        service: Service,
    },
    /// Figures of a recording cannot be trusted.
    #[error("`{}` is not trustworthy: {reasons}; leave it out, or record it again", .dir.display())]
    Untrustworthy {
        /// The recording.
        dir: PathBuf,
        /// Why, in words.
        reasons: String,
    },
    /// The load of a recording failed, ended before it did, or was stopped.
    #[error("load: `{}`: {what}; what was measured then is of a machine without it: leave it out, or record it again", .dir.display())]
    LoadEnded {
        /// The recording.
        dir: PathBuf,
        /// Which load, and how it ended.
        what: Box<str>,
    },
    /// How often the application misses cannot be told.
    #[error(transparent)]
    Qos(#[from] QosError),
    /// A figure is out of its range.
    #[error(transparent)]
    Input(#[from] InputError),
}

impl CompareError {
    /// Whether it is because of what was measured, not of what was asked.
    pub const fn is_untrustworthy(&self) -> bool {
        matches!(self, Self::Untrustworthy { .. } | Self::LoadEnded { .. })
    }
}

const ALIKE: &str = "a difference would be one of measuring; record both alike";

/// Refuses rows of more than one kind.
pub(super) fn same_rows(recordings: &[Recording]) -> Result<(), CompareError> {
    let words = |one: &Manifest| one.plan.rows.words(one.plan.period_ns);
    let remedy = "compare those of one kind";
    alike(
        recordings,
        "rows",
        |one| words(one).unwrap_or_default(),
        remedy,
    )
}

/// Refuses what was not measured alike. `first` of `recordings` are the first
/// side's.
pub(super) fn check(
    recordings: &[Recording],
    first: usize,
    only: Option<Service>,
    load_may_differ: bool,
) -> Result<(), CompareError> {
    load_ran_throughout(recordings)?;
    if let Some(service) = only {
        let lacks = |one: &&Recording| !has(one.manifest(), service);
        if let Some(one) = recordings.iter().find(lacks) {
            let dir = one.dir().into();
            return Err(CompareError::NoService { dir, service });
        }
    } else {
        alike(
            recordings,
            "services",
            services,
            "compare one that both have (--service; for `check`, `service` beside the requirement), or record both alike",
        )?;
    }
    alike(recordings, "period", |one| one.plan.periods(), ALIKE)?;
    alike(
        recordings,
        "dither",
        |one| yes(one.plan.dither).into(),
        ALIKE,
    )?;
    alike(
        recordings,
        "backend",
        |one| backend(one.backend).into(),
        ALIKE,
    )?;
    alike(recordings, "stages", stages, ALIKE)?;
    let load = |one: &Manifest| LoadLabel::of(one.load.as_ref()).to_string();
    let (before, after) = recordings.split_at(first);
    for side in [before, after] {
        let remedy = "the recordings of one side must have one load; compare load by load";
        alike(side, "load", load, remedy)?;
    }
    if !load_may_differ {
        let remedy = "with another load it is another question; where the load is what you changed, say so with `--factor load`";
        alike(recordings, "load", load, remedy)?;
    }
    Ok(())
}

/// The rest of a recording whose load ended early, or was stopped, is of another load,
/// and nothing tells how much of it that is.
fn load_ran_throughout(recordings: &[Recording]) -> Result<(), CompareError> {
    let ended = |one: &Recording| {
        let caveats = one.manifest().caveats.iter();
        let mut of_load = caveats.filter(|caveat| caveat.kind == CaveatKind::LoadEnded);
        of_load.next().map(|caveat| CompareError::LoadEnded {
            dir: one.dir().into(),
            what: caveat.what.as_str().into(),
        })
    };
    recordings.iter().find_map(ended).map_or(Ok(()), Err)
}

fn has(manifest: &Manifest, service: Service) -> bool {
    // The interrupts of all lines are a service without lines.
    !service.has_lines() || manifest.lines.iter().any(|line| line.service == service)
}

fn alike(
    recordings: &[Recording],
    what: &'static str,
    row: impl Fn(&Manifest) -> String,
    remedy: &'static str,
) -> Result<(), CompareError> {
    let Some((one, rest)) = recordings.split_first() else {
        return Ok(());
    };
    let first = row(one.manifest());
    for other in rest {
        let second = row(other.manifest());
        if second != first {
            return Err(CompareError::Differ {
                what,
                one: one.dir().into(),
                first: first.into(),
                other: other.dir().into(),
                second: second.into(),
                remedy,
            });
        }
    }
    Ok(())
}

fn services(manifest: &Manifest) -> String {
    let lines = manifest.lines.iter();
    let all: BTreeSet<_> = lines
        .map(|line| (line.route, line.service.rank(), line.service))
        .collect();
    let names = all
        .into_iter()
        .map(|(route, _, service)| line_name(service, route));
    names.collect::<Vec<_>>().join(", ")
}

fn stages(manifest: &Manifest) -> String {
    let name = |stage: &Stage| stage.to_string();
    let stages = manifest.plan.stages.as_ref();
    stages.map_or_else(
        || "all".into(),
        |stages| stages.iter().map(name).collect::<Vec<_>>().join(","),
    )
}

pub(super) const fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

const fn backend(backend: Backend) -> &'static str {
    match backend {
        Backend::Bpf => "BPF",
        Backend::Etw => "the kernel's events (ETW)",
        Backend::User => "user space alone",
        Backend::Tracer => "the timerlat tracer",
        Backend::Driver => "the driver wdmlat.sys",
        Backend::Fake => "a script",
        Backend::Imported => "another program",
    }
}
