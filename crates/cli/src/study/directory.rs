//! Directory of a study.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use laggard_answer::study::{Against, StudyDir, StudyKind, TOLERANCE};
use laggard_files::{AtSignal, OutputFile, sudo_caller};
use laggard_measure::host::{self as machine, Files};
use laggard_record::{Access, Folder};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

use crate::args::{AgainstArg, StudyArgs};
use crate::{measuring, pipe};

/// File that names the study of a directory.
const PLAN: &str = "study.json";
/// Page with the tables and figures.
pub(super) const PAGE: &str = "study.html";
/// Room that a further recording needs at least, bytes.
const MIN_ROOM: usize = 1 << 20;

/// Returns the kind of the study in the directory. Creates the directory of a new study.
pub(super) fn settle(args: &StudyArgs, path: &Path) -> anyhow::Result<StudyKind> {
    let shown = path.display();
    if path.to_str().is_none() {
        bail!("the name `{shown}` is not UTF-8; give another one with --output");
    }
    let kind = StudyKind {
        study: args.study,
        is_quick: args.quick,
        loads: args.loads.clone(),
    };
    let mut names = HashSet::new();
    let steps = kind.study.steps_with(&kind.loads);
    for load in steps.iter().filter_map(|step| step.load) {
        measuring::find_load(load)?;
    }
    if let Some(step) = steps.iter().find(|step| !names.insert(step.name)) {
        bail!(
            "--loads has two loads whose recordings would be `{}`; give each load once",
            step.name
        );
    }
    if path.is_dir() {
        check_owner(path)?;
    }
    if let Some(existing) = kind_of(path)? {
        if existing.study != kind.study {
            bail!(
                "`{shown}` is the directory of the study {}; give another one with --output",
                existing.study
            );
        }
        if kind.is_quick && !existing.is_quick {
            bail!("`{shown}` is not a --quick study; leave out --quick, or give another --output");
        }
        if !kind.is_quick && existing.is_quick && !args.show {
            bail!("`{shown}` is a --quick study; add --quick, or give another --output");
        }
        if !args.show && existing.loads != kind.loads {
            let loads = match existing.loads.join(",") {
                loads if loads.is_empty() => "no --loads".to_owned(),
                loads => format!("--loads {loads}"),
            };
            bail!("`{shown}` is a study with {loads}; repeat that, or give another --output");
        }
        return Ok(existing);
    }
    match path.read_dir() {
        Ok(mut entries) => {
            if entries.next().is_some() && !has_recording(path, &kind) {
                bail!(
                    "`{shown}` is not the directory of a study (it lacks `{PLAN}`); set --output to another one"
                );
            }
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound && args.show => {
            bail!("`{shown}` does not exist; record first, without --show")
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            let folder = Folder::make(path, Access::Private).with_context(|| {
                format!("cannot create the directory `{shown}`; give another one with --output")
            })?;
            measuring::hand_over(Some(&folder))?;
        }
        Err(err) => return Err(err).with_context(|| format!("cannot read `{shown}`")),
    }
    if !args.show {
        keep(&path.join(PLAN), pipe::json(&kind)?.as_bytes())?;
    }
    Ok(kind)
}

/// Refuses, as root, the directory of a user who did not start the program: that user could
/// replace its files by links.
fn check_owner(path: &Path) -> anyhow::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = path
        .metadata()
        .with_context(|| format!("cannot read `{}`", path.display()))?
        .uid();
    let is_expected = owner == 0 || sudo_caller().is_some_and(|(user, _)| user == owner);
    if !is_expected {
        bail!(
            "`{}` belongs to user {owner}, who could redirect the files that root writes; give another directory with --output, or run as that user",
            path.display()
        );
    }
    Ok(())
}

