//! The recorder on a thread of its own: a slow disk must not keep the
//! collector from the probe's rings.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use laggard_model::{Account, Backend, Batch, Losses, Nanos};
use laggard_record::{Recorder, WriteError};

use crate::load_ended::LoadEnded;
use crate::system::{self, LateBoost};

/// Memory that rows may take while they wait for the disk: a sixteenth of
/// what is free, within these. About 90 bytes a row: 48 MiB are 50 s of the
/// services and period that two CPUs have by default, 1 GiB a minute of 32.
const LEAST_WAITING: usize = 48 << 20;
const MOST_WAITING: usize = 1 << 30;
const SHARE_OF_FREE: usize = 16;

/// What has come since the last look at the probe.
struct Drained {
    batch: Arc<Batch>,
    accounts: Vec<Account>,
    /// By line: rows for which there was no room before these.
    dropped: Vec<u64>,
    load_ended: Option<LoadEnded>,
    now: Nanos,
    came: Instant,
}

/// What both threads know.
#[derive(Default)]
struct Shared {
    /// Bytes of rows that wait.
    waiting: AtomicUsize,
    has_failed: AtomicBool,
}

/// A recorder that is written to by a thread.
pub(crate) struct Writer {
    looks: Sender<Drained>,
    thread: JoinHandle<(Recorder, Result<(), WriteError>)>,
    shared: Arc<Shared>,
    /// Bytes of rows that may wait.
    room: usize,
    /// Time is virtual: measuring can wait for the disk.
    can_wait: bool,
    /// Rows for which there was no room, by line, that the recorder does not
    /// know of; and all there were.
    dropped: Vec<u64>,
    all_dropped: u64,
    /// What the recorder does not know yet of the load.
    load_ended: Option<LoadEnded>,
}

impl Writer {
    /// Hands the recorder to a thread.
    pub(crate) fn start(recorder: Recorder) -> io::Result<Self> {
        let room = room(recorder.manifest().backend);
        Self::with(recorder, room, || ())
    }

    /// With room for so many bytes; `disk` is called before each write.
    fn with(
        recorder: Recorder,
        room: usize,
        disk: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let (looks, taken) = channel();
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let can_wait = recorder.manifest().backend == Backend::Fake;
        let thread = std::thread::Builder::new()
            .name("laggard/writer".into())
            .spawn(move || write(recorder, &taken, &theirs, disk))?;
        Ok(Self {
            looks,
            thread,
            shared,
            room,
            can_wait,
            dropped: Vec::new(),
            all_dropped: 0,
            load_ended: None,
        })
    }

