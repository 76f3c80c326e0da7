//! Refusals of recordings that cannot be compared.

#![allow(clippy::disallowed_macros, reason = "an error has a text")]

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use laggard_analyze::InputError;
use laggard_model::name::line_name;
use laggard_model::{Backend, CaveatKind, LoadLabel, Manifest, Service, Stage};
use laggard_record::{OpenError, Recording};

use crate::Distrust;
use crate::load::LoadError;
use crate::qos::QosError;

/// Error of `laggard compare`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A recording cannot be opened, or is given twice.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A recording cannot be read again.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Recordings were not measured in the same way.
    #[error("{what}: `{second}` in `{}`, but `{first}` in `{}`; {remedy}", other.display(), reference.display(), remedy = what.remedy())]
    Differ {
        /// The property.
        what: Unlike,
        /// A recording.
        reference: Box<Path>,
        first: Box<str>,
        /// Another recording.
        other: Box<Path>,
        second: Box<str>,
    },
    /// A recording does not have the service.
    #[error("`{}` did not measure the service `{service}`; `laggard show` lists its services", .dir.display())]
    NoService {
        /// The recording.
        dir: PathBuf,
        service: Service,
    },
    /// A recording cannot be trusted.
    #[error("leave `{}` out, or record it again", .dir.display())]
    Untrustworthy {
        /// The recording.
        dir: PathBuf,
        reasons: Vec<Distrust>,
    },
    /// The load of a recording failed, ended early, or was stopped.
    #[error("load: `{}`: {what}, so part of the recording is without it; leave it out, or record it again", .dir.display())]
    LoadEnded {
        /// The recording.
        dir: PathBuf,
        /// The load, and how it ended.
        what: Box<str>,
    },
    /// The rate of misses of an application cannot be computed.
    #[error(transparent)]
    Qos(#[from] QosError),
    /// A figure is out of its range.
    #[error(transparent)]
    Input(#[from] InputError),
}

impl CompareError {
    /// Returns whether the reason is the measurement and not the question.
    pub const fn is_untrustworthy(&self) -> bool {
        matches!(self, Self::Untrustworthy { .. } | Self::LoadEnded { .. })
    }
}

/// Property that recordings must share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unlike {
    Rows,
    Services,
    Period,
    Dither,
    Backend,
    Stages,
    LoadOfSide,
    /// Load of the two sides.
    Load,
}

impl Unlike {
    const fn remedy(self) -> &'static str {
        match self {
            Self::Rows => "compare recordings of the same kind",
            Self::Services => {
                "choose a service that all have (--service; in requirements of `check`: `service`), or record both sides alike"
            }
            Self::Period | Self::Dither | Self::Backend | Self::Stages => "record both sides alike",
            Self::LoadOfSide => {
                "the recordings of one side need the same load; compare load by load"
            }
            Self::Load => "if the load is the change under test, use `--factor load`",
        }
    }
}

impl Display for Unlike {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rows => "rows",
            Self::Services => "services",
            Self::Period => "period",
            Self::Dither => "dither",
            Self::Backend => "backend",
            Self::Stages => "stages",
            Self::LoadOfSide | Self::Load => "load",
        })
    }
}

/// Refuses rows of more than one kind.
pub(super) fn same_rows(recordings: &[Recording]) -> Result<(), CompareError> {
    let words = |manifest: &Manifest| manifest.plan.rows.words(manifest.plan.period_ns);
    alike(recordings, Unlike::Rows, |manifest| {
        words(manifest).unwrap_or_default()
    })
}

/// Refuses recordings that were not measured in the same way. The first `first` of
/// `recordings` belong to A.
pub(super) fn check(
    recordings: &[Recording],
    first: usize,
    only: Option<Service>,
    load_may_differ: bool,
) -> Result<(), CompareError> {
    load_ran_throughout(recordings)?;
    if let Some(service) = only {
        let lacks = |recording: &&Recording| !has(recording.manifest(), service);
        if let Some(recording) = recordings.iter().find(lacks) {
            let dir = recording.dir().into();
            return Err(CompareError::NoService { dir, service });
        }
    } else {
        alike(recordings, Unlike::Services, services)?;
    }
    alike(recordings, Unlike::Period, |manifest| {
        manifest.plan.periods()
    })?;
    alike(recordings, Unlike::Dither, |manifest| {
        yes(manifest.plan.dither).into()
    })?;
    alike(recordings, Unlike::Backend, |manifest| {
        backend(manifest.backend).into()
    })?;
    alike(recordings, Unlike::Stages, stages)?;
    let load = |manifest: &Manifest| LoadLabel::of(manifest.load.as_ref()).to_string();
    let (before, after) = recordings.split_at(first);
    for side in [before, after] {
        alike(side, Unlike::LoadOfSide, load)?;
    }
    if !load_may_differ {
        alike(recordings, Unlike::Load, load)?;
    }
    Ok(())
}

/// Refuses recordings whose load ended early or was stopped. The part without the load has an
/// unknown length.
fn load_ran_throughout(recordings: &[Recording]) -> Result<(), CompareError> {
    let ended = |recording: &Recording| {
        let caveats = recording.manifest().caveats.iter();
        let mut of_load = caveats.filter(|caveat| caveat.kind == CaveatKind::LoadEnded);
        of_load.next().map(|caveat| CompareError::LoadEnded {
            dir: recording.dir().into(),
            what: caveat.what.as_str().into(),
        })
    };
    recordings.iter().find_map(ended).map_or(Ok(()), Err)
}

fn has(manifest: &Manifest, service: Service) -> bool {
    // The interrupts of all series count as one service, which does not have a series.
    !service.has_lines() || manifest.lines.iter().any(|line| line.service == service)
}

fn alike(
    recordings: &[Recording],
    what: Unlike,
    row: impl Fn(&Manifest) -> String,
) -> Result<(), CompareError> {
    let Some((reference, rest)) = recordings.split_first() else {
        return Ok(());
    };
    let first = row(reference.manifest());
    for other in rest {
        let second = row(other.manifest());
        if second != first {
            return Err(CompareError::Differ {
                what,
                reference: reference.dir().into(),
                first: first.into(),
                other: other.dir().into(),
                second: second.into(),
            });
        }
    }
    Ok(())
}

fn services(manifest: &Manifest) -> String {
    let lines = manifest.lines.iter();
    let series: BTreeSet<_> = lines
        .map(|line| (line.route, line.service.rank(), line.service))
        .collect();
    let names = series
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

pub(super) const fn yes(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

const fn backend(backend: Backend) -> &'static str {
    match backend {
        Backend::Bpf => "BPF",
        Backend::Etw => "ETW",
        Backend::Perf => "perf tracepoints",
        Backend::User => "user space",
        Backend::Tracer => "timerlat tracer",
        Backend::Driver => "wdmlat.sys",
        Backend::Fake => "script",
        Backend::Imported => "another program",
    }
}