/// Refuses to continue a study of another machine or kernel. Its tables would have figures of both
/// in one column.
pub(super) fn check_host(dir: &StudyDir, path: &Path) -> anyhow::Result<()> {
    let here = machine::identify(&Files::default());
    let is_complete = dir
        .steps()
        .all(|(step, _)| dir.recorded(step) + TOLERANCE >= step.length(dir.is_quick()));
    let hosts = dir.hosts()?;
    // A recording of a script has no machine.
    let mut others = hosts.iter().filter(|host| {
        !host.kernel.is_empty() && (host.node != here.node || host.kernel != here.kernel)
    });
    if let (Some(other), false) = (others.next(), is_complete) {
        bail!(
            "`{}` was recorded on `{}` with Linux {}, and this is `{}` with Linux {}; add --show for its tables, or give another --output",
            path.display(),
            other.node,
            other.kernel,
            here.node,
            here.kernel
        );
    }
    Ok(())
}

/// Locks the directory, because two studies that record at the same time disturb each other.
pub(super) fn lock(path: &Path) -> anyhow::Result<Flock<File>> {
    let file = path.join(PLAN);
    let opened = File::open(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
    Flock::lock(opened, FlockArg::LockExclusiveNonblock).map_err(|(_, err)| {
        let shown = path.display();
        if err == Errno::EWOULDBLOCK {
            anyhow::anyhow!(
                "another study records in `{shown}`; wait for its end, or give another --output"
            )
        } else {
            anyhow::anyhow!("cannot lock `{shown}`: {}", err.desc())
        }
    })
}

/// Writes a file of the study. A signal then still ends the study in order.
pub(super) fn keep(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    OutputFile::begin(file, AtSignal::Finishes)
        .and_then(|mut output| {
            output.write_all(content)?;
            output.keep()
        })
        .with_context(|| format!("cannot write `{}`", file.display()))
}

/// Refuses a directory without room for another recording.
pub(super) fn check_room(path: &Path) -> anyhow::Result<()> {
    let file = path.join(PAGE);
    OutputFile::begin(&file, AtSignal::Finishes)
        .and_then(|mut output| Ok(output.write_all(&vec![0; MIN_ROOM])?))
        .with_context(|| format!("cannot write to `{}`", path.display()))
}

fn has_recording(path: &Path, kind: &StudyKind) -> bool {
    let steps = kind.study.steps_with(&kind.loads);
    steps.iter().any(|step| match step.bench {
        Some(_) => path.join(step.name).with_extension("json").is_file(),
        None => path.join(format!("{}-1.laggard", step.name)).is_dir(),
    })
}

/// Reads which study a directory has; `None` if it is new.
fn kind_of(path: &Path) -> anyhow::Result<Option<StudyKind>> {
    let file = path.join(PLAN);
    let text = match laggard_files::read_regular(&file) {
        Ok(text) => text,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) if err.kind() == io::ErrorKind::NotADirectory => {
            bail!("`{}` is not a directory; give another one", path.display())
        }
        Err(err) => {
            return Err(err).with_context(|| {
                format!(
                    "cannot read `{}`; give another directory, or run as its owner",
                    file.display()
                )
            });
        }
    };
    let kind = serde_json::from_slice(&text).with_context(|| {
        format!(
            "`{}` does not name a study; remove it to start a new one",
            file.display()
        )
    })?;
    Ok(Some(kind))
}

pub(super) fn against(args: &StudyArgs) -> anyhow::Result<Option<Against>> {
    Ok(match &args.against {
        None => None,
        Some(AgainstArg::Paper) => Some(Against::Paper),
        Some(AgainstArg::Directory(path)) => {
            let shown = path.display();
            let kind = match kind_of(path)? {
                Some(kind) if kind.study == args.study => kind,
                Some(kind) => bail!(
                    "--against `{shown}` has recordings of the study {}, not {}",
                    kind.study,
                    args.study
                ),
                None => bail!(
                    "--against `{shown}` is not the directory of a study; give one that `laggard study` made, or `paper`"
                ),
            };
            Some(Against::Directory(StudyDir::open(path, &kind)?))
        }
    })
}
