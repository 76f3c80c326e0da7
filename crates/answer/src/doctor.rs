//! `laggard doctor`: what can be measured on a machine, what spoils latency
//! there, and what audio needs of it.

use laggard_model::{Ability, AudioFinding, AudioNeed, CauseClass, Caveat, CpuList, Host, Nanos};
use laggard_record::{OpenError, Recording};
use schemars::JsonSchema;
use serde::Serialize;

use crate::proven::ProvenEffect;
use crate::why::{CauseRow, EpisodeCauses, EpisodesError, WhyReport};

/// The version of `doctor --json`.
pub const DOCTOR_SCHEMA: u32 = 1;

/// What was found of a machine, by whoever looked.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The machine.
    pub host: Host,
    /// CPUs that are to be measured.
    pub cpus: CpuList,
    /// What a recording uses.
    pub abilities: Vec<Ability>,
    /// What spoils latency, the worst first.
    pub caveats: Vec<Caveat>,
    /// What audio needs.
    pub audio: Vec<AudioFinding>,
    /// What its remedies did here, where they were tried as it is now.
    pub proven: Vec<ProvenEffect>,
}

/// What can be measured on a machine, and what spoils latency there.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct DoctorReport {
    /// The version of this layout.
    pub schema: u32,
    /// The machine.
    pub host: Host,
    /// CPUs that are to be measured.
    pub cpus: CpuList,
    /// What a recording uses, and why it cannot be had.
    pub abilities: Vec<Ability>,
    /// Abilities that a full recording takes and that cannot be had.
    pub missing: usize,
    /// What spoils latency, the worst first, each with a remedy.
    pub caveats: Vec<Caveat>,
    /// What audio needs.
    pub audio: Vec<AudioRow>,
    /// The recording that `effect` is of.
    pub recording: Option<String>,
    /// What remedies did here when they were tried (`--prove`), of those that were
    /// with this kernel and this value of the setting.
    pub proven: Vec<ProvenEffect>,
}

/// A need of audio's, and whether a recording saw what it is about.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AudioRow {
    /// Whether it is met.
    #[serde(flatten)]
    pub finding: AudioFinding,
    /// Whether the recording saw the effect of what is needed; absent where none
    /// was asked.
    pub effect: Option<EffectSeen>,
}

/// Whether a recording saw the effect of something.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "seen")]
pub enum EffectSeen {
    /// It took time of late activations.
    Yes {
        /// Late activations in the recording.
        episodes: usize,
        /// Most time that it took of one.
        largest_ns: Nanos,
        /// Its share of the time of all, 0 to 1.
        share: f64,
    },
    /// It took no time of any late activation.
    No {
        /// Late activations in the recording.
        episodes: usize,
    },
    /// The recording does not tell.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// Sets what was found of a machine against what a recording of it saw.
///
/// # Errors
/// When the recording cannot be read.
pub fn doctor(found: Examined, recording: Option<&Recording>) -> Result<DoctorReport, OpenError> {
    let seen = recording.map(|recording| seen(recording, &found.host));
    let seen = seen.transpose()?;
    let effect = |need| seen.as_ref().map(|seen| effect(need, seen));
    let rows = found.audio.into_iter().map(|finding| AudioRow {
        effect: effect(finding.need),
        finding,
    });
    let missing = |one: &&Ability| one.is_needed && one.absence.is_some();
    Ok(DoctorReport {
        schema: DOCTOR_SCHEMA,
        host: found.host,
        cpus: found.cpus,
        missing: found.abilities.iter().filter(missing).count(),
        abilities: found.abilities,
        caveats: found.caveats,
        audio: rows.collect(),
        recording: recording.map(|recording| recording.dir().display().to_string()),
        proven: found.proven,
    })
}

/// The causes of a recording's late activations, or why it does not tell them
/// of `host`.
fn seen(recording: &Recording, host: &Host) -> Result<Result<WhyReport, String>, OpenError> {
    let recorded = &recording.manifest().host;
    if recorded.node != host.node {
        return Ok(Err(format!("it is of another machine, {}", recorded.node)));
    }
    match EpisodeCauses::read(recording) {
        Ok(causes) => Ok(Ok(causes.explained(None).report(usize::MAX))),
        Err(EpisodesError::Open(error)) => Err(error),
        Err(
            error @ (EpisodesError::NotRecorded { .. }
            | EpisodesError::OfRows { .. }
            | EpisodesError::OfTrace { .. }
            | EpisodesError::Damaged { .. }
            | EpisodesError::NotMeasured { .. }
            | EpisodesError::NoSuch { .. }),
        ) => Ok(Err(error.to_string())),
    }
}

/// Whether the effect of what `need` is about was seen.
fn effect(need: AudioNeed, seen: &Result<WhyReport, String>) -> EffectSeen {
    let unknown = |why: &str| EffectSeen::Unknown { why: why.into() };
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => return unknown(why),
    };
    let is_device = |row: &CauseRow| row.class == CauseClass::Interrupt && row.irq.is_some();
    match need {
        AudioNeed::IdleStates => of(seen, |row| row.class == CauseClass::IdleExit),
        AudioNeed::ThreadedInterrupts => of(seen, is_device),
        AudioNeed::SoundInterrupt => of(seen, |row| {
            let who = row.who.as_deref().unwrap_or_default();
            is_device(row) && who.contains("snd")
        }),
        AudioNeed::Governor => unknown("code that runs slowly is not told from other code"),
        AudioNeed::Priority | AudioNeed::MemoryLock | AudioNeed::Swappiness => unknown(
            "its threads were laggard's, which had the priority and the memory that they asked for, or a caveat",
        ),
    }
}

