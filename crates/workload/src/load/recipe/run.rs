//! Execution of a recipe until it is stopped.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use laggard_model::{Nanos, Throughput};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Order, Recipe, RecipeError, Step, Work};
use crate::load::Gate;

/// Interval of the checks of a running command.
const POLL: Duration = Duration::from_millis(20);
/// Variable with the machine that takes part.
const HOST: &str = "LAGGARD_LOAD_HOST";
/// Time for a command to end after SIGTERM.
const PATIENCE: Duration = Duration::from_millis(500);

/// Runs `recipe` until `stop` is set, and counts its work. It is prepared before `gate`
/// is called, and works after. Call [`Recipe::try_programs`] first to test the
/// programs.
///
/// # Errors
/// If a command cannot be run or fails.
pub fn run_recipe(
    recipe: &Recipe,
    stop: &AtomicBool,
    gate: &Gate<'_>,
) -> Result<Throughput, RecipeError> {
    let folder = tempfile::Builder::new()
        .prefix("laggard-load-")
        .tempdir()
        .map_err(|source| RecipeError::Folder(recipe.name.clone(), source))?;
    let run = RecipeRun {
        recipe,
        folder: folder.path(),
        stop,
        failed: AtomicBool::new(false),
        done: AtomicU64::new(0),
    };
    for step in &recipe.prepare {
        run.once(step)?;
    }
    run.done.store(0, Ordering::Relaxed);
    gate();
    let start = Instant::now();
    let result = match recipe.order {
        Order::Sequence => run.sequence(),
        Order::Together => run.together(),
    };
    let elapsed = start.elapsed();
    for step in &recipe.clean {
        let never = AtomicBool::new(false);
        RecipeRun {
            stop: &never,
            failed: AtomicBool::new(false),
            done: AtomicU64::new(0),
            ..run
        }
        .once(step)?;
    }
    result?;
    Ok(Throughput {
        unit: recipe.unit.clone(),
        count: run.done.load(Ordering::Relaxed),
        elapsed_ns: Nanos::from(elapsed),
    })
}

struct RecipeRun<'a> {
    recipe: &'a Recipe,
    folder: &'a Path,
    stop: &'a AtomicBool,
    failed: AtomicBool,
    done: AtomicU64,
}

