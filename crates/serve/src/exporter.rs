//! Watcher of a measurement that counts all events.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use laggard_answer::live::{LateFinder, Live};
use laggard_model::{LateActionCounts, Manifest, Nanos, OwnCost};
use laggard_session::{Ending, LateActionCounters, News, Next, WatchError, Watcher};

use super::cpus::CpuWatch;
use super::early_end::{EarlyEnd, EarlyEndRequest};
use super::notify;
use super::shown::ServedState;
use super::store::Store;
use laggard_console::pipe;

/// Time between two readings of the overhead, and between two checks whether the figures are
/// trustworthy.
const COST_EVERY: Duration = Duration::from_secs(10);
/// Step of the figures of the live page.
const STEP: Nanos = Nanos::from_secs(5);
/// The terminal shows the overhead once, after this time.
const PRINT_COST_AFTER: Nanos = Nanos::from_secs(60);

/// Sources of reasons to end a piece early.
#[derive(Debug, Default)]
pub(crate) struct PieceWatch {
    /// Store of the recording. It checks the recording while it is being written.
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) request: EarlyEndRequest,
    pub(crate) cpus: Option<CpuWatch>,
    /// Counts of the actions on late wakeups, if there are any.
    pub(crate) late_actions: Option<LateActionCounters>,
}

impl PieceWatch {
    fn late_actions(&self) -> Vec<LateActionCounts> {
        let counters = self.late_actions.as_ref();
        counters.map_or_else(Vec::new, LateActionCounters::counts)
    }

    /// Returns the reason to end the piece now, if there is one.
    fn cut(&mut self) -> Option<EarlyEnd> {
        let has_changed = self.cpus.as_mut().is_some_and(CpuWatch::has_changed);
        self.request
            .take()
            .or(has_changed.then_some(EarlyEnd::Cpus))
    }
}

/// Counts the events of a piece.
pub(crate) struct Exporter {
    shown: Arc<ServedState>,
    watch: PieceWatch,
    /// Reason why the piece ended early.
    pub(crate) cut: Option<EarlyEnd>,
    finder: LateFinder,
    cost_due: Option<Instant>,
    /// True until the overhead was printed.
    pub(crate) is_new: bool,
    /// Name of the recording in progress.
    recording: Option<String>,
    /// True once measuring has started.
    pub(crate) has_begun: bool,
}

impl Exporter {
    /// Creates the watcher of the measurement that `manifest` describes.
    pub(crate) fn new(
        shown: Arc<ServedState>,
        manifest: &Manifest,
        finder: LateFinder,
        recording: Option<String>,
        is_new: bool,
        watch: PieceWatch,
    ) -> Self {
        {
            let mut figures = shown.seen();
            figures.metrics.begin(manifest);
            figures.live = Some(Live::new(manifest, STEP));
            figures.looked = Instant::now();
            figures.recording.clone_from(&recording);
        }
        Self {
            shown,
            watch,
            cut: None,
            finder,
            cost_due: None,
            is_new,
            recording,
            has_begun: false,
        }
    }

    fn tell_cost(&mut self, cost: &OwnCost) {
        if !self.is_new || cost.wall_ns < PRINT_COST_AFTER {
            return;
        }
        self.is_new = false;
        pipe::say(&cost_in_words(cost));
    }
}

/// Formats the overhead: share of one CPU, and memory.
fn cost_in_words(cost: &OwnCost) -> String {
    let share = |time: Nanos| 100.0 * time.ns() as f64 / cost.wall_ns.ns().max(1) as f64;
    let threads = cost.measuring_cpu_ns + cost.other_cpu_ns;
    let outside = match cost.outside_cpu_ns {
        Nanos::ZERO => String::new(),
        time => format!("; {:.2} s of CPU time at the start", time.as_secs_f64()),
    };
    format!(
        "overhead so far: {:.2} % of one CPU (measuring threads {:.2}, other threads {:.2}, BPF programs {:.2}), {} MB peak memory{outside}",
        share(cost.total()),
        share(cost.measuring_cpu_ns),
        share(cost.other_cpu_ns),
        share(cost.total().saturating_sub(threads)),
        cost.resident_bytes.div_ceil(1_000_000),
    )
}

impl Watcher for Exporter {
    fn begun(&mut self, _start: Nanos) {
        self.has_begun = true;
        notify::ready();
        let mut figures = self.shown.seen();
        figures.looked = Instant::now();
        figures.began = Some(SystemTime::now());
        figures.unmeasured = None;
        figures.metrics.note_begun();
        let is_recorded = self.recording.is_some();
        figures.metrics.store.recording.set(i64::from(is_recorded));
        if let (Some(store), Some(name)) = (&self.watch.store, &self.recording) {
            figures.unkept = None;
            store.note_recording(name);
        }
    }

    fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError> {
        let now = Instant::now();
        let late = self.finder.find(news.batch, news.late, news.start);
        let is_due = self.cost_due.is_none_or(|due| now >= due);
        // Read before the lock is taken, because it makes system calls.
        let cost = is_due.then(|| (news.cost)());
        let since_start = news.now.saturating_sub(news.start);
        let mut guard = self.shown.seen();
        let figures = &mut *guard;
        figures.looked = now;
        figures.metrics.count(news.batch);
        for activation in &late {
            figures.add_late(activation, since_start);
        }
        figures.metrics.note_losses(news.losses);
        if let Some(live) = &mut figures.live {
            live.observe(news.batch, late, news.losses, (news.start, news.now));
            if let Some(cost) = &cost {
                live.cost = Some(cost.clone());
                figures.metrics.note_trust(&live.judge().trust);
            }
        }
        if let Some(cost) = &cost {
            figures.metrics.note_cost(cost);
            figures
                .metrics
                .note_late_actions(&self.watch.late_actions());
        }
        drop(guard);
        if let Some(cost) = cost {
            self.cost_due = Some(now + COST_EVERY);
            self.tell_cost(&cost);
        }
        notify::alive(now);
        if self.cut.is_none() {
            self.cut = self.watch.cut();
            if let Some(EarlyEnd::StoreLost(why)) = &self.cut {
                self.shown.seen().note_store_failure(why);
            }
        }
        Ok(if self.cut.is_some() {
            Next::End
        } else {
            Next::GoOn
        })
    }

