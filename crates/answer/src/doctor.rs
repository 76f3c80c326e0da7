//! `laggard doctor`: measuring abilities, harmful settings, and missing audio prerequisites of a
//! machine.

use laggard_model::{
    Ability, AudioFinding, AudioNeed, Backend, CauseClass, Caveat, CpuList, Host, Nanos,
};
use laggard_record::{OpenError, Recording};
use schemars::JsonSchema;
use serde::Serialize;

use crate::proven::ProvenEffect;
use crate::why::{CauseShare, EpisodeCauses, EpisodesError, LateWakeups};

/// Version of the JSON layout of `doctor --json`.
pub const DOCTOR_SCHEMA: u32 = 3;

/// Findings about a machine.
#[derive(Clone, Debug)]
pub struct DoctorFindings {
    /// The machine.
    pub host: Host,
    pub cpus: CpuList,
    /// Method that stamps the stages of threads in a recording; `None` if there is only one.
    pub method: Option<Backend>,
    /// Abilities that a recording uses.
    pub abilities: Vec<Ability>,
    /// Settings that hurt latency, the worst first.
    pub caveats: Vec<Caveat>,
    /// Prerequisites of audio programs.
    pub audio: Vec<AudioFinding>,
    /// Effects of remedies that were tried with the present kernel and settings.
    pub proven: Vec<ProvenEffect>,
}

/// Abilities of a machine, and settings that hurt latency.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct DoctorReport {
    /// Version of this layout.
    pub schema: u32,
    /// The machine.
    pub host: Host,
    pub cpus: CpuList,
    /// Method that stamps the stages of threads in a recording: `bpf`, `perf` (tracepoints), or
    /// `user` (neither: only expiry and user stage); absent on Windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Backend>,
    /// Abilities that a recording uses, with the reason if one is not available.
    pub abilities: Vec<Ability>,
    /// Number of abilities that a full recording needs and that are not available.
    pub missing: usize,
    /// Settings that hurt latency, the worst first, each with a remedy.
    pub caveats: Vec<Caveat>,
    /// Prerequisites of audio programs.
    pub audio: Vec<AudioRow>,
    /// The recording that `effect` is of.
    pub recording: Option<String>,
    /// Effects of remedies that were tried (`--prove`) with this kernel and this value of
    /// the setting.
    pub proven: Vec<ProvenEffect>,
}

/// Prerequisite of audio programs, and its effect in a recording.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AudioRow {
    #[serde(flatten)]
    pub finding: AudioFinding,
    /// Effect in the recording; absent if no recording was given.
    pub effect: Option<EffectSeen>,
}

/// Effect of something in a recording.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "seen")]
pub enum EffectSeen {
    /// It took time of late wakeups.
    Yes {
        /// Late wakeups in the recording.
        episodes: usize,
        /// Most time that it took of one late wakeup.
        largest_ns: Nanos,
        /// Its share of the time of all, 0 to 1.
        share: f64,
    },
    /// It took no time of any late wakeup.
    No {
        /// Late wakeups in the recording.
        episodes: usize,
    },
    /// The recording does not show it.
    Unknown { reason: UnknownEffect },
}

/// Reason why a recording does not show an effect.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UnknownEffect {
    /// The recording is from another machine.
    OtherMachine {
        /// Name of that machine.
        node: String,
    },
    /// The recording lacks trace data of late wakeups.
    NoTraceData,
    /// The trace data is damaged.
    Damaged,
    /// The recording lacks a late wakeup with trace data.
    NoLateWakeup,
    /// Code on a slow clock cannot be distinguished from other code.
    NotAttributable,
    /// The threads were laggard's, which do not have the limits of the user.
    OwnThreads,
}

/// Joins the findings about a machine with the effects in a recording of it.
///
/// # Errors
/// When the recording cannot be read.
pub fn doctor(
    examined: DoctorFindings,
    recording: Option<&Recording>,
) -> Result<DoctorReport, OpenError> {
    let late = recording.map(|recording| late_wakeups(recording, &examined.host));
    let late = late.transpose()?;
    let effect = |need| late.as_ref().map(|late| effect(need, late));
    let rows = examined.audio.into_iter().map(|finding| AudioRow {
        effect: effect(finding.need),
        finding,
    });
    let missing = |ability: &&Ability| ability.is_needed && ability.absence.is_some();
    Ok(DoctorReport {
        schema: DOCTOR_SCHEMA,
        host: examined.host,
        cpus: examined.cpus,
        method: examined.method,
        missing: examined.abilities.iter().filter(missing).count(),
        abilities: examined.abilities,
        caveats: examined.caveats,
        audio: rows.collect(),
        recording: recording.map(|recording| recording.dir().display().to_string()),
        proven: examined.proven,
    })
}