impl RecipeRun<'_> {
    fn ends(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    fn sequence(&self) -> Result<(), RecipeError> {
        while !self.ends() {
            for step in &self.recipe.step {
                self.in_threads(step, |step| self.once(step))?;
            }
        }
        Ok(())
    }

    fn together(&self) -> Result<(), RecipeError> {
        let over_and_over = |step: &Step| {
            while !self.ends() {
                self.once(step)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let start = |step| {
                let work = move || self.in_threads(step, over_and_over);
                thread::Builder::new().spawn_scoped(scope, work)
            };
            self.join(self.recipe.step.iter().map(start))
        })
    }

    /// Runs `work` in the number of threads that the step requires.
    fn in_threads(
        &self,
        step: &Step,
        work: impl Fn(&Step) -> Result<(), RecipeError> + Sync,
    ) -> Result<(), RecipeError> {
        thread::scope(|scope| {
            let work = &work;
            let start = |_| thread::Builder::new().spawn_scoped(scope, move || work(step));
            self.join((0..step.parallel).map(start))
        })
    }

    /// Waits for all threads that were started. If one could not be started, the others
    /// end.
    fn join<'a>(
        &self,
        workers: impl Iterator<Item = io::Result<ScopedJoinHandle<'a, Result<(), RecipeError>>>>,
    ) -> Result<(), RecipeError> {
        let refused = |source| {
            self.failed.store(true, Ordering::Relaxed);
            RecipeError::Thread(self.recipe.name.clone(), source)
        };
        let workers: Vec<_> = workers.map(|worker| worker.map_err(refused)).collect();
        let mut result = Ok(());
        for worker in workers {
            let done = worker.and_then(|worker| {
                let done = worker.join();
                done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            result = result.and(done);
        }
        result
    }

    /// Runs a step's command to its end, unless the load is to stop.
    fn once(&self, step: &Step) -> Result<(), RecipeError> {
        if self.ends() {
            return Ok(());
        }
        let done = self.do_once(step);
        if done.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        done
    }

    fn do_once(&self, step: &Step) -> Result<(), RecipeError> {
        let start = |source| RecipeError::Start {
            load: self.recipe.name.clone(),
            step: step.name.clone(),
            source,
        };
        let mut report_file = match step.work {
            Work::Units(_) => None,
            Work::Told(_) => Some(tempfile::tempfile().map_err(start)?),
        };
        match self.wait_for(step, report_file.as_ref()).map_err(start)? {
            None => Ok(()),
            Some(status) if status.success() => {
                let units = match (step.work, &mut report_file) {
                    (Work::Units(units), _) => units,
                    (_, Some(report)) => self.units_in(step, report)?,
                    (_, None) => 0,
                };
                self.done.fetch_add(units, Ordering::Relaxed);
                Ok(())
            }
            // A signal that stops the load stops its commands too, and earlier.
            Some(status) if self.ends() || was_told(status) => Ok(()),
            Some(status) => Err(RecipeError::Failed {
                load: self.recipe.name.clone(),
                step: step.name.clone(),
                status: status.to_string(),
            }),
        }
    }

    /// Returns the number on the last line of a command's output.
    fn units_in(&self, step: &Step, output: &mut File) -> Result<u64, RecipeError> {
        let mut text = Vec::new();
        let read = output
            .rewind()
            .and_then(|()| output.read_to_end(&mut text))
            .map_err(|source| RecipeError::Start {
                load: self.recipe.name.clone(),
                step: step.name.clone(),
                source,
            });
        read?;
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().next_back().unwrap_or_default().trim();
        line.parse().map_err(|_| RecipeError::Untold {
            load: self.recipe.name.clone(),
            step: step.name.clone(),
            said: line.to_owned(),
        })
    }

    /// Returns the exit status of the command; `None` if it was stopped. Its standard
    /// output goes to `output`, or is discarded.
    fn wait_for(&self, step: &Step, output: Option<&File>) -> io::Result<Option<ExitStatus>> {
        let stdout = match output {
            Some(file) => file.try_clone()?.into(),
            None => Stdio::null(),
        };
        let mut child = Command::new("/bin/sh")
            .args(["-c", &step.command])
            .current_dir(self.folder)
            .env("PATH", super::search_path())
            // Settings and temporary files of the programs disappear with the
            // directory.
            .env("HOME", self.folder)
            .env("TMPDIR", self.folder)
            .env(HOST, self.recipe.host.as_deref().unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(Stdio::null())
            .spawn()?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if self.ends() {
                end(&mut child)?;
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }
}

fn was_told(status: ExitStatus) -> bool {
    let signal = status
        .signal()
        .and_then(|number| Signal::try_from(number).ok());
    matches!(signal, Some(Signal::SIGTERM | Signal::SIGINT))
}

/// Sends SIGTERM to the command, and SIGKILL if it does not end.
fn end(child: &mut Child) -> io::Result<()> {
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM)?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        thread::sleep(POLL);
    }
    child.kill()?;
    child.wait().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::recipe::WorkReport;
    use std::fs;
    use std::path::PathBuf;

    fn recipe(order: Order, commands: &[&str]) -> Recipe {
        let step = |command: &&str| Step {
            name: (*command).into(),
            command: (*command).into(),
            parallel: 2,
            work: Work::default(),
            needs: Vec::new(),
        };
        Recipe {
            name: "test".into(),
            about: String::new(),
            order,
            unit: "runs".into(),
            usage: None,
            takes_host: false,
            host: None,
            prepare: Vec::new(),
            step: commands.iter().map(step).collect(),
            clean: Vec::new(),
        }
    }

    /// A limit against hanging, not an expectation: generous on purpose.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// Runs the recipe until `marker` has `lines` lines, or until it has failed.
    fn run_until(recipe: &Recipe, marker: &Path, lines: usize) -> Result<Throughput, RecipeError> {
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        thread::scope(|scope| {
            let worker = scope.spawn(|| run_recipe(recipe, &stop, &|| ()));
            let count_lines = || fs::read_to_string(marker).map_or(0, |text| text.lines().count());
            while count_lines() < lines && !worker.is_finished() && start.elapsed() < DEADLINE {
                thread::sleep(POLL);
            }
            stop.store(true, Ordering::Relaxed);
            worker.join().unwrap()
        })
    }

    fn marker() -> (tempfile::TempDir, PathBuf, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("marker");
        let append = format!("echo x >> {}", path.display());
        (dir, path, append)
    }

    #[test]
    fn successful_runs_are_counted_in_either_order() {
        for order in [Order::Sequence, Order::Together] {
            let (_dir, marker, append) = marker();

            let done = run_until(&recipe(order, &["true", &append]), &marker, 6).unwrap();

            // Two at once: of six, four have ended.
            assert!(done.count >= 4, "{order:?}: {done:?}");
            assert_eq!(done.unit, "runs");
        }
    }

    #[test]
    fn long_command_is_ended_with_the_load() {
        let (_dir, marker, append) = marker();
        let long = format!("{append}; exec sleep 1000");

        let done = run_until(&recipe(Order::Together, &[&long]), &marker, 2).unwrap();

        assert_eq!(done.count, 0);
    }

    #[test]
    fn failing_command_ends_the_load_and_is_named() {
        let failing = recipe(Order::Together, &["exec sleep 1000", "exit 7"]);

        let err = run_until(&failing, Path::new("/nonexistent"), 1).unwrap_err();

        let text = err.to_string();
        assert!(
            text.contains("step `exit 7`") && text.contains("status: 7"),
            "{text}"
        );
    }

    #[test]
    fn work_is_fixed_or_reported_by_each_run() {
        for (work, script, least) in [
            (Work::Units(50), "", 200),
            (Work::Units(0), "", 0),
            (Work::Told(WorkReport::Output), "echo noise; echo 70", 280),
        ] {
            let (_dir, marker, append) = marker();
            let mut load = recipe(Order::Sequence, &[&format!("{append}; {script}")]);
            load.step[0].work = work;

            let done = run_until(&load, &marker, 6).unwrap();

            // Two at once: of six, four have ended.
            assert!(done.count >= least, "{work:?}: {done:?}");
            assert!(least > 0 || done.count == 0, "{work:?}: {done:?}");
        }
    }

    #[test]
    fn commands_get_the_host_or_an_empty_variable() {
        for (host, expected) in [(Some("there"), "[there]"), (None, "[]")] {
            let (_dir, marker, _) = marker();
            let command = format!("echo \"[$LAGGARD_LOAD_HOST]\" >> {}", marker.display());
            let load = Recipe {
                host: host.map(Into::into),
                ..recipe(Order::Sequence, &[&command])
            };

            run_until(&load, &marker, 1).unwrap();

            let text = fs::read_to_string(&marker).unwrap();
            assert_eq!(text.lines().next(), Some(expected));
        }
    }

    #[test]
    fn step_without_a_work_report_is_named() {
        let mut mute = recipe(Order::Sequence, &["echo nothing"]);
        mute.step[0].work = Work::Told(WorkReport::Output);

        let err = run_until(&mute, Path::new("/nonexistent"), 1).unwrap_err();

        assert!(err.to_string().contains("wrote `nothing`"), "{err}");
    }

    #[test]
    fn commands_find_prepared_files_in_their_directory() {
        let (_dir, marker, append) = marker();
        let mut load = recipe(Order::Sequence, &[&format!("test -f ready && {append}")]);
        load.prepare = vec![Step {
            name: "prepare".into(),
            command: "touch ready".into(),
            parallel: 1,
            work: Work::default(),
            needs: Vec::new(),
        }];

        assert!(run_until(&load, &marker, 4).unwrap().count > 0);
    }
}