    /// Has `batch`, and what became so far of each line's plan, written. Where
    /// too much waits for the disk already, the batch is dropped and counted, by line; in
    /// virtual time, waits. Returns whether the thread still writes;
    /// [`Writer::finish`] says why not.
    pub(crate) fn keep(&mut self, batch: Arc<Batch>, accounts: Vec<Account>, now: Nanos) -> bool {
        let bytes = bytes_of(&batch, &accounts);
        while self.can_wait && self.is_full(bytes) && self.is_writing() {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.is_full(bytes) {
            self.drop_rows(&batch);
            return self.is_writing();
        }
        self.shared.waiting.fetch_add(bytes, Ordering::Relaxed);
        let dropped = std::mem::take(&mut self.dropped);
        let look = Drained {
            batch,
            accounts,
            dropped,
            load_ended: self.load_ended.take(),
            now,
            came: Instant::now(),
        };
        match self.looks.send(look) {
            Ok(()) => self.is_writing(),
            // The thread panicked; finishing passes that on.
            Err(_) => false,
        }
    }

    /// Has the manifest say, from the next rows on, that the load has ended: a kill may
    /// come before measuring ends.
    pub(crate) fn note_load(&mut self, ended: LoadEnded) {
        self.load_ended = Some(ended);
    }

    /// How many rows were dropped so far because the disk is slow.
    pub(crate) const fn dropped(&self) -> u64 {
        self.all_dropped
    }

    /// Waits until all is written, or has failed.
    pub(crate) fn finish(self) -> (Recorder, Result<(), WriteError>) {
        drop(self.looks);
        match self.thread.join() {
            Ok((mut recorder, result)) => {
                recorder.lose(&self.dropped);
                (recorder, result)
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Whether rows of so many bytes would be too many. A batch that finds
    /// nothing before it always has room.
    fn is_full(&self, bytes: usize) -> bool {
        let waiting = self.shared.waiting.load(Ordering::Relaxed);
        waiting > 0 && waiting + bytes > self.room
    }

    fn is_writing(&self) -> bool {
        !self.shared.has_failed.load(Ordering::Relaxed) && !self.thread.is_finished()
    }

    fn drop_rows(&mut self, batch: &Batch) {
        self.all_dropped += batch.len() as u64;
        count_lines(&mut self.dropped, batch);
    }
}

/// Writes until nothing more comes. Once the disk has refused, what comes is
/// counted as lost.
fn write(
    mut recorder: Recorder,
    looks: &Receiver<Drained>,
    shared: &Shared,
    mut disk: impl FnMut(),
) -> (Recorder, Result<(), WriteError>) {
    system::use_little();
    let mut boost = LateBoost::new();
    // A script's time passes as fast as it can be played.
    let is_real = recorder.manifest().backend != Backend::Fake;
    // Until when all that was measured has come.
    let mut measured_to: Option<Nanos> = None;
    let mut written = Ok(());
    let mut next = looks.recv().ok();
    while let Some(look) = next {
        next = looks.try_recv().ok();
        let is_last = next.is_none();
        let bytes = bytes_of(&look.batch, &look.accounts);
        let Drained {
            batch,
            accounts,
            dropped,
            load_ended,
            now,
            came,
        } = look;
        if is_real {
            boost.note_wait(came.elapsed().into());
        }
        recorder.lose(&dropped);
        if let Some(LoadEnded { run, caveat }) = load_ended {
            recorder.update(|manifest| {
                manifest.load = Some(run);
                manifest.caveats.push(caveat);
            });
        }
        if written.is_err() {
            let mut lost = Vec::new();
            count_lines(&mut lost, &batch);
            recorder.lose(&lost);
        } else {
            // Without a row it tells no more than the one behind it will: a stall
            // of days has a look each second.
            if batch.is_empty() && !is_last {
                account(&mut recorder, accounts);
            } else {
                disk();
                written = recorder.append(&batch).and_then(|()| {
                    account(&mut recorder, accounts);
                    if is_real {
                        let collected = now.saturating_sub(measured_to.unwrap_or(now));
                        recorder.waited(collected + came.elapsed().into());
                    }
                    recorder.flush(now)
                });
            }
            measured_to = Some(now);
            if written.is_err() {
                shared.has_failed.store(true, Ordering::Relaxed);
            }
            shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
        next = next.or_else(|| looks.recv().ok());
    }
    (recorder, written)
}

fn count_lines(counts: &mut Vec<u64>, batch: &Batch) {
    for line in &batch.line {
        let line = usize::from(line.0);
        if line >= counts.len() {
            counts.resize(line + 1, 0);
        }
        counts[line] += 1;
    }
}

/// Memory that a look takes, with its rows.
fn bytes_of(batch: &Batch, accounts: &[Account]) -> usize {
    let steps: usize = batch.step_ns.iter().map(|step| step.len() * 8).sum();
    let rows = steps + batch.len() * (2 + 8 + 8 + 1 + 1);
    rows + size_of::<Drained>() + size_of::<Batch>() + size_of_val(accounts)
}

/// How much memory rows may take while they wait. In virtual time the one who
/// brings more can wait too.
fn room(backend: Backend) -> usize {
    if backend == Backend::Fake {
        return LEAST_WAITING;
    }
    let free = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| free_in(&text));
    let share = free.unwrap_or_default() / SHARE_OF_FREE;
    share.clamp(LEAST_WAITING, MOST_WAITING)
}

/// Free memory, bytes, in the text of `/proc/meminfo`.
fn free_in(text: &str) -> Option<usize> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1_024)
}

/// Has the recorder know what became of each line's plan, by the probe: the
/// recording's losses are the sum over its lines, with the recorder's own.
pub(crate) fn account(recorder: &mut Recorder, accounts: Vec<Account>) {
    let mut losses = Losses::default();
    accounts.iter().for_each(|one| losses.merge(&one.losses));
    recorder.update(|manifest| {
        losses.not_written = manifest.losses.not_written;
        manifest.losses = losses;
    });
    recorder.account(accounts);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use laggard_model::text::Unit;
    use laggard_model::{
        Activation, Caveat, CaveatKind, Clock, Cpu, Line, LineId, LoadRun, Manifest, ProbePlan,
        Route, STAGES, Service, Stage, State,
    };
    use laggard_record::Recording;

    use super::*;

    fn manifest(backend: Backend) -> Manifest {
        let plan = ProbePlan {
            dither: false,
            ..ProbePlan::default()
        };
        let line = |cpu| Line {
            cpu: Cpu(cpu),
            service: Service::Other,
            route: Route::Direct,
        };
        let clock = Clock::monotonic(Nanos::ZERO, "then");
        Manifest::new(backend, plan, clock, vec![line(0), line(1)])
    }

    /// Rows of line 1, and one of line 0.
    fn batch(number: u64) -> Arc<Batch> {
        let mut batch = Batch::default();
        for row in 0..100 {
            let mut one = Activation {
                line: LineId(u16::from(row > 0)),
                seq: number * 100 + row,
                expiry: Nanos::from_ms(number * 100 + row),
                missed: false,
                censored: false,
                steps: [None; STAGES.len()],
            };
            one.steps[Stage::User.index()] = Some(Nanos::from_us(5));
            batch.push(&one);
        }
        Arc::new(batch)
    }

    /// A writer with room for three batches, whose disk stands still until
    /// something is sent, or the sender is dropped; and how often it was
    /// written to.
    fn stalled(dir: &Path, backend: Backend) -> (Writer, Sender<()>, Arc<AtomicUsize>) {
        let recorder = Recorder::create(dir, manifest(backend)).unwrap();
        let (go, wait) = channel();
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = writes.clone();
        let disk = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = wait.recv();
        };
        let room = 3 * bytes_of(&batch(0), &[]);
        (Writer::with(recorder, room, disk).unwrap(), go, writes)
    }

    /// Who is killed later cannot say it then.
    #[test]
    fn that_a_load_ended_is_written_with_the_rows_that_come_next() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r");
        let recorder = Recorder::create(&dir, manifest(Backend::Fake)).unwrap();
        let mut writer = Writer::start(recorder).unwrap();
        writer.note_load(LoadEnded {
            run: LoadRun {
                name: "fp".into(),
                command: Vec::new(),
                usage: None,
                ended: Some("exit status 1".into()),
                begun_ns: None,
                throughput: None,
            },
            caveat: Caveat::new(CaveatKind::LoadEnded, "it ended", "run it by itself"),
        });

        assert!(writer.keep(batch(0), Vec::new(), Nanos::from_secs(1)));
        drop(writer.finish());

        let killed = Recording::open(&dir).unwrap();
        let load = killed.manifest().load.as_ref().unwrap();
        assert_eq!(load.ended.as_deref(), Some("exit status 1"));
        let caveats = killed.manifest().caveats.iter();
        assert_eq!(
            caveats
                .filter(|one| one.kind == CaveatKind::LoadEnded)
                .count(),
            1
        );
    }

