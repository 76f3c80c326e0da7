//! `laggard export`: a recording for other programs.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use laggard_answer::show::{By, RecordingReport, report};
use laggard_files::NewFile;
use laggard_model::{Keep, State};
use laggard_record::{Columns, Recording};
use laggard_view::export::{ExportError, ExportFormat, ExportWriter, Table};

use crate::args::ExportArgs;
use crate::exit::Exit;
use crate::{ask, pipe, redacted};

pub(crate) fn export(args: &ExportArgs) -> anyhow::Result<Exit> {
    let recording = Recording::open(&args.recording)?;
    let format = match (args.format, &args.output) {
        (Some(format), _) => format,
        (None, Some(folder)) => return redacted::write(&recording, folder),
        (None, None) => anyhow::bail!("give `--format FORMAT` or `--redact`"),
    };
    match output(args, format)? {
        Some(path) => {
            let mut file = NewFile::create(path, args.force)?;
            write(format, &recording, &mut file)
                .with_context(|| format!("cannot write `{}`", path.display()))?;
            file.keep()?;
        }
        None => match write(format, &recording, pipe::stdout()?) {
            Err(error) if is_gone(&error) => {}
            written => written.context("cannot write to standard output")?,
        },
    }
    Ok(Exit::Ok)
}

/// Returns the requested file; `None`: standard output.
fn output(args: &ExportArgs, format: ExportFormat) -> anyhow::Result<Option<&Path>> {
    match &args.output {
        Some(path) if path.as_os_str() == "-" => Ok(None),
        Some(path) => Ok(Some(path)),
        None => match format.binary() {
            Some(name) => anyhow::bail!(
                "{name} is a binary format; name a file with `--output`, or `--output -` for a pipe"
            ),
            None => Ok(None),
        },
    }
}

fn write(format: ExportFormat, from: &Recording, out: impl Write + Send) -> anyhow::Result<()> {
    match format.writer(&from.manifest().lines, out)? {
        ExportWriter::Samples(table) => samples(table, from),
        ExportWriter::Distributions(out, written) => text(&written(&distributions(from)?)?, out),
    }
}

fn distributions(from: &Recording) -> anyhow::Result<RecordingReport> {
    Ok(report(from, By::Service, ask::threads())?)
}

fn text(text: &str, mut out: impl Write) -> anyhow::Result<()> {
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(ExportError::Io)?;
    Ok(())
}

/// Every sample that was kept, a few thousand rows at a time.
fn samples(mut table: Box<dyn Table + '_>, from: &Recording) -> anyhow::Result<()> {
    let manifest = from.manifest();
    let mut written = Ok(());
    let mut missing = from.shortfalls().to_vec();
    missing.extend(from.scan(Columns::all(), |batch| {
        if written.is_ok() {
            written = table.add(batch);
        }
    }));
    written?;
    table.finish()?;
    if manifest.plan.keep == Keep::Tail {
        pipe::say(
            "the recording has only the tail (`--keep tail`): these rows are the wakeups with the largest latencies; use the format openmetrics, prometheus or hdr for the whole distribution",
        );
    }
    if manifest.state == State::Running {
        pipe::say("the recording is incomplete: it is still running, or was killed");
    }
    for shortfall in missing {
        pipe::say(&format!("missing: {shortfall}; {}", shortfall.advice()));
    }
    Ok(())
}

/// Returns true if the reader of the pipe has gone away, which is not an error.
fn is_gone(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref();
    matches!(refused, Some(ExportError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe)
}
