//! Recorder in a separate thread, so that a slow disk does not keep the collector from the
//! probe's rings.

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

/// Minimum and maximum memory for rows that wait for the disk, and the inverse of the fraction of
/// free memory. A row takes about 90 bytes: 48 MiB hold 50 s of the default services and period
/// of two CPUs, 1 GiB a minute of 32 CPUs.
const MIN_WAITING_BYTES: usize = 48 << 20;
const MAX_WAITING_BYTES: usize = 1 << 30;
const INVERSE_SHARE_OF_FREE: usize = 16;

/// Data of one pass over the probe.
struct ProbePass {
    batch: Arc<Batch>,
    accounts: Vec<Account>,
    /// Per line: rows without room before these.
    dropped: Vec<u64>,
    load_ended: Option<LoadEnded>,
    now: Nanos,
    came: Instant,
}

/// State that both threads share.
#[derive(Default)]
struct WriterState {
    /// Bytes of waiting rows.
    waiting: AtomicUsize,
    has_failed: AtomicBool,
}

/// Recorder that a separate thread writes to.
pub(crate) struct Writer {
    looks: Sender<ProbePass>,
    thread: JoinHandle<(Recorder, Result<(), WriteError>)>,
    shared: Arc<WriterState>,
    /// Maximum bytes of waiting rows.
    room: usize,
    /// True if time is virtual, so that the measurement can wait for the disk.
    can_wait: bool,
    /// Dropped rows per line that were not reported to the recorder yet, and their total.
    dropped: Vec<u64>,
    all_dropped: u64,
    /// End of the load, if the recorder does not know it yet.
    load_ended: Option<LoadEnded>,
}

impl Writer {
    /// Moves the recorder to a thread.
    pub(crate) fn start(recorder: Recorder) -> io::Result<Self> {
        let room = room(recorder.manifest().backend);
        Self::with(recorder, room, || ())
    }

    /// Does so with room for `room` bytes. `disk` is called before each write.
    fn with(
        recorder: Recorder,
        room: usize,
        disk: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let (looks, taken) = channel();
        let shared = Arc::new(WriterState::default());
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

    /// Queues `batch`, and the account of each line's plan so far, for writing. If too much data
    /// already waits for the disk, drops the batch and counts its rows per line. In virtual time,
    /// waits instead. Returns true if the thread still writes. Otherwise [`Writer::finish`] returns
    /// the reason.
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
        let look = ProbePass {
            batch,
            accounts,
            dropped,
            load_ended: self.load_ended.take(),
            now,
            came: Instant::now(),
        };
        match self.looks.send(look) {
            Ok(()) => self.is_writing(),
            // The thread panicked; `finish` passes the panic on.
            Err(_) => false,
        }
    }

    /// Stores in the manifest, with the next rows, that the load has ended, because a kill may
    /// come before the measurement ends.
    pub(crate) fn note_load(&mut self, ended: LoadEnded) {
        self.load_ended = Some(ended);
    }

    /// Returns the number of rows dropped so far because the disk is slow.
    pub(crate) const fn dropped(&self) -> u64 {
        self.all_dropped
    }

    /// Waits until everything is written, or has failed.
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

