//! `laggard top` in a pipe, and on a terminal of tmux.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::scripted::{
    self, DEADLINE, Printed as _, Texts as _, command as laggard, signal, wait_for,
};

fn script(dir: &TempDir) -> String {
    let stalled = scripted::script(1_000_000, &scripted::stall(2_000_000_000, 30_000_000));
    scripted::backend(dir.path(), &stalled)
}

#[test]
fn a_pipe_gets_lines_late_wakeups_and_a_summary() {
    let dir = TempDir::new().unwrap();

    let output = laggard()
        .args(["top", "--duration=5s", "--threshold=1ms"])
        .arg(script(&dir))
        .output()
        .unwrap();

    let text = output.text();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.starts_with("laggard top: no load, period 1ms"),
        "{text}"
    );
    assert!(
        !text.contains('\u{1b}'),
        "escape sequences in a pipe: {text}"
    );
    let seconds = text
        .lines()
        .filter(|line| line.contains(" s  SCHED_FIFO 90"))
        .count();
    assert!(seconds >= 5, "{text}");
    text.assert_has("late: SCHED_FIFO 90 on CPU 0, 30.0 ms: cause unknown");
    let (_, summary) = text.split_once("\nMeasured for 5 s:\n").unwrap();
    let row = summary
        .lines()
        .find(|line| line.contains("SCHED_FIFO 90"))
        .unwrap();
    row.assert_has(" 4,999 ");
    row.assert_has(" 18.9 us ");
    summary.assert_has("Lost: 0 wakeups; ring full 0");
}

#[test]
fn with_output_everything_is_recorded_and_the_figures_are_those_of_show() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");

    let output = laggard()
        .args(["top", "--batch", "--duration=5s", "--output"])
        .arg(&recording)
        .arg(script(&dir))
        .output()
        .unwrap();

    let text = output.text();
    text.assert_has("Recorded in ");
    let shown = laggard()
        .args(["show", "--json"])
        .arg(&recording)
        .output()
        .unwrap()
        .json();
    let row = shown["recordings"][0]["services"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["service"] == "fifo:90")
        .unwrap();
    assert_eq!(row["latency"]["samples"], 4_999);
    assert_eq!(row["missed"], 30, "{row}");
    text.assert_has("      30     0\n");
}

/// Returns the thread of this process whose name ends with `name`.
fn thread_of(process: u32, name: &str) -> Option<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let is_it = |task: &PathBuf| {
        let comm = fs::read_to_string(task.join("comm")).unwrap_or_default();
        comm.trim_end().ends_with(name)
    };
    let task = tasks.flatten().map(|task| task.path()).find(is_it)?;
    task.file_name()?.to_str()?.parse().ok()
}

/// Without BPF and real-time threads, so that it does not need privileges.
#[test]
fn a_warning_during_the_measurement_has_the_same_effect_as_in_show() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    let top = laggard()
        .args(["top", "--batch", "--backend=user", "--services=other"])
        .args(["--duration=1h", "--output"])
        .arg(&recording)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut tid = None;
    wait_for("it measures", || {
        tid = thread_of(top.id(), "/other");
        tid.is_some() && scripted::has_samples(&recording)
    });
    // SAFETY: the arguments are integers.
    let changed = unsafe { libc::setpriority(libc::PRIO_PROCESS, tid.unwrap(), 5) };
    // Duration of the run at this priority.
    sleep(Duration::from_secs(1));
    signal(top.id(), "INT");
    let output = top.wait_with_output().unwrap();
    if changed != 0 {
        return println!("skipped: this user may not renice a thread");
    }

    let text = output.text();
    let shown = laggard().arg("show").arg(&recording).output().unwrap();
    assert_eq!(shown.status.code(), Some(3));
    assert_eq!(output.status.code(), Some(3), "{text}");
    let warnings = text.split_once("Found during the measurement:").unwrap().1;
    assert!(
        warnings.contains("at nice 5 during the measurement"),
        "{text}"
    );
    assert!(warnings.contains("NOT TRUSTWORTHY"), "{text}");
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let dir = TempDir::new().unwrap();
    let mut child = laggard()
        .args(["top", "--every=1s"])
        .arg(script(&dir))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    // The pipe closes when the reader is dropped.
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();

    wait_for("it ends without a reader", || {
        child.try_wait().unwrap().is_some()
    });

    assert!(first.starts_with("laggard top"), "{first}");
}

#[test]
fn too_short_an_interval_is_refused() {
    let output = laggard().args(["top", "--every=1ms"]).output().unwrap();

    assert_eq!(output.status.code(), Some(2));
    let text = output.errors();
    text.assert_has("--every 1ms is too often");
}

/// Shell in a tmux terminal of 80 x 24, ended when dropped.
struct Terminal {
    dir: TempDir,
}

impl Terminal {
    /// Returns `None` without tmux.
    fn open() -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let terminal = Self { dir };
        let is_open = terminal.tmux(&[
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "env",
            "-i",
            "TERM=screen",
            "PATH=/usr/bin:/bin",
            "PS1=ready> ",
            "sh",
        ]);
        if is_open.is_none() {
            eprintln!("skipped: no tmux");
            return None;
        }
        Some(terminal)
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the output of tmux, if it can run.
    fn tmux(&self, words: &[&str]) -> Option<String> {
        let socket = self.path().join("tmux");
        let output = Command::new("tmux")
            .arg("-S")
            .arg(&socket)
            .args(["-f", "/dev/null"])
            .args(words)
            .current_dir(self.path())
            .output()
            .ok()?;
        output.status.success().then(|| output.text())
    }

