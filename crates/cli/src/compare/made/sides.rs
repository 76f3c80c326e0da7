//! Sides A and B: settings and commands before a recording, and commands during it.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use laggard_answer::compare::Difference;
use laggard_files::PutBack;
use laggard_model::CaveatKind;
use laggard_session::{Ending, LoadChoice, News, Next, Plan, WatchError, Watcher};
use laggard_workload::load::{Ended, Launch, LoadProcess};

use super::setting::Setting;
use crate::args::{CompareArgs, FactorArg};

/// Side of a comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Letter {
    A,
    B,
}

impl Letter {
    pub(super) const BOTH: [Self; 2] = [Self::A, Self::B];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }

    const fn select<T>(self, both: &[T; 2]) -> &T {
        match self {
            Self::A => &both[0],
            Self::B => &both[1],
        }
    }
}

/// Differences between the sides. Dropping them restores the machine.
#[derive(Debug)]
pub(super) struct Sides {
    setting: Option<(Setting, [String; 2])>,
    /// Command during the recording.
    during: [Option<String>; 2],
    /// Command before the recording.
    before: [Option<String>; 2],
    /// Runs the command before A again.
    _back: Option<PutBack>,
}

impl Sides {
    /// Reads the options. Does not change the machine yet.
    pub(super) fn new(args: &CompareArgs) -> anyhow::Result<Self> {
        let setting = match &args.factor {
            Some(FactorArg::Setting { name, values }) => {
                Some((Setting::hold(name)?, values.clone()))
            }
            Some(FactorArg::Load) | None => None,
        };
        let during = match args.run.as_slice() {
            [] if setting.is_some() || !args.before.is_empty() => [None, None],
            [a, b] => {
                [a, b].map(|value| Some(value.clone()).filter(|value| !value.trim().is_empty()))
            }
            _ => anyhow::bail!("give --run twice: a command for A and a command for B ('': none)"),
        };
        let before = before(&args.before)?;
        let back = match &before {
            [None, Some(_)] => anyhow::bail!(
                "--before changes the machine for B and nothing restores it; give --before A=COMMAND too, which also runs at the end"
            ),
            [Some(a), _] => Some(
                PutBack::at_end(
                    r#"exec /bin/sh -c "$1""#,
                    &[a],
                    None,
                    format!("`{a}` failed to restore the machine; restore it by hand"),
                )
                .context("cannot start a shell that restores the machine")?,
            ),
            [None, None] => None,
        };
        Ok(Self {
            setting,
            during,
            before,
            _back: back,
        })
    }

    /// Returns the change under test.
    pub(super) fn changed(&self) -> Difference {
        let word = |command: &Option<String>| command.clone().unwrap_or_else(|| "nothing".into());
        let setting = self.setting.iter();
        let mut differences: Vec<(String, [String; 2])> = setting
            .map(|(setting, values)| (setting.name().to_owned(), values.clone()))
            .collect();
        if self.before != [None, None] {
            differences.push(("run before".into(), self.before.each_ref().map(word)));
        }
        if self.during != [None, None] || differences.is_empty() {
            differences.push(("run during".into(), self.during.each_ref().map(word)));
        }
        let joined = |word: fn(&(String, [String; 2])) -> &str| {
            let words: Vec<&str> = differences.iter().map(word).collect();
            words.join(" and ")
        };
        Difference {
            what: joined(|(what, _)| what),
            first: vec![joined(|(_, [first, _])| first)],
            second: vec![joined(|(_, [_, second])| second)],
        }
    }

    /// Describes the changes of the machine, one per line.
    pub(super) fn announced(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((setting, [a, b])) = &self.setting {
            let (name, now) = (setting.name(), setting.before());
            lines.push(format!(
                "sets {name} to {a} for A and to {b} for B; restores {now} at the end"
            ));
        }
        for side in Letter::BOTH {
            let letter = side.name();
            if let Some(command) = side.select(&self.before) {
                let end = if side == Letter::A {
                    " and at the end"
                } else {
                    ""
                };
                lines.push(format!("runs before each {letter}{end}: {command}"));
            }
            if let Some(command) = side.select(&self.during) {
                lines.push(format!("runs during each {letter}: {command}"));
            }
        }
        lines
    }

    /// Checks before hours of recording that the kernel accepts both values of a setting and
    /// its present value.
    pub(super) fn try_out(&self) -> anyhow::Result<()> {
        let Some((setting, values)) = &self.setting else {
            return Ok(());
        };
        setting.check_restore()?;
        values.iter().try_for_each(|value| setting.set(value))
    }

    /// Sets up the machine for this side.
    pub(super) fn set_up(&self, side: Letter) -> anyhow::Result<()> {
        if let Some((setting, values)) = &self.setting {
            setting.set(side.select::<String>(values))?;
        }
        let Some(command) = side.select(&self.before) else {
            return Ok(());
        };
        let run = || {
            Command::new("/bin/sh")
                .args(["-c", command])
                .stdin(Stdio::null())
                .stdout(std::io::stderr())
                .status()
        };
        let status =
            run().with_context(|| format!("cannot run `{command}` before {}", side.name()))?;
        if !status.success() {
            anyhow::bail!("`{command}`, before {}, failed: {status}", side.name());
        }
        Ok(())
    }

