//! The measured command.

use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use laggard_measure::linux::AttachProbe;

use crate::args::AttachArgs;
use crate::exit::Exit;
use crate::pipe;

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// Starts the command. It is measured from its first instruction.
pub(super) fn started(probe: &AttachProbe, args: &AttachArgs) -> anyhow::Result<Option<Child>> {
    let [program, arguments @ ..] = &args.command[..] else {
        return Ok(None);
    };
    probe.follow_own(true)?;
    let child = Command::new(program).args(arguments).spawn();
    probe.follow_own(false)?;
    let child = child.with_context(|| format!("cannot run `{}`", program.display()))?;
    Ok(Some(child))
}

/// Ends a command that runs for longer than the measurement: SIGTERM, then SIGKILL.
pub(super) fn end(command: &mut Child) -> anyhow::Result<ExitStatus> {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    let number = i32::try_from(command.id()).context("the command's number")?;
    // It may have ended already; the loop waits for it.
    let _ = kill(Pid::from_raw(number), Signal::SIGTERM);
    let start = Instant::now();
    while start.elapsed() < GRACE {
        if let Some(status) = command.try_wait().context("cannot wait for the command")? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    command.kill().context("cannot end the command")?;
    command.wait().context("cannot wait for the command")
}

/// Returns the exit code of a command that failed by itself.
pub(super) fn exit(ended: Option<ExitStatus>, is_ours: bool) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;

    const OF_SIGNALS: i32 = 128;
    let Some(status) = ended.filter(|status| !status.success()) else {
        return Exit::Ok;
    };
    // laggard or Ctrl-C ended it.
    if is_ours && status.signal().is_some() {
        return Exit::Ok;
    }
    let code = status
        .code()
        .or(status.signal().map(|signal| OF_SIGNALS + signal));
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(code) => {
            pipe::say(&format!(
                "the command failed ({status}); this is its exit code"
            ));
            Exit::Command(code)
        }
        None => Exit::Ok,
    }
}
