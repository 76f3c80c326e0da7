//! Recordings without names, to be given away.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, process};

use anyhow::Context as _;
use laggard_answer::qos::{Application, by_name, catalogue};
use laggard_model::{AskedApplication, printable};
use laggard_record::{Access, Folder, NameSort, PublicNames, Recording, Redactor, redact};
use laggard_workload::load::{Builtin, Recipe};

use crate::exit::Exit;
use crate::pipe;

/// Writes `recording` without names to `folder`, and says what was replaced and
/// what was not.
pub(crate) fn write(recording: &Recording, folder: &Path) -> anyhow::Result<Exit> {
    anyhow::ensure!(
        folder.as_os_str() != "-",
        "a recording is a folder; name one with `--output`"
    );
    let mut redactor = redactor()?;
    copy(recording, folder, &mut redactor)?;
    pipe::print(&said(folder, &redactor))?;
    Ok(Exit::Ok)
}

fn copy(recording: &Recording, folder: &Path, redactor: &mut Redactor) -> anyhow::Result<()> {
    let left_out = redact(recording, folder, redactor)
        .with_context(|| format!("write `{}` without names", recording.dir().display()))?;
    for one in left_out {
        pipe::say(&format!("left out: {}: {}", one.file, one.reason));
    }
    Ok(())
}

/// Copies without names, in a folder of nobody else's that is this program's
/// working folder, and is removed with this value.
#[derive(Debug)]
pub(crate) struct Copies {
    folder: PathBuf,
    before: PathBuf,
    /// What the copies are called, in the order of what they are copies of.
    pub(crate) names: Vec<PathBuf>,
    redactor: Redactor,
}

impl Copies {
    pub(crate) fn make(recordings: &[PathBuf]) -> anyhow::Result<Self> {
        let opened = laggard_answer::open(recordings)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos();
        let folder = env::temp_dir().join(format!("laggard-{}-{now}", process::id()));
        let before = env::current_dir().context("find the working folder")?;
        let context = || format!("make the folder `{}` for copies", folder.display());
        Folder::make(&folder, Access::Private).with_context(context)?;
        let mut copies = Self {
            folder,
            before,
            names: Vec::new(),
            redactor: redactor()?,
        };
        for (number, recording) in (1..).zip(&opened) {
            let name = PathBuf::from(format!("recording-{number}.laggard"));
            copy(recording, &copies.folder.join(&name), &mut copies.redactor)?;
            copies.names.push(name);
        }
        env::set_current_dir(&copies.folder).context("go to the folder of the copies")?;
        Ok(copies)
    }

    /// The same application, called as the copies call it.
    pub(crate) fn application(&mut self, asked: &Application) -> anyhow::Result<Application> {
        let redacted: AskedApplication = self.redactor.application(asked.into());
        Ok((&redacted).try_into()?)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // Best effort: nobody else can read it, and it lies where others' do.
        let _ = env::set_current_dir(&self.before);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// One that keeps the names of laggard's own loads and applications.
fn redactor() -> anyhow::Result<Redactor> {
    let built_in = Builtin::ALL.iter().map(|one| one.name().to_owned());
    let recipes = Recipe::built_in()?.into_iter().map(|one| one.name);
    let applications = catalogue()?.into_iter();
    let applications = applications.map(|one| Ok((&by_name(&one.name)?).into()));
    Ok(Redactor::new(PublicNames {
        loads: built_in.chain(recipes).collect(),
        applications: applications.collect::<anyhow::Result<_>>()?,
    }))
}

fn said(folder: &Path, redactor: &Redactor) -> String {
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
    let kept = match kept.is_empty() {
        true => String::new(),
        false => format!(
            "These devices and modules keep their names: {}.\n",
            kept.join(", ")
        ),
    };
    format!(
        "Wrote {}\n\
         Replaced: {}.\n\
         Not replaced: times and numbers, the processor, the kernel with its settings,\n\
         modules and functions.\n\
         {kept}\
         Look through it before you give it away.\n",
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