    /// Checks that the setting still has the value of this side.
    pub(super) fn check(&self, side: Letter) -> anyhow::Result<()> {
        match &self.setting {
            Some((setting, values)) => setting.is_still(side.select::<String>(values)),
            None => Ok(()),
        }
    }

    /// Returns the command during recordings of this side.
    pub(super) fn during(&self, side: Letter) -> Option<&str> {
        side.select(&self.during).as_deref()
    }

    /// Restores the setting. Returns a message about it.
    pub(super) fn restore(self) -> Option<String> {
        let Self { setting, .. } = self;
        setting.map(|(setting, _)| setting.restore())
    }

    /// Returns the plan of a recording of this side, and the command next to its load.
    pub(super) fn plan(&self, side: Letter, plan: Plan) -> anyhow::Result<(Plan, Beside)> {
        let words = |command: &String| ["/bin/sh", "-c", command].map(OsString::from).to_vec();
        match (side.select(&self.during), &plan.load) {
            (None, _) => Ok((plan, Beside::default())),
            // Without a load, the command is the load and is in the manifest.
            (Some(command), LoadChoice::None) => {
                let load = LoadChoice::Command(words(command));
                Ok((Plan { load, ..plan }, Beside::default()))
            }
            (Some(command), LoadChoice::Named(_) | LoadChoice::Command(_)) => {
                let process = Launch::new(words(command)).told().start()?;
                Ok((
                    plan,
                    Beside {
                        process: Some(process),
                        ..Beside::default()
                    },
                ))
            }
        }
    }
}

/// Command next to a load, and the end of the load. Measuring ends with the command.
#[derive(Debug, Default)]
pub(super) struct Beside {
    process: Option<LoadProcess>,
    ended: Option<Ended>,
    /// Message if the load ended before the recording.
    load_ended: Option<String>,
}

impl Beside {
    /// Returns how the command failed.
    pub(super) fn failure(&self) -> Option<String> {
        let ended = self.ended.as_ref()?;
        (!ended.status.success()).then(|| ended.to_string())
    }

    /// Returns the message if the load ended before the recording.
    pub(super) fn load_ended(&self) -> Option<&str> {
        self.load_ended.as_deref()
    }
}

impl Watcher for Beside {
    fn begun(&mut self, _start: laggard_model::Nanos) {
        if let Some(process) = &mut self.process {
            process.begin();
        }
    }

    fn observe(&mut self, _news: &News<'_>) -> Result<Next, WatchError> {
        if let Some(process) = &mut self.process {
            self.ended = process.poll()?;
        }
        Ok(match &self.ended {
            Some(_) => Next::End,
            None => Next::GoOn,
        })
    }

    fn end(&mut self, ending: &Ending) {
        let caveats = ending.caveats.iter();
        let mut of_load = caveats.filter(|caveat| caveat.kind == CaveatKind::LoadEnded);
        self.load_ended = of_load.next().map(|caveat| caveat.what.clone());
    }
}

/// Parses `A=COMMAND`, `B=COMMAND`, or both in one.
fn before(words: &[String]) -> anyhow::Result<[Option<String>; 2]> {
    let mut commands = [None, None];
    for word in words {
        // Commands can contain commas.
        let (first, second) = match word.find(",B=").or_else(|| word.find(",A=")) {
            Some(comma) => (&word[..comma], Some(&word[comma + 1..])),
            None => (word.as_str(), None),
        };
        for option in std::iter::once(first).chain(second) {
            let (place, command) = match (option.strip_prefix("A="), option.strip_prefix("B=")) {
                (Some(command), _) => (&mut commands[0], command),
                (_, Some(command)) => (&mut commands[1], command),
                _ => {
                    anyhow::bail!("`{option}` names neither side; write `A=COMMAND` or `B=COMMAND`")
                }
            };
            if place.replace(command.to_owned()).is_some() {
                anyhow::bail!(
                    "`{option}` is the second command before this side; join them with `&&`"
                );
            }
        }
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<[Option<String>; 2], String> {
        let words: Vec<String> = words.iter().map(|word| (*word).into()).collect();
        before(&words).map_err(|err| err.to_string())
    }

    #[test]
    fn commands_before_the_sides_can_be_in_one_option() {
        let both = [Some("irq 0,1".to_owned()), Some("irq 2,3".to_owned())];

        assert_eq!(read(&["A=irq 0,1", "B=irq 2,3"]).as_ref(), Ok(&both));
        assert_eq!(read(&["A=irq 0,1,B=irq 2,3"]).as_ref(), Ok(&both));
        assert_eq!(read(&["B=x"]), Ok([None, Some("x".into())]));
        for (words, part) in [(&["x"][..], "neither side"), (&["A=x", "A=y"], "join them")] {
            assert!(read(words).unwrap_err().contains(part), "{words:?}");
        }
    }
}
