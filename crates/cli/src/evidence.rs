//! What recordings saw, by load: where forecasts and replays begin.

use std::collections::BTreeMap;
use std::path::PathBuf;

use laggard_analyze::distribution::{Fold, Group, Latest, LineSum, Lost, Split};
use laggard_analyze::exceedance::Collector;
use laggard_model::{Backend, Caveat, Keep, LoadLabel, LoadRun, Manifest, Nanos, UsagePattern};
use laggard_record::{Recording, Wanted};
use laggard_report::forecast::KnownCauses;
use laggard_report::qos::{LoadSeen, Seen};
use laggard_report::{Case, Trust, judge};

use crate::exit::Outcome;
use crate::floors::Floors;
use crate::{given, samples};

/// One load's recordings, and who uses it how.
pub(crate) struct Evidence {
    pub(crate) seen: LoadSeen,
    pub(crate) usage: Option<UsagePattern>,
    /// Its folders, in the order of the recordings.
    dirs: Vec<PathBuf>,
    /// Whether a recording lost too much to be trusted.
    pub(crate) is_untrustworthy: bool,
}

/// What one recording saw.
pub(crate) struct Single {
    dir: PathBuf,
    load: Option<LoadRun>,
    seen: Seen,
    trust: Trust,
}

/// A recording's samples, counted and searched for late ones.
pub(crate) struct Searched {
    /// Distributions, CPUs together.
    pub(crate) groups: Vec<Group>,
    /// From where on the samples are complete.
    pub(crate) floors: Floors,
    /// What was counted of each line.
    pub(crate) sums: Vec<LineSum>,
    pub(crate) late: Collector,
    /// The latest expiry.
    pub(crate) last: Option<Nanos>,
    /// What is missing.
    pub(crate) shortfalls: Vec<Caveat>,
}

/// Reads the recordings in `dirs` and puts those of the same load together.
pub(crate) fn read(dirs: &[PathBuf]) -> anyhow::Result<Vec<Evidence>> {
    let singles = given::open(dirs)?.into_iter().map(|recording| {
        let searched = search(&recording);
        single(&recording, searched)
    });
    Ok(gather(singles.collect::<anyhow::Result<_>>()?))
}

/// Puts recordings of the same load together.
pub(crate) fn gather(singles: Vec<Single>) -> Vec<Evidence> {
    let mut loads: BTreeMap<LoadLabel, Evidence> = BTreeMap::new();
    for one in singles {
        let label = LoadLabel::of(one.load.as_ref());
        let usage = one.load.and_then(|load| load.usage);
        let evidence = loads.entry(label.clone()).or_insert_with(|| Evidence {
            seen: LoadSeen {
                load: label,
                recordings: Vec::new(),
            },
            usage,
            dirs: Vec::new(),
            is_untrustworthy: false,
        });
        evidence.is_untrustworthy |= one.trust != Trust::Good;
        evidence.usage = evidence.usage.or(usage);
        evidence.seen.recordings.push(one.seen);
        evidence.dirs.push(one.dir);
    }
    loads.into_values().collect()
}

/// The causes of a load's late activations, as far as they were kept.
pub(crate) fn causes(evidence: &Evidence) -> anyhow::Result<KnownCauses> {
    let mut known = KnownCauses::default();
    for dir in &evidence.dirs {
        let recording = Recording::open(dir)?;
        let lines = &recording.manifest().lines;
        known.next_recording();
        let read = recording.each_episode(|episode, notes| {
            let line = lines.get(usize::from(episode.line.0));
            if let (Some(&line), Some(notes)) = (line, notes) {
                known.add(&episode, line, &notes.symbols);
            }
        })?;
        if let Some(notes) = read.notes {
            known.name_by(&notes.symbols);
            known.add_choice(&notes);
        }
    }
    Ok(known)
}

