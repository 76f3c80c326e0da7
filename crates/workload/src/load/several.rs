//! Several loads at the same time: `office+scanner`.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use laggard_model::Throughput;

use super::{Gate, LoadRunError, NamedLoad, RunError};

/// Between the names of loads that run at the same time.
pub(super) const PLUS: char = '+';
/// Interval of the checks for the end of a load.
const POLL: Duration = Duration::from_millis(20);

/// Runs `loads` until `stop` is set or one of them fails, and counts the work of the first. All
/// are set up before `gate` is called, and work after.
pub(super) fn run(
    loads: &[NamedLoad],
    stop: &AtomicBool,
    gate: &Gate<'_>,
) -> Result<Throughput, LoadRunError> {
    let (ready, ends) = (AtomicUsize::new(0), AtomicBool::new(false));
    let is_open = AtomicBool::new(false);
    let wait = || {
        ready.fetch_add(1, Ordering::Relaxed);
        while !is_open.load(Ordering::Relaxed) && !ends.load(Ordering::Relaxed) {
            thread::sleep(POLL);
        }
    };
    let work = |load: &NamedLoad| {
        let done = load.run(&ends, &wait);
        ends.store(true, Ordering::Relaxed);
        done
    };
    let is_over = || stop.load(Ordering::Relaxed) || ends.load(Ordering::Relaxed);
    thread::scope(|scope| {
        let work = &work;
        let start = |load| thread::Builder::new().spawn_scoped(scope, move || work(load));
        let workers: Vec<io::Result<_>> = loads.iter().map(start).collect();
        if workers.iter().any(Result::is_err) {
            ends.store(true, Ordering::Relaxed);
        }
        while ready.load(Ordering::Relaxed) < loads.len() && !is_over() {
            thread::sleep(POLL);
        }
        if !is_over() {
            gate();
        }
        is_open.store(true, Ordering::Relaxed);
        while !is_over() {
            thread::sleep(POLL);
        }
        ends.store(true, Ordering::Relaxed);
        let join = |(worker, load): (io::Result<thread::ScopedJoinHandle<'_, _>>, &NamedLoad)| {
            let worker = worker.map_err(|source| RunError::Thread {
                load: load.name().into_owned(),
                source,
            })?;
            let done = worker.join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let done: Vec<Result<Throughput, LoadRunError>> =
            workers.into_iter().zip(loads).map(join).collect();
        let done = done.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(done.into_iter().next().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_loads_work_until_stopped_and_the_first_is_counted() {
        let load = NamedLoad::named("fp+busy:2").unwrap();
        let (stop, gates) = (AtomicBool::new(false), AtomicUsize::new(0));

        let done = thread::scope(|scope| {
            let worker = scope.spawn(|| {
                load.run(&stop, &|| {
                    gates.fetch_add(1, Ordering::Relaxed);
                })
            });
            thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            worker.join().unwrap().unwrap()
        });

        assert_eq!(load.name(), "fp+busy:2");
        assert_eq!(
            (done.unit.as_str(), gates.load(Ordering::Relaxed)),
            ("divisions", 1)
        );
        assert!(done.count > 0);
    }

    #[test]
    fn failure_of_one_load_ends_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.toml");
        let text =
            "name = 'bad'\nabout = ''\nunit = 'runs'\n[[step]]\nname = 'no'\ncommand = 'exit 7'\n";
        std::fs::write(&path, text).unwrap();
        let load = NamedLoad::named(&format!("fp+{}", path.display())).unwrap();

        let done = load.run(&AtomicBool::new(false), &|| ());

        let err = done.unwrap_err().to_string();
        assert!(err.contains("step `no`"), "{err}");
    }
}
