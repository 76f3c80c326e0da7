//! Recordings without names, to share with others.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_answer::qos::{Application, by_name, catalogue};
use laggard_model::{AskedApplication, LOADS_OF_OURS, printable};
use laggard_record::{Destination, NameSort, PublicNames, Recording, Redactor, redact};

use crate::exit::Exit;
use crate::pipe;
use crate::temporary::Temporary;

/// Writes `recording` without names to `folder`, and prints the replacements and omissions.
pub(crate) fn write(recording: &Recording, folder: &Path) -> anyhow::Result<Exit> {
    anyhow::ensure!(
        folder.as_os_str() != "-",
        "a recording is a directory; set it with `--output`"
    );
    let mut redactor = redactor()?;
    copy(recording, folder.into(), &mut redactor)?;
    pipe::print(&summary(folder, &redactor))?;
    Ok(Exit::Ok)
}

fn copy(recording: &Recording, place: Destination, redactor: &mut Redactor) -> anyhow::Result<()> {
    let left_out = redact(recording, place, redactor).with_context(|| {
        format!(
            "cannot write a copy of `{}` without names",
            recording.dir().display()
        )
    })?;
    for file in left_out {
        pipe::say(&format!("left out: {}: {}", file.file, file.reason));
    }
    Ok(())
}

/// Copies without names, in a private directory. It is the working directory of this program, and
/// is removed on drop.
#[derive(Debug)]
pub(crate) struct Copies {
    before: PathBuf,
    /// Names of the copies, in the order of the originals.
    pub(crate) names: Vec<PathBuf>,
    redactor: Redactor,
    /// Removed last.
    folder: Temporary,
}

impl Copies {
    pub(crate) fn make(recordings: &[PathBuf]) -> anyhow::Result<Self> {
        let opened = laggard_answer::open(recordings)?;
        let mut copies = Self {
            before: env::current_dir().context("cannot find the working directory")?,
            names: Vec::new(),
            redactor: redactor()?,
            folder: Temporary::make()?,
        };
        for (number, recording) in (1..).zip(&opened) {
            let name = format!("recording-{number}.laggard");
            let place = Destination::within(copies.folder.folder(), &name);
            copy(recording, place, &mut copies.redactor).with_context(|| {
                let around = env::temp_dir();
                format!(
                    "cannot copy to `{}` (set TMPDIR to use another directory)",
                    around.display()
                )
            })?;
            copies.names.push(name.into());
        }
        env::set_current_dir(copies.folder.folder().path())
            .context("cannot enter the directory of the copies")?;
        Ok(copies)
    }

    /// Returns the application under the name that the copies use for it.
    pub(crate) fn application(&mut self, application: &Application) -> anyhow::Result<Application> {
        let redacted: AskedApplication = self.redactor.application(application.into());
        Ok((&redacted).try_into()?)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // Best effort: this program ends.
        let _ = env::set_current_dir(&self.before);
    }
}

/// Returns a redactor that keeps the names of built-in loads and applications.
fn redactor() -> anyhow::Result<Redactor> {
    let loads = LOADS_OF_OURS.into_iter().map(|(name, _)| name.to_owned());
    let applications = catalogue()?.into_iter();
    let applications = applications.map(|application| Ok((&by_name(&application.name)?).into()));
    Ok(Redactor::new(PublicNames {
        loads: loads.collect(),
        applications: applications.collect::<anyhow::Result<_>>()?,
    }))
}

fn summary(folder: &Path, redactor: &Redactor) -> String {
    let mut replaced: Vec<String> = redactor
        .replaced()
        .map(|(sort, count)| counted(sort, count))
        .collect();
    if replaced.is_empty() {
        replaced.push("nothing".into());
    }
    let kept: Vec<String> = redactor
        .kept()
        .map(|name| printable(name).to_string())
        .collect();
    let kept = if kept.is_empty() {
        String::new()
    } else {
        format!(
            "These devices and modules keep their names: {}.\n",
            kept.join(", ")
        )
    };
    format!(
        "Wrote {}\n\
         Replaced: {}.\n\
         Not replaced: times and numbers, the processor, the kernel with its settings,\n\
         modules and functions.\n\
         {kept}\
         Check it before you publish it.\n",
        printable(&folder.display().to_string()),
        replaced.join(", ")
    )
}

fn counted(sort: NameSort, count: u64) -> String {
    match count {
        1 => format!("1 {}", sort.word()),
        _ => format!("{count} {}s", sort.word()),
    }
}