/// What a recording saw, from its samples.
///
/// # Errors
/// When it holds no activation.
pub(crate) fn single(recording: &Recording, searched: Searched) -> anyhow::Result<Single> {
    let manifest = recording.manifest();
    let dir = recording.dir();
    let Searched {
        groups,
        floors,
        sums,
        late,
        last,
        shortfalls,
    } = searched;
    let mut streams = late.streams(&manifest.lines);
    floors.raise(&mut streams);
    let start = manifest.clock.start_ns;
    let end = manifest.clock.end_ns.or(last).unwrap_or(start);
    let duration = end.saturating_sub(start);
    if duration == Nanos::ZERO || streams.is_empty() {
        anyhow::bail!(
            "`{}` holds no activation; see `laggard show {0}`, and record again",
            dir.display()
        );
    }
    let judged = judge(&Case::of(manifest, &sums));
    let trust = judged.trust;
    let mut notes = notes(manifest, &shortfalls);
    let caveats = judged.caveats.iter();
    notes.extend(caveats.map(|one| format!("{}; {}", one.what, one.advice)));
    if let Trust::None(reasons) = &trust {
        notes.insert(0, format!("NOT TRUSTWORTHY: {}", reasons.join("; ")));
    }
    let seen = Seen {
        path: dir.display().to_string(),
        start,
        duration,
        plan: manifest.plan.clone(),
        groups,
        streams,
        own_cpus: own_cpus(manifest),
        waiting: laggard_report::waiting(&manifest.lines, &sums),
        notes,
    };
    Ok(Single {
        dir: dir.into(),
        load: manifest.load.clone(),
        seen,
        trust,
    })
}

/// CPUs that measuring kept busy; 0 where that was not counted.
fn own_cpus(manifest: &Manifest) -> f64 {
    let wall = manifest.cost.wall_ns.as_secs_f64();
    if wall > 0.0 {
        manifest.cost.total().as_secs_f64() / wall
    } else {
        0.0
    }
}

/// How a command ends that answered from `all`.
pub(crate) fn outcome(all: &[Evidence]) -> Outcome {
    if all.iter().any(|one| one.is_untrustworthy) {
        Outcome::Untrustworthy
    } else {
        Outcome::Ok
    }
}

/// What speaks against the recording, in plain words.
fn notes(manifest: &Manifest, shortfalls: &[Caveat]) -> Vec<String> {
    let mut notes: Vec<String> = shortfalls
        .iter()
        .map(|one| format!("{}; {}", one.what, one.advice))
        .collect();
    let lost = manifest.losses.activations();
    if lost > 0 {
        notes.push(format!(
            "{lost} activations were lost, which may have been late ones"
        ));
    }
    if manifest.backend == Backend::Fake {
        notes.push("from a script: NOT a measurement".into());
    }
    let spoilt = manifest
        .caveats
        .iter()
        .filter(|one| one.kind.severity() == laggard_model::Severity::Spoils);
    notes.extend(spoilt.map(|one| format!("{}; {}", one.what, one.advice)));
    notes
}

/// For the late activations of a recording.
pub(crate) fn collector(manifest: &Manifest) -> Collector {
    let gap = manifest.plan.period_ns * if manifest.plan.dither { 2 } else { 1 };
    Collector::new(manifest.lines.len(), gap)
}

/// Reads every sample that was kept.
fn search(recording: &Recording) -> Searched {
    let manifest = recording.manifest();
    let mut shortfalls: Vec<Caveat> = recording.shortfalls().iter().map(Caveat::from).collect();
    let lines = manifest.lines.len();
    let (mut fold, (late, last)) = samples::gather(
        recording,
        samples::FEW,
        Wanted::all(),
        &mut shortfalls,
        || {
            let late = (collector(manifest), Latest::default());
            (Fold::new(lines, Split::Whole), late)
        },
    );
    let mut floors = Floors::default();
    if manifest.plan.keep == Keep::Tail {
        let counted = samples::stored(recording, &mut shortfalls).0;
        floors = Floors::of(&manifest.lines, &fold, &counted);
        fold = counted;
    }
    fold.set_lost(Lost::of(&manifest.counts, &manifest.losses));
    Searched {
        groups: fold.groups(&manifest.lines, false),
        floors,
        sums: fold.sums(),
        late,
        last: last.0,
        shortfalls,
    }
}