    fn press(&self, keys: &[&str]) {
        let mut words = vec!["send-keys"];
        words.extend(keys);
        self.tmux(&words).unwrap();
    }

    /// Waits until the screen shows `words`; the whole screen.
    fn wait_for(&self, words: &str) -> String {
        let begin = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]).unwrap();
            if screen.contains(words) {
                return screen;
            }
            assert!(begin.elapsed() < DEADLINE, "`{words}` is not on\n{screen}");
            sleep(Duration::from_millis(50));
        }
    }

    fn start(&self) {
        self.start_after("");
    }

    /// Returns the process that the terminal's shell has started.
    fn child(&self) -> i32 {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let children = format!("/proc/{0}/task/{0}/children", shell.unwrap().trim());
        let child = fs::read_to_string(children).unwrap();
        child.trim().parse().unwrap()
    }

    /// Begins it after what the shell is to do `first`.
    fn start_after(&self, first: &str) {
        let program: PathBuf = assert_cmd::cargo::cargo_bin("laggard");
        let line = format!(
            "{first}{} top --threshold 1ms {}",
            program.display(),
            script(&self.dir)
        );
        self.press(&["-l", &line]);
        self.press(&["Enter"]);
        self.wait_for("q quit");
    }

    /// Asserts that the state of the shell's terminal was restored.
    fn is_restored(&self) {
        let begin = Instant::now();
        // The view is drawn on the alternate screen.
        while self
            .tmux(&["display-message", "-p", "#{alternate_on}"])
            .unwrap()
            .trim()
            != "0"
        {
            assert!(begin.elapsed() < DEADLINE, "the screen is not restored");
            sleep(Duration::from_millis(50));
        }
        self.wait_for("Overhead:");
        self.press(&[
            "-l",
            "stty -a | tr ';' '\\n' | grep -o ' icanon' | sed 's/^/mode:/'",
        ]);
        self.press(&["Enter"]);
        self.wait_for("mode: icanon");
        let cursor = self.tmux(&["display-message", "-p", "#{cursor_flag}"]);
        assert_eq!(cursor.unwrap().trim(), "1", "the cursor is hidden");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn keys_change_the_view_begin_a_recording_and_quit() {
    let Some(terminal) = Terminal::open() else {
        return;
    };
    terminal.start();
    terminal.wait_for("19us");
    terminal.press(&["Down", "2"]);
    terminal.wait_for("SCHED_FIFO 90, all CPUs, since start: histogram of");
    terminal.press(&["3"]);
    terminal.wait_for("max of each second");
    terminal.press(&["?"]);
    terminal.wait_for("pause the screen");
    terminal.press(&["?", "p"]);
    terminal.wait_for("PAUSED");
    terminal.press(&["p", "s"]);
    terminal.wait_for("REC");
    terminal.press(&["r"]);
    terminal.wait_for("reset at");
    sleep(Duration::from_millis(600));
    terminal.press(&["q"]);
    terminal.wait_for("Recorded in ");
    terminal.is_restored();

    let recording = fs::read_dir(terminal.path())
        .unwrap()
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().ends_with(".laggard"))
        .unwrap();
    let shown = laggard()
        .args(["show", "--json"])
        .arg(recording.path())
        .output()
        .unwrap()
        .json();
    let recording = &shown["recordings"][0];
    assert_eq!(recording["state"]["state"], "interrupted", "{recording}");
    let samples = recording["services"][0]["latency"]["samples"].as_u64();
    assert!(samples > Some(100), "{samples:?}");
    assert_eq!(recording["losses"]["ring_full"], 0);
}

#[test]
fn control_c_and_a_termination_leave_the_terminal_clean() {
    let Some(terminal) = Terminal::open() else {
        return;
    };
    terminal.start();
    terminal.press(&["C-c"]);
    terminal.is_restored();

    terminal.press(&["-l", "clear"]);
    terminal.press(&["Enter"]);
    terminal.start();
    signal(terminal.child().unsigned_abs(), "TERM");
    terminal.is_restored();
}

/// After a closed window or connection, top must not wait for the terminal in a busy loop,
/// and must still handle signals.
#[test]
fn it_ends_with_its_terminal_whether_or_not_it_takes_hangups() {
    for ignored in ["", "trap '' HUP; "] {
        let Some(terminal) = Terminal::open() else {
            return;
        };
        terminal.start_after(ignored);
        let child = terminal.child();
        let is_there = || Path::new(&format!("/proc/{child}")).exists();
        assert!(is_there());

        terminal.tmux(&["kill-server"]);

        let begin = Instant::now();
        while is_there() && begin.elapsed() < DEADLINE {
            sleep(Duration::from_millis(50));
        }
        let has_ended = !is_there();
        if !has_ended {
            let _ = Command::new("kill")
                .args(["-KILL", &child.to_string()])
                .status();
        }
        assert!(has_ended, "`{ignored}`: still there after {DEADLINE:?}");
    }
}
