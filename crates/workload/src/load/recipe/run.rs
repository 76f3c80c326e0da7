//! Running a recipe until it is told to stop.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use laggard_model::{Nanos, Throughput};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Order, Recipe, RecipeError, Step};

/// How often a running command is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How long a command may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_millis(500);

/// Runs `recipe` until `stop` is set, and counts the runs that ended well. Its
/// preparation is not in the time.
///
/// # Errors
/// When a program is missing, or a command cannot be run or fails.
pub fn run_recipe(recipe: &Recipe, stop: &AtomicBool) -> Result<Throughput, RecipeError> {
    recipe.check()?;
    let folder = tempfile::Builder::new()
        .prefix("laggard-load-")
        .tempdir()
        .map_err(|source| RecipeError::Folder(recipe.name.clone(), source))?;
    let kitchen = Kitchen {
        recipe,
        folder: folder.path(),
        stop,
        failed: AtomicBool::new(false),
        done: AtomicU64::new(0),
    };
    for step in &recipe.prepare {
        kitchen.once(step)?;
    }
    kitchen.done.store(0, Ordering::Relaxed);
    let start = Instant::now();
    let result = match recipe.order {
        Order::Sequence => kitchen.sequence(),
        Order::Together => kitchen.together(),
    };
    let elapsed = start.elapsed();
    for step in &recipe.clean {
        let never = AtomicBool::new(false);
        Kitchen {
            stop: &never,
            failed: AtomicBool::new(false),
            done: AtomicU64::new(0),
            ..kitchen
        }
        .once(step)?;
    }
    result?;
    Ok(Throughput {
        unit: recipe.unit.clone(),
        count: kitchen.done.load(Ordering::Relaxed),
        elapsed_ns: Nanos::from(elapsed),
    })
}

struct Kitchen<'a> {
    recipe: &'a Recipe,
    folder: &'a Path,
    stop: &'a AtomicBool,
    failed: AtomicBool,
    done: AtomicU64,
}

impl Kitchen<'_> {
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
            let workers: Vec<_> = self
                .recipe
                .step
                .iter()
                .map(|step| scope.spawn(move || self.in_threads(step, over_and_over)))
                .collect();
            join(workers)
        })
    }

    /// Does `work` as often at once as the step says.
    fn in_threads(
        &self,
        step: &Step,
        work: impl Fn(&Step) -> Result<(), RecipeError> + Sync,
    ) -> Result<(), RecipeError> {
        thread::scope(|scope| {
            let work = &work;
            let workers = (0..step.parallel)
                .map(|_| scope.spawn(move || work(step)))
                .collect();
            join(workers)
        })
    }

    /// Runs a step's command to its end, unless the load is to stop.
    fn once(&self, step: &Step) -> Result<(), RecipeError> {
        if self.ends() {
            return Ok(());
        }
        let ended = self.wait_for(step).inspect_err(|_| {
            self.failed.store(true, Ordering::Relaxed);
        });
        match ended.map_err(|source| RecipeError::Start {
            load: self.recipe.name.clone(),
            step: step.name.clone(),
            source,
        })? {
            None => Ok(()),
            Some(status) if status.success() => {
                self.done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            // Whoever tells us to stop tells our commands, too, and sooner.
            Some(status) if self.ends() || was_told(status) => Ok(()),
            Some(status) => {
                self.failed.store(true, Ordering::Relaxed);
                Err(RecipeError::Failed {
                    load: self.recipe.name.clone(),
                    step: step.name.clone(),
                    status: status.to_string(),
                })
            }
        }
    }

    /// How the command ended; `None` where it was stopped.
    fn wait_for(&self, step: &Step) -> io::Result<Option<ExitStatus>> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", &step.command])
            .current_dir(self.folder)
            // Programs leave their settings where they go away with the rest.
            .env("HOME", self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
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

fn join(
    workers: Vec<thread::ScopedJoinHandle<'_, Result<(), RecipeError>>>,
) -> Result<(), RecipeError> {
    let mut result = Ok(());
    for worker in workers {
        let done = worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result = result.and(done);
    }
    result
}

/// Asks the command to end, and kills it when it does not.
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
    use std::fs;
    use std::path::PathBuf;

    fn recipe(order: Order, commands: &[&str]) -> Recipe {
        let step = |command: &&str| Step {
            name: (*command).into(),
            command: (*command).into(),
            parallel: 2,
            needs: Vec::new(),
        };
        Recipe {
            name: "test".into(),
            about: String::new(),
            order,
            unit: "runs".into(),
            usage: None,
            prepare: Vec::new(),
            step: commands.iter().map(step).collect(),
            clean: Vec::new(),
        }
    }

    /// A limit against hanging, not an expectation: generous on purpose.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// Runs the recipe until `lines` lines are in `marker`, or it has failed.
    fn run_until(recipe: &Recipe, marker: &Path, lines: usize) -> Result<Throughput, RecipeError> {
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        thread::scope(|scope| {
            let worker = scope.spawn(|| run_recipe(recipe, &stop));
            let seen = || fs::read_to_string(marker).map_or(0, |text| text.lines().count());
            while seen() < lines && !worker.is_finished() && start.elapsed() < DEADLINE {
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
    fn runs_that_end_well_are_counted_in_either_order() {
        for order in [Order::Sequence, Order::Together] {
            let (_dir, marker, append) = marker();

            let done = run_until(&recipe(order, &["true", &append]), &marker, 6).unwrap();

            // Two at once: of six, four have ended.
            assert!(done.count >= 4, "{order:?}: {done:?}");
            assert_eq!(done.unit, "runs");
        }
    }

    #[test]
    fn a_long_command_is_ended_with_the_load() {
        let (_dir, marker, append) = marker();
        let long = format!("{append}; exec sleep 1000");

        let done = run_until(&recipe(Order::Together, &[&long]), &marker, 2).unwrap();

        assert_eq!(done.count, 0);
    }

    #[test]
    fn a_failing_command_ends_the_load_and_is_named() {
        let failing = recipe(Order::Together, &["exec sleep 1000", "exit 7"]);

        let err = run_until(&failing, Path::new("/nonexistent"), 1).unwrap_err();

        let said = err.to_string();
        assert!(
            said.contains("step `exit 7`") && said.contains("status: 7"),
            "{said}"
        );
    }

    #[test]
    fn commands_find_what_was_prepared_in_their_folder() {
        let (_dir, marker, append) = marker();
        let mut one = recipe(Order::Sequence, &[&format!("test -f ready && {append}")]);
        one.prepare = vec![Step {
            name: "prepare".into(),
            command: "touch ready".into(),
            parallel: 1,
            needs: Vec::new(),
        }];

        assert!(run_until(&one, &marker, 4).unwrap().count > 0);
    }
}
