//! Creates a store of simulated machines, for `laggard-fleet`.
//!
//! Usage: `store DIR HOSTS RECORDINGS [MINUTES]`: this number of hourly recordings of
//! each machine, of MINUTES minutes each [2]. `host-7` and others have occasional late
//! activations, as machines do: their rates are spread over a decade. Three machines
//! have a fault (a thread that computes for 7 ms every 5 s), and `host-short` has one
//! recording of a minute, with one late wakeup. Halfway, all machines get another
//! kernel. Machines with `nohz_full=1` then have five times the rate of late activations.

use std::path::{Path, PathBuf};

use laggard_made::late;
use laggard_model::{
    Activation, Backend, Batch, Clock, Cpu, Episode, EpisodeNotes, Happening, Keep, Line, LineId,
    Manifest, Nanos, ProbePlan, Route, STAGES, Service, Stage, State,
};
use laggard_record::{EpisodeWriter, Recorder};

/// Monotonic time of the first recordings that corresponds to [`EPOCH`].
const START: Nanos = Nanos::from_secs(100);
/// 2026-11-20T00:00:00Z, in hours since 1970.
const EPOCH: u64 = 498_792;
/// Time between expiries, ms: 7200 samples per hour are enough for p99.9.
const PERIOD_MS: u64 = 250;
/// Machines with a fault, and its culprit.
const FAULTY: [(usize, &str); 3] = [(17, "nicpoll"), (101, "raid-check"), (180, "snapd-sync")];

/// `SplitMix64` (Steele et al. 2014), so that a store is reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Properties of a machine.
struct Machine {
    name: String,
    fault: Option<&'static str>,
    /// Probability of a late wakeup without a fault.
    late: f64,
    tickless: bool,
    /// True if each recording has exactly one late wakeup.
    is_once: bool,
}

fn machine(number: usize, random: &mut Random) -> Machine {
    Machine {
        name: format!("host-{number}"),
        fault: FAULTY
            .iter()
            .find(|fault| fault.0 == number)
            .map(|fault| fault.1),
        late: 2e-4 * 10_f64.powf(random.share()),
        is_once: false,
        tickless: number % 5 == 2,
    }
}

fn manifest(machine: &Machine, hour: u64, is_new: bool, length: Nanos) -> Manifest {
    let line = Line::new(Cpu(1), Service::Fifo(90), Route::Direct);
    let now = EPOCH + hour;
    let wall = format!(
        "2026-11-{:02}T{:02}:00:00Z",
        20 + (now - EPOCH) / 24,
        (now - EPOCH) % 24
    );
    let clock = Clock {
        end_ns: Some(START + length),
        ..Clock::monotonic(START, wall)
    };
    let plan = ProbePlan {
        keep: Keep::Tail,
        period_ns: Nanos::from_ms(PERIOD_MS),
        // Unique for each recording.
        seed: hour + 1,
        ..ProbePlan::default()
    };
    let mut manifest = Manifest::new(Backend::Fake, plan, clock, vec![line]);
    manifest.host.node.clone_from(&machine.name);
    manifest.host.kernel = if is_new { "6.13.1" } else { "6.12.9" }.into();
    manifest.host.command_line = if machine.tickless {
        "quiet nohz_full=1".into()
    } else {
        "quiet".into()
    };
    manifest
}

fn activation(seq: u64, latency: Nanos) -> Activation {
    let mut activation = Activation::new(
        LineId(0),
        seq,
        START + Nanos::from_ms(PERIOD_MS * seq),
        [None; STAGES.len()],
    );
    activation.steps[Stage::User.index()] = Some(latency);
    activation
}

/// Returns the late wakeup `seq`, caused by `who`.
fn episode(number: u64, seq: u64, who: &str) -> Episode {
    let mut episode = late::episode(number);
    let moved = START + Nanos::from_ms(PERIOD_MS * seq);
    let shift = |time: Nanos| (time + moved).saturating_sub(episode.expiry_ns);
    episode.evidence.from_ns = shift(episode.evidence.from_ns);
    episode.evidence.to_ns = shift(episode.evidence.to_ns);
    for event in &mut episode.evidence.events {
        event.at_ns = shift(event.at_ns);
        if let Happening::Switch { name, .. } = &mut event.what
            && name == "hog"
        {
            *name = who.into();
        }
    }
    episode.evidence.samples.clear();
    episode.expiry_ns = moved;
    episode.seq = seq;
    episode
}

fn record(dir: &Path, machine: &Machine, hour: u64, count: u64, minutes: u64, random: &mut Random) {
    let length = Nanos::from_secs(60 * minutes);
    let is_new = hour >= count / 2;
    let mut recorder =
        Recorder::create(dir, manifest(machine, hour, is_new, length)).expect("there is room");
    let mut episodes = EpisodeWriter::new(recorder.folder());
    let mut rows = Batch::default();
    let mut kept = 0;
    let late = machine.late
        * if is_new && machine.tickless {
            10.0
        } else {
            1.0
        };
    for seq in 0..length.ns() / Nanos::from_ms(PERIOD_MS).ns() {
        let by = match machine.fault {
            Some(who) if seq % 20 == 7 => Some(who),
            _ if machine.is_once && seq == 100 => Some("kworker/u8:1"),
            _ if random.share() < late => Some("kworker/u8:1"),
            _ => None,
        };
        let body = Nanos::from_ns(3_000 + random.next() % 200 * (random.next() % 200));
        let latency = by.map_or(body, |_| Nanos::from_us(2_002));
        rows.push(&activation(seq, latency));
        if let Some(who) = by {
            kept += 1;
            episodes
                .append(&episode(kept, seq, who))
                .expect("there is room");
        }
    }
    recorder.append(&rows).expect("there is room");
    let notes = EpisodeNotes {
        kept,
        ..late::notes()
    };
    episodes.finish(&notes).expect("there is room");
    recorder.finish(State::Complete).expect("there is room");
}

fn main() {
    let mut words = std::env::args().skip(1);
    let store = PathBuf::from(
        words
            .next()
            .expect("usage: store DIR HOSTS RECORDINGS [MINUTES]"),
    );
    let mut number = || {
        words
            .next()
            .map(|word| word.parse::<u64>().expect("is a number"))
    };
    let hosts = number().expect("say how many hosts");
    let recordings = number().expect("say how many recordings");
    let minutes = number().unwrap_or(2);
    let mut random = Random(1);
    for number in 0..usize::try_from(hosts).expect("fits") {
        let machine = machine(number, &mut random);
        let dir = store.join(&machine.name);
        std::fs::create_dir_all(&dir).expect("there is room");
        for hour in 0..recordings {
            let dir = dir.join(format!("hour-{hour:03}.laggard"));
            record(&dir, &machine, hour, recordings, minutes, &mut random);
        }
    }
    let short = Machine {
        name: "host-short".into(),
        fault: None,
        late: 0.0,
        tickless: false,
        is_once: true,
    };
    std::fs::create_dir_all(store.join("host-short")).expect("there is room");
    let dir = store.join("host-short/once.laggard");
    record(&dir, &short, 0, 1, 1, &mut random);
}