    #[test]
    fn rows_that_a_slow_disk_cost_are_counted_by_line_and_known_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r");
        let (mut writer, go, _) = stalled(&dir, Backend::Bpf);

        for number in 0..10 {
            assert!(writer.keep(batch(number), Vec::new(), Nanos::ZERO));
        }
        let dropped = writer.dropped();
        drop(go);
        let (recorder, _) = writer.finish();
        recorder.finish(State::Complete).unwrap();

        let recording = Recording::open(&dir).unwrap();
        let manifest = recording.manifest();
        let counts = &manifest.counts;
        assert_eq!(dropped, 700);
        assert_eq!(manifest.losses.not_written, 700);
        assert_eq!((counts[0].served, counts[0].lost), (3, 7));
        assert_eq!((counts[1].served, counts[1].lost), (297, 693));
    }

    #[test]
    fn how_long_something_waited_to_be_written_is_known_to_who_reads_after_a_kill() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r");
        let (mut writer, go, _) = stalled(&dir, Backend::Bpf);
        writer.keep(batch(0), Vec::new(), Nanos::from_ms(200));
        std::thread::sleep(Duration::from_millis(50));
        go.send(()).unwrap();
        writer.keep(batch(1), Vec::new(), Nanos::from_ms(700));
        drop(go);

        let (recorder, _) = writer.finish();
        // As after a kill: it was never finished.
        drop(recorder);

        let recording = Recording::open(&dir).unwrap();
        let within = recording.manifest().written_within_ns.unwrap();
        // The disk stood still, and half a second lay between two looks.
        assert!(within >= Nanos::from_ms(50), "{within}");
        let said = recording.shortfalls()[0].advice();
        assert!(
            said.contains(&format!(
                "it wrote within {}",
                Unit::Auto.write_nanos(within)
            )),
            "{said}"
        );
    }

    #[test]
    fn in_virtual_time_measuring_waits_for_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r");
        let (mut writer, go, _) = stalled(&dir, Backend::Fake);
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(go);
        });

        for number in 0..10 {
            assert!(writer.keep(batch(number), Vec::new(), Nanos::ZERO));
        }
        other.join().unwrap();
        let (recorder, _) = writer.finish();
        let manifest = recorder.finish(State::Complete).unwrap();

        assert_eq!(manifest.losses.not_written, 0);
        assert_eq!(manifest.counts[1].served, 990);
    }

    /// A stall of days: looks without a row filled 20 GB of memory.
    #[test]
    fn looks_without_a_row_take_room_too_and_go_to_the_disk_together() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r");
        let (mut writer, go, writes) = stalled(&dir, Backend::Bpf);
        let accounts = vec![Account::default(); 2];
        let fit = writer.room / bytes_of(&Batch::default(), &accounts);

        assert!(writer.keep(Arc::default(), accounts.clone(), Nanos::ZERO));
        // A writer that never catches up would not come to the disk meanwhile.
        while writes.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        for number in 1..10 * fit as u64 {
            let now = Nanos::from_ms(1_000 * number);
            assert!(writer.keep(Arc::default(), accounts.clone(), now));
        }

        let waiting = writer.shared.waiting.load(Ordering::Relaxed);
        assert!(
            (writer.room / 2..=writer.room).contains(&waiting),
            "{waiting}"
        );
        assert_eq!(writer.dropped(), 0);
        drop(go);
        let (recorder, written) = writer.finish();
        written.unwrap();
        recorder.finish(State::Complete).unwrap();
        // The one that the disk stood still in, and the last.
        let writes = writes.load(Ordering::Relaxed);
        assert!((1..=2).contains(&writes), "{writes} writes of {fit} looks");
    }

    #[test]
    fn what_came_after_the_disk_refused_is_counted_as_lost() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r");
        let recorder = Recorder::create(&dir, manifest(Backend::Bpf)).unwrap();
        // A folder in the place of the part: the first flush is refused.
        std::fs::create_dir(dir.join(".manifest.json.part")).unwrap();
        let mut writer = Writer::with(recorder, MOST_WAITING, || ()).unwrap();

        for number in 0..10 {
            writer.keep(batch(number), Vec::new(), Nanos::ZERO);
        }
        let (recorder, result) = writer.finish();

        let manifest = recorder.manifest();
        assert!(result.is_err());
        assert_eq!(manifest.losses.not_written, 900);
        assert_eq!(manifest.counts[1].lost, 891);
    }

    #[test]
    fn free_memory_is_read_in_bytes() {
        let text = "MemTotal:  16000 kB\nMemFree: 1 kB\nMemAvailable:   12000 kB\n";

        assert_eq!(free_in(text), Some(12_000 << 10));
        assert_eq!(free_in(""), None);
        assert!((LEAST_WAITING..=MOST_WAITING).contains(&room(Backend::Bpf)));
        assert_eq!(room(Backend::Fake), LEAST_WAITING);
    }
}
