//! Actions that a user can choose.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nix::sys::signal::Signal;

/// Signal that is sent if the user names none.
const DEFAULT_SIGNAL: Signal = Signal::SIGUSR1;

/// Action on a late wakeup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LateAction {
    /// Text of the user.
    text: String,
    pub(super) kind: LateActionKind,
}

/// Kind of an action.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum LateActionKind {
    /// Ends the measurement.
    Stop,
    /// Runs a program with arguments. There is at least the program.
    Exec(Vec<String>),
    /// Sends a signal to a process.
    Signal { process: u32, signal: Signal },
    /// Writes a trace to a file.
    Trace(PathBuf),
}

impl LateAction {
    /// Returns whether it ends the measurement.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        self.kind == LateActionKind::Stop
    }
}

impl fmt::Display for LateAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for LateAction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = match text.split_once('=') {
            None if text == "stop" => LateActionKind::Stop,
            Some(("exec", command)) => LateActionKind::Exec(words(command)?),
            Some(("signal", target)) => signal(target)?,
            Some(("trace", "")) => return Err("trace= needs a file, as in trace=late.txt".into()),
            Some(("trace", file)) => LateActionKind::Trace(file.into()),
            _ => {
                return Err(
                    "unknown action; use stop, exec=COMMAND, signal=PID, signal=PID:NAME or trace=FILE".into(),
                );
            }
        };
        Ok(Self {
            text: text.to_owned(),
            kind,
        })
    }
}

/// Splits a command into words as a shell does. Variables and redirections are not interpreted.
fn words(command: &str) -> Result<Vec<String>, String> {
    match shlex::split(command) {
        None => Err("exec= has a quote that is not closed".into()),
        Some(words) if words.first().is_none_or(String::is_empty) => {
            Err("exec= needs a command, as in exec=./save.sh".into())
        }
        Some(words) => Ok(words),
    }
}

fn signal(target: &str) -> Result<LateActionKind, String> {
    let (process, name) = match target.split_once(':') {
        Some((process, name)) => (process, Some(name)),
        None => (target, None),
    };
    let process = process
        .parse()
        .ok()
        .filter(|&process| process > 0)
        .ok_or_else(|| format!("`{process}` is not a process ID; write it as signal=4242"))?;
    let signal = match name {
        None => DEFAULT_SIGNAL,
        Some(name) => {
            let full = format!("SIG{}", name.strip_prefix("SIG").unwrap_or(name));
            full.parse().map_err(|_| {
                format!("unknown signal `{name}`; use a name of `kill -l`, such as USR2")
            })?
        }
    };
    Ok(LateActionKind::Signal { process, signal })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> LateActionKind {
        text.parse::<LateAction>().unwrap().kind
    }

    fn refused(text: &str) -> String {
        text.parse::<LateAction>().unwrap_err()
    }

    #[test]
    fn actions_are_parsed() {
        assert_eq!(kind("stop"), LateActionKind::Stop);
        let words = ["sh", "-c", "cat > x"].map(str::to_owned).to_vec();
        assert_eq!(kind("exec=sh -c 'cat > x'"), LateActionKind::Exec(words));
        assert_eq!(kind("trace=a=b"), LateActionKind::Trace("a=b".into()));
        for (text, signal) in [
            ("signal=42", Signal::SIGUSR1),
            ("signal=42:USR2", Signal::SIGUSR2),
            ("signal=42:SIGTERM", Signal::SIGTERM),
        ] {
            let process = 42;
            assert_eq!(kind(text), LateActionKind::Signal { process, signal });
        }
    }

    #[test]
    fn bad_actions_are_refused_with_the_right_form() {
        for text in ["", "halt", "stop=now", "exec", "run=x"] {
            assert!(refused(text).contains("exec=COMMAND"), "{text}");
        }
        assert!(refused("exec=").contains("needs a command"));
        assert!(refused("exec='a").contains("not closed"));
        assert!(refused("trace=").contains("needs a file"));
        for text in ["signal=", "signal=0", "signal=-1", "signal=init"] {
            assert!(refused(text).contains("not a process ID"), "{text}");
        }
        assert!(refused("signal=1:NONE").contains("unknown signal `NONE`"));
    }
}
