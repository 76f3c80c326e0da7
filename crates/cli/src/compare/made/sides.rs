//! A and B: what is made so before a recording, and what runs meanwhile.

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

/// Either side.
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

    const fn of<T>(self, both: &[T; 2]) -> &T {
        match self {
            Self::A => &both[0],
            Self::B => &both[1],
        }
    }
}

/// What differs between the sides. All of it is undone when this is dropped.
#[derive(Debug)]
pub(super) struct Sides {
    /// A setting, and its values.
    setting: Option<(Setting, [String; 2])>,
    /// A command that runs while measuring; none: nothing of it.
    meanwhile: [Option<String>; 2],
    /// A command that runs before.
    before: [Option<String>; 2],
    /// Runs A's `before` again.
    _back: Option<PutBack>,
}

impl Sides {
    /// As the user asks. Nothing is changed yet.
    pub(super) fn of(args: &CompareArgs) -> anyhow::Result<Self> {
        let setting = match &args.factor {
            Some(FactorArg::Setting { name, values }) => {
                Some((Setting::hold(name)?, values.clone()))
            }
            Some(FactorArg::Load) | None => None,
        };
        let meanwhile = match args.run.as_slice() {
            [] if setting.is_some() || !args.before.is_empty() => [None, None],
            [a, b] => [a, b].map(|one| Some(one.clone()).filter(|one| !one.trim().is_empty())),
            _ => anyhow::bail!(
                "give --run twice: the command that runs while A is recorded, and that of B ('': none)"
            ),
        };
        let before = before(&args.before)?;
        let back = match &before {
            [None, Some(_)] => anyhow::bail!(
                "--before changes the machine for B, and nothing changes it back; give --before A=COMMAND too, which also runs at the end"
            ),
            [Some(a), _] => Some(
                PutBack::at_end(
                    r#"exec /bin/sh -c "$1""#,
                    &[a],
                    None,
                    format!("`{a}` was to put the machine back, and failed; see to it"),
                )
                .context("start a shell that puts the machine back")?,
            ),
            [None, None] => None,
        };
        Ok(Self {
            setting,
            meanwhile,
            before,
            _back: back,
        })
    }

    /// What is changed on purpose.
    pub(super) fn changed(&self) -> Difference {
        let word = |command: &Option<String>| command.clone().unwrap_or_else(|| "nothing".into());
        let setting = self.setting.iter();
        let mut all: Vec<(String, [String; 2])> = setting
            .map(|(setting, values)| (setting.name().to_owned(), values.clone()))
            .collect();
        if self.before != [None, None] {
            all.push(("run before".into(), self.before.each_ref().map(word)));
        }
        if self.meanwhile != [None, None] || all.is_empty() {
            all.push(("run during".into(), self.meanwhile.each_ref().map(word)));
        }
        let joined = |word: fn(&(String, [String; 2])) -> &str| {
            let words: Vec<&str> = all.iter().map(word).collect();
            words.join(" and ")
        };
        Difference {
            what: joined(|(what, _)| what),
            first: vec![joined(|(_, [first, _])| first)],
            second: vec![joined(|(_, [_, second])| second)],
        }
    }

    /// What will be done to the machine, a line each.
    pub(super) fn announced(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((setting, [a, b])) = &self.setting {
            let (name, now) = (setting.name(), setting.before());
            lines.push(format!(
                "sets {name} to {a} for A and to {b} for B; it is {now}, and will be again at the end"
            ));
        }
        for side in Letter::BOTH {
            let letter = side.name();
            if let Some(command) = side.of(&self.before) {
                let end = if side == Letter::A {
                    " and at the end"
                } else {
                    ""
                };
                lines.push(format!("runs before each {letter}{end}: {command}"));
            }
            if let Some(command) = side.of(&self.meanwhile) {
                lines.push(format!("runs while {letter} is recorded: {command}"));
            }
        }
        lines
    }

    /// Finds out, before hours of recording, whether the machine takes both values
    /// of a setting, and the one that it has.
    pub(super) fn try_out(&self) -> anyhow::Result<()> {
        let Some((setting, values)) = &self.setting else {
            return Ok(());
        };
        setting.can_be_put_back()?;
        values.iter().try_for_each(|value| setting.set(value))
    }

