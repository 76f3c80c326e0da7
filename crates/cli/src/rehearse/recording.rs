//! Recordings of a rehearsal: the first to predict from, the second during the run to
//! measure the effect of the tasks on the services.

use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use laggard_model::{Every, Nanos, TaskCount};
use laggard_record::Destination;
use laggard_session::{EpisodesChoice, LoadChoice, News, Next, Plan, Session, WatchError, Watcher};
use laggard_workload::load::{Launch, LoadProcess};

use super::tasks::RehearsedTasks;
use super::unless_interrupted;
use crate::args::RehearseArgs;
use crate::{measuring, pipe};

/// Limits of the sampling period of the first recording: fine enough for the slack, and
/// coarse enough to keep the overhead low.
const PERIODS: [Nanos; 2] = [Nanos::from_us(500), Nanos::from_ms(1)];
/// Number of sampling periods that resolve a slack.
const FINE_PART: u64 = 20;
/// Time that the recording continues after the tasks.
const MARGIN: Nanos = Nanos::from_secs(1);
/// Time limit for the tasks to end and to count.
const PATIENCE: Duration = Duration::from_secs(60);

/// Records under the load, before any task runs.
pub(super) fn before(
    args: &RehearseArgs,
    wanted: &RehearsedTasks,
    place: &Destination,
    interrupted: &AtomicBool,
) -> anyhow::Result<Destination> {
    let place = Destination::from(place.path().with_extension("before.laggard"));
    let [least, most] = PERIODS;
    let fine = Nanos::from_us(wanted.slack().ns() / FINE_PART / 1_000);
    let plan = plan(args, &place, args.record_first, fine.clamp(least, most));
    pipe::say_as_it_is(&format!(
        "First recording {} without the tasks, to predict from\n",
        args.record_first
    ));
    Session::ready(&plan, interrupted)?.run(&mut [&mut Conductor { tasks: None }])?;
    unless_interrupted(interrupted)?;
    Ok(place)
}

/// Records while the tasks run. Returns their counts.
pub(super) fn with_tasks(
    args: &RehearseArgs,
    wanted: &RehearsedTasks,
    place: &Destination,
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<TaskCount>> {
    let plan = plan(args, place, args.duration + MARGIN, args.period);
    // In a separate process, because the kernel may end it while the recording continues,
    // and because its time is not overhead of measuring.
    let mut tasks = launch(args)?;
    tasks
        .wait_until_ready(interrupted)
        .context("cannot set up the tasks")?;
    unless_interrupted(interrupted)?;
    pipe::say_as_it_is(&format!(
        "Running {} task{} for {}\n",
        wanted.set.tasks.len(),
        if wanted.set.tasks.len() == 1 { "" } else { "s" },
        args.duration
    ));
    let mut conductor = Conductor {
        tasks: Some(&mut tasks),
    };
    Session::ready(&plan, interrupted)?.run(&mut [&mut conductor])?;
    let counts = counts_of(tasks)?;
    unless_interrupted(interrupted)?;
    Ok(counts)
}

fn launch(args: &RehearseArgs) -> anyhow::Result<LoadProcess> {
    let program = std::env::current_exe().context("cannot find this program, to run the tasks")?;
    let words: [OsString; 6] = [
        "rehearse".into(),
        args.tasks.clone().into(),
        "--duration".into(),
        args.duration.to_string().into(),
        "--count-only".into(),
        "--json".into(),
    ];
    let command = std::iter::once(program.into_os_string()).chain(words);
    Ok(Launch::new(command.collect()).held().start()?)
}

fn counts_of(mut tasks: LoadProcess) -> anyhow::Result<Vec<TaskCount>> {
    let patience = Instant::now() + PATIENCE;
    let ended = loop {
        match tasks.poll()? {
            Some(ended) => break ended,
            None if Instant::now() < patience => std::thread::sleep(Duration::from_millis(20)),
            None => break tasks.stop()?,
        }
    };
    let words = ended.last_words.clone().unwrap_or_default();
    serde_json::from_str(&words).with_context(|| format!("cannot run the tasks: {ended}"))
}

/// Plans a recording at `place` under the load of the user.
fn plan(args: &RehearseArgs, place: &Destination, duration: Nanos, period: Nanos) -> Plan {
    measuring::by_this_program(Plan {
        recording: Some(place.clone()),
        duration: Some(duration),
        period,
        // Each service may be compared with a task.
        every: Some(Every::default()),
        episodes: EpisodesChoice::Off,
        load: match &args.load {
            Some(name) => LoadChoice::Named(name.clone()),
            None => LoadChoice::None,
        },
        ..Plan::default()
    })
}

/// Prints the progress, and starts the tasks.
struct Conductor<'a> {
    tasks: Option<&'a mut LoadProcess>,
}

impl Watcher for Conductor<'_> {
    fn begun(&mut self, _start: Nanos) {
        if let Some(tasks) = &mut self.tasks {
            tasks.begin();
        }
    }

    fn observe(&mut self, _news: &News<'_>) -> Result<Next, WatchError> {
        Ok(Next::GoOn)
    }

    fn say(&mut self, text: &str) {
        crate::pipe::say(text);
    }
}