/// What causes of a kind took.
fn of(seen: &WhyReport, is_it: impl Fn(&CauseRow) -> bool) -> EffectSeen {
    let episodes = seen.episodes;
    if episodes == 0 {
        return EffectSeen::Unknown {
            why: "it kept no late activation".into(),
        };
    }
    let rows: Vec<&CauseRow> = seen.causes.iter().filter(|row| is_it(row)).collect();
    match rows.iter().map(|row| row.largest_ns).max() {
        None => EffectSeen::No { episodes },
        Some(largest_ns) => EffectSeen::Yes {
            episodes,
            largest_ns,
            share: rows.iter().map(|row| row.share).sum(),
        },
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Activity, FlightEvent, Happening};

    use super::*;
    use crate::why::{Explained, RecordedEpisodes};
    use laggard_made::late::{episode, manifest, notes};

    /// Of a recording with a late activation in which these activities went on,
    /// each for 500 us.
    fn seen(activities: &[Activity]) -> WhyReport {
        let mut late = episode(1);
        let from = late.expiry_ns + Nanos::from_us(100);
        let busy = activities.iter().zip(0..).flat_map(|(activity, place)| {
            let from = from + Nanos::from_us(600 * place);
            [
                (from, Happening::Begin(*activity)),
                (from + Nanos::from_us(500), Happening::End(*activity)),
            ]
        });
        let events = &mut late.evidence.events;
        events.extend(busy.map(|(at_ns, what)| FlightEvent { at_ns, what }));
        events.sort_by_key(|event| event.at_ns);
        let mut notes = notes();
        let interrupts = [(16, "snd_hda_intel:card0"), (17, "ahci")];
        let interrupts = interrupts.map(|(number, name)| (number, name.to_owned()));
        notes.symbols.interrupts = interrupts.into();
        let late = RecordedEpisodes {
            path: "r.laggard".into(),
            manifest: manifest(),
            episodes: vec![late],
            notes,
            latest: Vec::new(),
            shortfalls: Vec::new(),
        };
        Explained::new(&late, None).report(usize::MAX)
    }

    #[test]
    fn an_effect_is_seen_where_a_late_activation_has_it_as_a_cause() {
        let disk = Ok(seen(&[Activity::Irq(17)]));
        let both = Ok(seen(&[Activity::Irq(17), Activity::Irq(16)]));
        let none = Ok(seen(&[]));
        let yes = |seen: &Result<WhyReport, String>, need| match effect(need, seen) {
            EffectSeen::Yes { largest_ns, .. } => Some(largest_ns),
            EffectSeen::No { episodes: 1 } => None,
            other => panic!("{other:?}"),
        };

        assert_eq!(
            yes(&disk, AudioNeed::ThreadedInterrupts),
            Some(Nanos::from_us(500))
        );
        assert_eq!(yes(&disk, AudioNeed::SoundInterrupt), None);
        assert_eq!(
            yes(&both, AudioNeed::SoundInterrupt),
            Some(Nanos::from_us(500))
        );
        for need in [AudioNeed::ThreadedInterrupts, AudioNeed::IdleStates] {
            assert_eq!(yes(&none, need), None, "{need:?}");
        }
        // A quarter of an activation that was 2 ms late.
        let EffectSeen::Yes { share, .. } = effect(AudioNeed::ThreadedInterrupts, &disk) else {
            panic!("an interrupt was seen");
        };
        assert!((0.2..0.3).contains(&share), "{share}");
    }

    #[test]
    fn idle_states_are_seen_where_leaving_one_took_time() {
        let mut late = seen(&[Activity::Irq(17)]);
        for row in &mut late.causes {
            if row.class == CauseClass::Interrupt {
                row.class = CauseClass::IdleExit;
            }
        }

        let seen = effect(AudioNeed::IdleStates, &Ok(late));

        assert!(matches!(seen, EffectSeen::Yes { .. }), "{seen:?}");
    }

    #[test]
    fn what_a_recording_cannot_show_is_not_said_to_be_absent() {
        let of_here = Ok(seen(&[]));
        let of_another = Err("it is of another machine, carrel".to_owned());

        for (need, seen) in [
            (AudioNeed::Governor, &of_here),
            (AudioNeed::MemoryLock, &of_here),
            (AudioNeed::IdleStates, &of_another),
        ] {
            let effect = effect(need, seen);

            assert!(matches!(effect, EffectSeen::Unknown { .. }), "{effect:?}");
        }
    }
}