    /// Returns whether `bytes` more would exceed the limit. A batch always has room if nothing
    /// waits.
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

/// Writes until the end of the input. After an error of the disk, further rows are counted as
/// lost.
fn write(
    mut recorder: Recorder,
    looks: &Receiver<ProbePass>,
    shared: &WriterState,
    mut disk: impl FnMut(),
) -> (Recorder, Result<(), WriteError>) {
    system::use_little();
    let mut boost = LateBoost::new();
    // A script runs as fast as possible.
    let is_real = recorder.manifest().backend != Backend::Fake;
    // The measurement is complete until this time.
    let mut measured_to: Option<Nanos> = None;
    let mut written = Ok(());
    let mut next = looks.recv().ok();
    while let Some(look) = next {
        next = looks.try_recv().ok();
        let is_last = next.is_none();
        let bytes = bytes_of(&look.batch, &look.accounts);
        let ProbePass {
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
            // A pass without rows adds nothing to the next one. During a stall of days there is a
            // pass each second.
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

/// Returns the memory of a pass with its rows.
fn bytes_of(batch: &Batch, accounts: &[Account]) -> usize {
    let steps: usize = batch.step_ns.iter().map(|step| step.len() * 8).sum();
    let rows = steps + batch.len() * (2 + 8 + 8 + 1 + 1);
    rows + size_of::<ProbePass>() + size_of::<Batch>() + size_of_val(accounts)
}

/// Returns the maximum memory for waiting rows. In virtual time the sender can wait, too.
fn room(backend: Backend) -> usize {
    if backend == Backend::Fake {
        return MIN_WAITING_BYTES;
    }
    let free = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| free_in(&text));
    let share = free.unwrap_or_default() / INVERSE_SHARE_OF_FREE;
    share.clamp(MIN_WAITING_BYTES, MAX_WAITING_BYTES)
}

/// Returns the free memory in bytes from the text of `/proc/meminfo`.
fn free_in(text: &str) -> Option<usize> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1_024)
}

/// Passes the account of each line's plan to the recorder. The recording's losses are the sum
/// over its lines, plus the recorder's.
pub(crate) fn account(recorder: &mut Recorder, accounts: Vec<Account>) {
    let mut losses = Losses::default();
    accounts
        .iter()
        .for_each(|account| losses.merge(&account.losses));
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
        let line = |cpu| Line::new(Cpu(cpu), Service::Other, Route::Direct);
        let clock = Clock::monotonic(Nanos::ZERO, "then");
        Manifest::new(backend, plan, clock, vec![line(0), line(1)])
    }

    /// Returns rows of line 1, and one row of line 0.
    fn batch(number: u64) -> Arc<Batch> {
        let mut batch = Batch::default();
        for row in 0..100 {
            let mut activation = Activation::new(
                LineId(u16::from(row > 0)),
                number * 100 + row,
                Nanos::from_ms(number * 100 + row),
                [None; STAGES.len()],
            );
            activation.steps[Stage::User.index()] = Some(Nanos::from_us(5));
            batch.push(&activation);
        }
        Arc::new(batch)
    }

    /// Creates a writer with room for three batches, whose disk blocks until a message is sent or
    /// the sender is dropped; and the number of writes.
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

    /// A killed writer could not record it later.
    #[test]
    fn end_of_a_load_is_written_with_the_next_rows() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r");
        let recorder = Recorder::create(&dir, manifest(Backend::Fake)).unwrap();
        let mut writer = Writer::start(recorder).unwrap();
        writer.note_load(LoadEnded {
            run: LoadRun {
                name: "fp".into(),
                ended: Some("exit status 1".into()),
                ..LoadRun::default()
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
                .filter(|caveat| caveat.kind == CaveatKind::LoadEnded)
                .count(),
            1
        );
    }

    #[test]
    fn rows_dropped_by_a_slow_disk_are_counted_per_line_at_once() {
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
    fn wait_for_the_disk_is_known_after_a_kill() {
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
        // The disk blocked, and half a second lay between two passes.
        assert!(within >= Nanos::from_ms(50), "{within}");
        let advice = recording.shortfalls()[0].advice();
        assert!(
            advice.contains(&format!(
                "it wrote within {}",
                Unit::Auto.write_nanos(within)
            )),
            "{advice}"
        );
    }

    #[test]
    fn measurement_waits_for_the_disk_in_virtual_time() {
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

    /// During a stall of days, passes without rows once filled 20 GB of memory.
    #[test]
    fn passes_without_rows_count_and_are_written_together() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r");
        let (mut writer, go, writes) = stalled(&dir, Backend::Bpf);
        let accounts = vec![Account::default(); 2];
        let fit = writer.room / bytes_of(&Batch::default(), &accounts);

        assert!(writer.keep(Arc::default(), accounts.clone(), Nanos::ZERO));
        // A writer that never catches up would not write in between.
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
        // The write during which the disk blocked, and the last one.
        let writes = writes.load(Ordering::Relaxed);
        assert!((1..=2).contains(&writes), "{writes} writes of {fit} looks");
    }

    #[test]
    fn rows_after_a_disk_error_are_counted_as_lost() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r");
        let recorder = Recorder::create(&dir, manifest(Backend::Bpf)).unwrap();
        // A directory at the path of the temporary file makes the first flush fail.
        std::fs::create_dir(dir.join(".manifest.json.part")).unwrap();
        let mut writer = Writer::with(recorder, MAX_WAITING_BYTES, || ()).unwrap();

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
        assert!((MIN_WAITING_BYTES..=MAX_WAITING_BYTES).contains(&room(Backend::Bpf)));
        assert_eq!(room(Backend::Fake), MIN_WAITING_BYTES);
    }
}
