//! The command that is watched, if one is.

use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use laggard_measure::linux::AttachProbe;

use crate::args::AttachArgs;
use crate::exit::Exit;
use crate::pipe;

/// A command that has not ended so long after it was asked to is ended.
const GRACE: Duration = Duration::from_secs(2);

/// The command, watched from its first instruction on.
pub(super) fn started(probe: &AttachProbe, args: &AttachArgs) -> anyhow::Result<Option<Child>> {
    let [program, arguments @ ..] = &args.command[..] else {
        return Ok(None);
    };
    probe.follow_own(true)?;
    let child = Command::new(program).args(arguments).spawn();
    probe.follow_own(false)?;
    let child = child.with_context(|| format!("run `{}`", program.display()))?;
    Ok(Some(child))
}

/// Ends a command that outlasts what was asked for: SIGTERM, then SIGKILL.
pub(super) fn end(command: &mut Child) -> anyhow::Result<ExitStatus> {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    let number = i32::try_from(command.id()).context("the command's number")?;
    // Gone already: it is waited for below.
    let _ = kill(Pid::from_raw(number), Signal::SIGTERM);
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        if let Some(status) = command.try_wait().context("wait for the command")? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    command.kill().context("end the command")?;
    command.wait().context("wait for the command")
}

/// The command's own exit code where it failed by itself.
pub(super) fn exit(ended: Option<ExitStatus>, is_ours: bool) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;

    const OF_SIGNALS: i32 = 128;
    let Some(status) = ended.filter(|status| !status.success()) else {
        return Exit::Ok;
    };
    // We ended it, or Ctrl-C did.
    if is_ours && status.signal().is_some() {
        return Exit::Ok;
    }
    let code = status
        .code()
        .or(status.signal().map(|one| OF_SIGNALS + one));
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
