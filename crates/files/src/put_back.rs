//! Undoes changes of the host at any end of this program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use laggard_model::printable;

/// Undoes a change when it is dropped: at the end, after an error or a panic, and after
/// a signal that ends the work. Also when this program is killed: a shell waits at a
/// pipe whose other end only this process holds, and the kernel then closes it.
#[derive(Debug)]
pub struct PutBack {
    shell: Child,
    /// Message for a failure.
    else_say: String,
}

/// Signals that would end the shell before it undoes the change: a terminal's signals
/// reach all its processes, and the reader of the output (`2>&1 | head`) may have ended
/// by then. The shell's output is therefore discarded: a command that cannot print has
/// failed, and ends `a && b`. Descriptor 3, which holds a lock, stays open to the end.
const DEAF: &str = "trap '' HUP INT QUIT TERM PIPE; exec 3>&1 1>/dev/null; read -r word; \
                    [ \"$word\" = undone ] && exit 0;";

impl PutBack {
    /// Runs `script` at the end, with these arguments as `$1`, `$2`. `else_say` is the
    /// message for the user if that fails. A lock on `held` lasts until the script has
    /// ended, for any end of this program.
    ///
    /// # Errors
    /// If no shell can be started.
    pub fn at_end(
        script: &str,
        arguments: &[impl AsRef<OsStr>],
        held: Option<File>,
        else_say: String,
    ) -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", &format!("{DEAF} {script}"), "laggard-put-back"])
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(held.map_or_else(Stdio::null, Stdio::from))
            .spawn()?;
        Ok(Self { shell, else_say })
    }

    /// Does not run the script: this program has undone the change itself.
    pub fn dismiss(mut self) {
        if let Some(pipe) = &mut self.shell.stdin {
            // If the shell is gone, it does not run the script either.
            let _ = pipe.write_all(b"undone\n");
        }
    }
}

impl Drop for PutBack {
    fn drop(&mut self) {
        // `wait` closes the pipe first.
        let is_done = self.shell.wait().is_ok_and(|status| status.success());
        if !is_done {
            // An error cannot be reported if the terminal is gone.
            let _ = writeln!(io::stderr(), "laggard: {}", printable(&self.else_say));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SCRIPT: &str = r#"printf '%s\n' "$1" >"$2""#;

    #[test]
    fn change_is_undone_at_the_end_and_after_a_panic() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("setting");
        let words = ["as it was", file.to_str().unwrap()];

        let back = PutBack::at_end(SCRIPT, &words, None, String::new()).unwrap();
        fs::write(&file, "changed").unwrap();
        let meanwhile = fs::read_to_string(&file).unwrap();
        let panicked = std::panic::catch_unwind(move || {
            let _back = back;
            panic!("as a test");
        });

        assert!(panicked.is_err());
        assert_eq!(meanwhile, "changed");
        assert_eq!(fs::read_to_string(&file).unwrap(), "as it was\n");
    }

    #[test]
    fn dismissed_script_does_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("setting");
        let words = ["as it was", file.to_str().unwrap()];

        PutBack::at_end(SCRIPT, &words, None, String::new())
            .unwrap()
            .dismiss();

        assert!(!file.exists());
    }
}