/// Returns the causes of the late wakeups of a recording, or the reason why it does not show
/// the causes on `host`.
fn late_wakeups(
    recording: &Recording,
    host: &Host,
) -> Result<Result<LateWakeups, UnknownEffect>, OpenError> {
    let recorded = &recording.manifest().host;
    if recorded.node != host.node {
        return Ok(Err(UnknownEffect::OtherMachine {
            node: recorded.node.clone(),
        }));
    }
    match EpisodeCauses::read(recording) {
        Ok(causes) => Ok(Ok(causes.explained(None).report(usize::MAX))),
        Err(EpisodesError::Open(error)) => Err(error),
        Err(EpisodesError::Damaged { .. }) => Ok(Err(UnknownEffect::Damaged)),
        Err(
            EpisodesError::NotRecorded { .. }
            | EpisodesError::OfRows { .. }
            | EpisodesError::OfTrace { .. }
            | EpisodesError::NotMeasured { .. }
            | EpisodesError::IsStage
            | EpisodesError::NoSuch { .. },
        ) => Ok(Err(UnknownEffect::NoTraceData)),
    }
}

/// Finds the effect of a prerequisite that is not met.
fn effect(need: AudioNeed, late: &Result<LateWakeups, UnknownEffect>) -> EffectSeen {
    let unknown = |reason| EffectSeen::Unknown { reason };
    let late = match late {
        Ok(late) => late,
        Err(reason) => return unknown(reason.clone()),
    };
    let is_device =
        |row: &CauseShare| row.cause.class == CauseClass::Interrupt && row.irq.is_some();
    match need {
        AudioNeed::IdleStates => sum(late, |row| row.cause.class == CauseClass::IdleExit),
        AudioNeed::ThreadedInterrupts => sum(late, is_device),
        AudioNeed::SoundInterrupt => sum(late, |row| {
            let who = row.cause.who.as_deref().unwrap_or_default();
            is_device(row) && who.contains("snd")
        }),
        AudioNeed::Governor => unknown(UnknownEffect::NotAttributable),
        AudioNeed::Priority | AudioNeed::MemoryLock | AudioNeed::Swappiness => {
            unknown(UnknownEffect::OwnThreads)
        }
    }
}

/// Sums the time that causes of a kind took.
fn sum(late: &LateWakeups, is_it: impl Fn(&CauseShare) -> bool) -> EffectSeen {
    let episodes = late.episodes;
    if episodes == 0 {
        return EffectSeen::Unknown {
            reason: UnknownEffect::NoLateWakeup,
        };
    }
    let rows: Vec<&CauseShare> = late.causes.iter().filter(|row| is_it(row)).collect();
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

    /// Creates a recording with a late wakeup during which these activities took 500 us each.
    fn late_wakeups_with(activities: &[Activity]) -> LateWakeups {
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
        let late = RecordedEpisodes::new("r.laggard", manifest(), vec![late], notes);
        Explained::new(&late, None).report(usize::MAX)
    }

    #[test]
    fn effect_is_seen_if_a_late_wakeup_has_it_as_a_cause() {
        let disk = Ok(late_wakeups_with(&[Activity::Irq(17)]));
        let both = Ok(late_wakeups_with(&[Activity::Irq(17), Activity::Irq(16)]));
        let none = Ok(late_wakeups_with(&[]));
        let yes = |late: &Result<LateWakeups, UnknownEffect>, need| match effect(need, late) {
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
    fn idle_states_are_seen_if_an_exit_took_time() {
        let mut late = late_wakeups_with(&[Activity::Irq(17)]);
        for row in &mut late.causes {
            if row.cause.class == CauseClass::Interrupt {
                row.cause.class = CauseClass::IdleExit;
            }
        }

        let found_effect = effect(AudioNeed::IdleStates, &Ok(late));

        assert!(
            matches!(found_effect, EffectSeen::Yes { .. }),
            "{found_effect:?}"
        );
    }

    #[test]
    fn effect_is_unknown_if_the_recording_cannot_show_it() {
        let of_here = Ok(late_wakeups_with(&[]));
        let of_another = Err(UnknownEffect::OtherMachine {
            node: "carrel".into(),
        });

        for (need, late) in [
            (AudioNeed::Governor, &of_here),
            (AudioNeed::MemoryLock, &of_here),
            (AudioNeed::IdleStates, &of_another),
        ] {
            let effect = effect(need, late);

            assert!(matches!(effect, EffectSeen::Unknown { .. }), "{effect:?}");
        }
    }
}