    /// Makes the machine as this side has it.
    pub(super) fn make(&self, side: Letter) -> anyhow::Result<()> {
        if let Some((setting, values)) = &self.setting {
            setting.set(side.of::<String>(values))?;
        }
        let Some(command) = side.of(&self.before) else {
            return Ok(());
        };
        let run = || {
            Command::new("/bin/sh")
                .args(["-c", command])
                .stdin(Stdio::null())
                .stdout(std::io::stderr())
                .status()
        };
        let status = run().with_context(|| format!("run `{command}` before {}", side.name()))?;
        if !status.success() {
            anyhow::bail!("`{command}`, before {}, failed: {status}", side.name());
        }
        Ok(())
    }

    /// Whether the machine was so until now.
    pub(super) fn check(&self, side: Letter) -> anyhow::Result<()> {
        match &self.setting {
            Some((setting, values)) => setting.is_still(side.of::<String>(values)),
            None => Ok(()),
        }
    }

    /// The command that runs while this side is recorded.
    pub(super) fn meanwhile(&self, side: Letter) -> Option<&str> {
        side.of(&self.meanwhile).as_deref()
    }

    /// Makes the machine as it was. Returns what is to be said of that.
    pub(super) fn put_back(self) -> Option<String> {
        let Self { setting, .. } = self;
        setting.map(|(setting, _)| setting.put_back())
    }

    /// What is measured on this side, and what runs besides its load.
    pub(super) fn plan(&self, side: Letter, plan: Plan) -> anyhow::Result<(Plan, Beside)> {
        let words = |command: &String| ["/bin/sh", "-c", command].map(OsString::from).to_vec();
        match (side.of(&self.meanwhile), &plan.load) {
            (None, _) => Ok((plan, Beside::default())),
            // Without a load the command is one, and the recording tells of it.
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

/// A command that runs beside a load, if one does, and how the load fared. Measuring
/// ends with the command, as with one that is the load.
#[derive(Debug, Default)]
pub(super) struct Beside {
    process: Option<LoadProcess>,
    ended: Option<Ended>,
    /// That the load ended before the recording did, in words.
    load_ended: Option<String>,
}

impl Beside {
    /// How it failed, if it ended by itself and did.
    pub(super) fn failure(&self) -> Option<String> {
        let ended = self.ended.as_ref()?;
        (!ended.status.success()).then(|| ended.to_string())
    }

    /// What became of a load that ended before the recording did.
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

/// The commands of `A=COMMAND`, `B=COMMAND` or both in one.
fn before(words: &[String]) -> anyhow::Result<[Option<String>; 2]> {
    let mut found = [None, None];
    for word in words {
        // A command may have commas of its own.
        let (first, second) = match word.find(",B=").or_else(|| word.find(",A=")) {
            Some(at) => (&word[..at], Some(&word[at + 1..])),
            None => (word.as_str(), None),
        };
        for one in std::iter::once(first).chain(second) {
            let (place, command) = match (one.strip_prefix("A="), one.strip_prefix("B=")) {
                (Some(command), _) => (&mut found[0], command),
                (_, Some(command)) => (&mut found[1], command),
                _ => anyhow::bail!(
                    "`{one}` is for neither side; write it as `A=COMMAND` or `B=COMMAND`"
                ),
            };
            if place.replace(command.to_owned()).is_some() {
                anyhow::bail!(
                    "`{one}` is the second command before that side; join them with `&&`"
                );
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<[Option<String>; 2], String> {
        let words: Vec<String> = words.iter().map(|word| (*word).into()).collect();
        before(&words).map_err(|err| err.to_string())
    }

    #[test]
    fn what_runs_before_is_given_apart_or_together() {
        let both = [Some("irq 0,1".to_owned()), Some("irq 2,3".to_owned())];

        assert_eq!(read(&["A=irq 0,1", "B=irq 2,3"]).as_ref(), Ok(&both));
        assert_eq!(read(&["A=irq 0,1,B=irq 2,3"]).as_ref(), Ok(&both));
        assert_eq!(read(&["B=x"]), Ok([None, Some("x".into())]));
        for (words, said) in [(&["x"][..], "neither side"), (&["A=x", "A=y"], "join them")] {
            assert!(read(words).unwrap_err().contains(said), "{words:?}");
        }
    }
}