    fn say(&mut self, text: &str) {
        pipe::say(text);
    }

    fn end(&mut self, ending: &Ending) {
        let mut figures = self.shown.seen();
        figures.metrics.note_losses(ending.losses);
        figures.metrics.note_cost(&ending.cost);
        figures
            .metrics
            .note_late_actions(&self.watch.late_actions());
        figures.metrics.note_caveats(&ending.caveats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_overhead_add_up() {
        let cost = OwnCost {
            wall_ns: Nanos::from_secs(100),
            measuring_cpu_ns: Nanos::from_ms(100),
            other_cpu_ns: Nanos::from_ms(200),
            programs: vec![laggard_model::ProgramCost {
                run_ns: Nanos::from_ms(50),
                ..laggard_model::ProgramCost::default()
            }],
            resident_bytes: 20_500_000,
            outside_cpu_ns: Nanos::from_ms(450),
            ..OwnCost::default()
        };

        assert_eq!(
            cost_in_words(&cost),
            "overhead so far: 0.35 % of one CPU (measuring threads 0.10, other threads 0.20, \
             BPF programs 0.05), 21 MB peak memory; 0.45 s of CPU time at the start"
        );
    }

    /// Runs one hour of `script`, as a piece does.
    fn hour(shown: &Arc<ServedState>, script: &std::path::Path) {
        use laggard_session::{Plan, ProbeChoice, ScriptPace, Session};

        let plan = Plan {
            probe: ProbeChoice::Script(script.to_owned()),
            period: Nanos::from_ms(100),
            duration: Some(Nanos::from_secs(3_600)),
            ..Plan::default()
        };
        let interrupted = std::sync::atomic::AtomicBool::new(false);
        let session = Session::ready(&plan, &interrupted).unwrap();
        let session = session.at_pace(ScriptPace::AtOnce);
        let manifest = session.manifest();
        let finder = LateFinder::new(&manifest.lines, None, None);
        let mut exporter = Exporter::new(
            shown.clone(),
            manifest,
            finder,
            None,
            false,
            PieceWatch::default(),
        );
        session.run(&mut [&mut exporter]).unwrap();
    }

    /// Runs in a separate process, because other tests allocate memory in this one.
    #[test]
    fn memory_and_responses_do_not_grow_during_a_day() {
        const ALONE: &str = "LAGGARD_TEST_ALONE";
        const NAME: &str = "exporter::tests::\
                            memory_and_responses_do_not_grow_during_a_day";
        if std::env::var_os(ALONE).is_some() {
            return a_day();
        }
        let own = std::env::current_exe().unwrap();
        let output = std::process::Command::new(own)
            .args(["--exact", "--nocapture", NAME])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
    }

    fn a_day() {
        use super::super::http::{Answers as _, HttpRequest, SeriesFormat};
        use super::super::metrics::Metrics;
        use super::super::resident;

        let dir = tempfile::TempDir::new().unwrap();
        let script = dir.path().join("script.toml");
        let stalls: String = (1..60)
            .map(|minute| {
                let at_ns = minute * 60_000_000_000_u64 + 50_000_000;
                let length_ns = 1_000_000 * minute;
                format!("[[stall]]\nat_ns = {at_ns}\nlength_ns = {length_ns}\n")
            })
            .collect();
        let line = "period_ns = 100000000\n[[line]]\nservice = \"fifo:90\"\nroute = \"direct\"\n\
                    steps = [[[\"irq\", 14000], [\"user\", 4851]], [[\"irq\", 24000], [\"user\", 5000]]]\n";
        std::fs::write(&script, format!("{line}{stalls}")).unwrap();
        let shown = Arc::new(ServedState::new(Metrics::new(false, None)));
        let lines = || {
            let request = HttpRequest {
                path: "/metrics".into(),
                format: SeriesFormat::Text,
                authorization: None,
            };
            // Waits until the cached response of the last second has expired.
            std::thread::sleep(std::time::Duration::from_millis(1_100));
            let answer = shown.answer(&request);
            String::from_utf8(answer.body.to_vec()).unwrap()
        };

        for _ in 0..3 {
            hour(&shown, &script);
        }
        let (bytes, text) = (resident::bytes().unwrap(), lines());
        for _ in 3..24 {
            hour(&shown, &script);
        }

        let count =
            "laggard_latency_seconds_count{service=\"fifo:90\",route=\"direct\",cpu=\"0\"} ";
        let count_lines = lines();
        let counted = count_lines
            .lines()
            .find_map(|line| line.strip_prefix(count));
        let counted: u64 = counted.unwrap().parse().unwrap();
        assert!(counted > 24 * 35_000, "{counted}");
        assert_eq!(count_lines.lines().count(), text.lines().count());
        let more = resident::bytes().unwrap() - bytes;
        assert!(more < 2 << 20, "{more} bytes more");
    }
}
