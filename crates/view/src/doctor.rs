//! `laggard doctor`: what laggard can measure on a machine, and which settings hurt latency.

use laggard_answer::doctor::{AudioRow, DoctorReport, EffectSeen};
use laggard_model::{Ability, Caveat, Remedy};

use crate::doc::{
    Block, Cell, Column, Detail, Document, SCREEN_LINES, Table, Verdict, code, first_that_fits,
};
use crate::phrase::doctor as phrase;
use crate::phrase::machine;
use crate::text::Tone;

/// Numbers of settings on the first screen. They are sorted, the worst first.
const SETTINGS: std::ops::RangeInclusive<usize> = 1..=3;

/// Describes the report. `Short` has what is missing and the worst settings; `Full` has all
/// abilities, settings and prerequisites.
pub fn document(report: &DoctorReport, detail: Detail) -> Document {
    match detail {
        Detail::Short => {
            let documents = SETTINGS.rev().map(|settings| {
                let mut document = head(report);
                short(&mut document, report, settings);
                document
            });
            first_that_fits(SCREEN_LINES, documents)
        }
        Detail::Full => {
            let mut document = head(report);
            full(&mut document, report);
            document
        }
    }
}

/// Describes the verdict, the machine and the method.
fn head(report: &DoctorReport) -> Document {
    let mut document = Document::new("What laggard can measure, and what hurts latency");
    document.push(Block::Verdicts(vec![verdict(report)]));
    let processor = Some(&report.host.processor.model).filter(|model| !model.is_empty());
    let processor = processor.map_or_else(String::new, |model| format!(", {model}"));
    document.push(Block::Detail(format!(
        "{}{processor}",
        machine(&report.host)
    )));
    if let Some(method) = report.method {
        document.lines(vec![phrase::method(method, &report.abilities)]);
    }
    document
}

fn verdict(report: &DoctorReport) -> Verdict {
    let (tone, word, text) = match report.missing {
        0 => (Tone::Good, "OK", "a full recording is possible".to_owned()),
        1 => (
            Tone::Bad,
            "LIMITED",
            "1 ability is missing; `laggard record` measures the rest and prints a warning".into(),
        ),
        missing => (
            Tone::Bad,
            "LIMITED",
            format!(
                "{missing} abilities are missing; `laggard record` measures the rest and prints a warning"
            ),
        ),
    };
    Verdict {
        tone,
        word: word.into(),
        text,
    }
}

fn short(document: &mut Document, report: &DoctorReport, max_settings: usize) {
    let absent = || {
        report
            .abilities
            .iter()
            .filter(|ability| ability.absence.is_some())
    };
    let mut lines = phrase::missing(absent().filter(|ability| ability.is_needed));
    let optional: Vec<&str> = absent()
        .filter(|ability| !ability.is_needed)
        .map(|ability| ability.name.as_str())
        .collect();
    if !optional.is_empty() {
        lines.push(format!(
            "Optional and not available: {}",
            optional.join(", ")
        ));
    }
    document.lines(lines);
    let settings = &report.caveats;
    document.heading(settings_title(report));
    let worst = settings.iter().take(max_settings);
    let list: Vec<String> = worst.map(setting).collect();
    if !list.is_empty() {
        document.push(Block::List(list));
    }
    let mut lines = Vec::new();
    match settings.len().saturating_sub(max_settings) {
        0 => {}
        1 => lines.push("1 more setting: `--all`".into()),
        more => lines.push(format!("{more} more settings: `--all`")),
    }
    lines.extend(phrase::audio(&report.audio));
    lines.push("Next: `laggard doctor --all`".into());
    document.lines(lines);
}

fn settings_title(report: &DoctorReport) -> String {
    match report.caveats.len() {
        0 => "No setting that hurts latency was found".into(),
        1 => "1 setting hurts latency".into(),
        count => format!("{count} settings hurt latency, the worst first"),
    }
}

fn full(document: &mut Document, report: &DoctorReport) {
    document.push(Block::Table(abilities(&report.abilities)));
    document.heading(settings_title(report));
    let settings = report.caveats.iter().map(|caveat| {
        let tried = report
            .proven
            .iter()
            .filter(|effect| effect.kind == caveat.kind);
        let tried: String = tried
            .map(|effect| format!(". {}", phrase::proven(effect)))
            .collect();
        format!("{}{tried}", setting(caveat))
    });
    let settings: Vec<String> = settings.collect();
    if !settings.is_empty() {
        document.push(Block::List(settings));
    }
    if !report.audio.is_empty() {
        document.heading("Prerequisites of audio programs, as rtcqs checks them");
        document.push(Block::Table(audio(report)));
    }
}

fn abilities(abilities: &[Ability]) -> Table {
    let mut table = Table::new([
        Column::name("ability"),
        Column::name("available"),
        Column::sentence("used for"),
    ])
    .keys(2);
    for ability in abilities {
        let status = match (&ability.absence, ability.is_needed) {
            (None, _) => Cell::Status(Tone::Plain, "yes".into()),
            (Some(_), true) => Cell::Status(Tone::Bad, "NO".into()),
            (Some(_), false) => Cell::Status(Tone::Open, "no".into()),
        };
        table.row([
            ability.name.as_str().into(),
            status,
            phrase::ability(ability).into(),
        ]);
    }
    table
}

/// States a setting that hurts latency, and the remedy.
fn setting(caveat: &Caveat) -> String {
    let advice = match Remedy::of_setting(caveat.kind) {
        Some(remedy) => remedy.label(&caveat.advice),
        None => caveat.advice.clone(),
    };
    format!("{}. Remedy: {advice}", caveat.what)
}

/// Describes one setting and its remedy.
pub fn remedy(caveat: &Caveat) -> Document {
    let mut document = Document::new("A setting that hurts latency");
    document.push(Block::List(vec![setting(caveat)]));
    document
}

fn audio(report: &DoctorReport) -> Table {
    let mut table = Table::new([
        Column::name("prerequisite"),
        Column::name("met"),
        Column::sentence("finding"),
    ])
    .keys(2);
    for row in &report.audio {
        let AudioRow { finding, effect } = row;
        let status = match finding.is_met {
            Some(true) => Cell::Status(Tone::Plain, "yes".into()),
            Some(false) => Cell::Status(Tone::Bad, "NO".into()),
            None => Cell::Status(Tone::Open, "unknown".into()),
        };
        let mut text = phrase::audio_finding(finding);
        if let Some(remedy) = phrase::audio_remedy(finding) {
            text += &format!(". Remedy: {remedy}");
            let recording = report.recording.as_deref();
            let effect = effect.as_ref().zip(recording);
            if let Some((effect, recording)) = effect {
                text += &format!(". {}", effect_text(effect, recording));
            }
        }
        table.row([finding.need.words().into(), status, text.into()]);
    }
    table
}

fn effect_text(effect: &EffectSeen, recording: &str) -> String {
    phrase::effect(effect, &code(recording))
}

#[cfg(test)]
mod tests {
    use laggard_answer::doctor::{DoctorFindings, UnknownEffect, doctor};
    use laggard_answer::proven::{ChangedSeries, ProvenEffect};
    use laggard_model::{
        Absence, AudioFinding, AudioNeed, AudioState, Backend, CaveatKind, CpuList, Host, Lacks,
        Nanos, Processor, Route, Service,
    };

    use super::*;
    use crate::doc;
    use crate::text::Look;

    const NAME: &str = "n\u{1b}[2J\nINJECTED\u{202e}";

    fn report() -> DoctorReport {
        let finding = |need, is_met: Option<bool>| AudioFinding {
            need,
            is_met,
            state: AudioState::FrequencyFollowsLoad {
                cpus: CpuList::default(),
                governor: NAME.into(),
            },
        };
        let ability = |name: &str, absence| Ability {
            name: name.into(),
            is_needed: false,
            absence,
        };
        let absence = Absence::new(NAME, NAME, Lacks::Kernel);
        let examined = DoctorFindings {
            host: Host {
                kernel: NAME.into(),
                processor: Processor {
                    model: "A processor of very many words ".repeat(4),
                    ..Processor::default()
                },
                ..Host::default()
            },
            cpus: CpuList::default(),
            method: None,
            abilities: vec![
                ability("steal clock", None),
                ability("episodes", Some(absence)),
            ],
            caveats: vec![Caveat::new(CaveatKind::OtherTracers, NAME, NAME)],
            audio: vec![
                finding(AudioNeed::SoundInterrupt, None),
                finding(AudioNeed::Governor, Some(true)),
                finding(AudioNeed::IdleStates, Some(false)),
            ],
            proven: Vec::new(),
        };
        doctor(examined, None).unwrap()
    }

    fn text(report: &DoctorReport, detail: Detail) -> String {
        doc::terminal(&document(report, detail), Look::default()).plain()
    }

    fn words(report: &DoctorReport) -> String {
        let text = text(report, Detail::Full);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_from_the_machine_have_no_line_of_their_own() {
        let mut report = report();
        report.recording = Some(NAME.into());
        for row in &mut report.audio {
            row.effect = Some(EffectSeen::Unknown {
                reason: UnknownEffect::OtherMachine { node: NAME.into() },
            });
        }

        for detail in [Detail::Short, Detail::Full] {
            let text = text(&report, detail);

            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
            assert!(!text.contains("\nINJECTED"), "{text:?}");
        }
    }

    #[test]
    fn effect_of_a_remedy_that_was_tried_follows_its_advice() {
        let mut report = report();
        report.caveats = [CaveatKind::Autogroup, CaveatKind::TimerMigration]
            .map(|kind| Caveat::new(kind, "it hurts latency", "set it"))
            .to_vec();
        report.proven = vec![ProvenEffect {
            kind: CaveatKind::Autogroup,
            setting: "kernel.sched_autogroup_enabled".into(),
            without: "1".into(),
            with: "0".into(),
            measured_on: "2026-11-20".into(),
            node: "here".into(),
            processor: String::new(),
            kernel: String::new(),
            build: String::new(),
            load: "no load".into(),
            changed: vec![ChangedSeries {
                service: Service::Fifo(90),
                route: Route::Direct,
                level_ns: Nanos::from_ms(1),
                ratio: Some(0.5),
                ratio_low: 0.25,
                ratio_high: Some(0.75),
            }],
            equal: vec![(Service::Other, Route::Direct)],
            equal_within: 1.25,
            without_ns: Nanos::from_secs(1_200),
            with_ns: Nanos::from_secs(1_200),
        }];

        let words = words(&report);

        let expected = "it hurts latency. Remedy: set it (untested). Measured here on 2026-11-20 (20 min without and 20 min with it, no load of laggard): with it SCHED_FIFO 90 is later than 1.00 ms 0.50 x as often (0.25 to 0.75); equal within a factor of 1.25: SCHED_OTHER - it hurts latency. Remedy: set it (untested)";
        assert!(words.contains(expected), "{words}");
    }

    #[test]
    fn every_line_fits_a_terminal() {
        for detail in [Detail::Short, Detail::Full] {
            let text = text(&report(), detail);

            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
            assert!(
                text.starts_with("OK  a full recording is possible\n"),
                "{text}"
            );
        }
    }

    #[test]
    fn effect_in_a_recording_has_its_size_and_only_if_a_prerequisite_is_not_met() {
        let mut report = report();
        report.recording = Some("r.laggard".into());
        for (row, effect) in report.audio.iter_mut().zip([
            EffectSeen::No { episodes: 65 },
            EffectSeen::No { episodes: 65 },
            EffectSeen::Yes {
                episodes: 65,
                largest_ns: Nanos::from_us(890),
                share: 0.031,
            },
        ]) {
            row.effect = Some(effect);
        }

        let text = words(&report);

        let effect =
            "In `r.laggard`: up to 890 us of a late wakeup, 3.1 % of the time of 65 late wakeups";
        assert!(text.contains(effect), "{text}");
        assert_eq!(text.matches("r.laggard").count(), 1, "{text}");
        report.audio[2].effect = Some(EffectSeen::No { episodes: 1 });
        let text = words(&report);
        assert!(
            text.contains("In `r.laggard`: in no late wakeup (1 analysed)"),
            "{text}"
        );
    }

    #[test]
    fn missing_rights_share_a_line_with_the_command_that_gives_all() {
        let mut report = report();
        let absent = |name: &str, reason: &str, remedy: &str| Ability {
            name: name.into(),
            is_needed: true,
            absence: Some(Absence::new(reason, remedy, Lacks::Rights)),
        };
        report.abilities = vec![
            absent(
                "chain",
                "may not load programs",
                "run as root, or `setcap all`",
            ),
            absent(
                "fifo:90",
                "no real-time",
                "run as root, or `setcap all`, or `ulimit -r`",
            ),
            absent("fifo:50", "its group lacks CPU time", "move the shell"),
            absent(
                "memory lock",
                "the limit is low",
                "run as root, or `ulimit -l`",
            ),
        ];
        report.missing = 4;

        let text = text(&report, Detail::Short);

        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "Missing: chain, fifo:90, memory lock: this user lacks rights; remedy: run as root, or `setcap all` ",
            "Missing: fifo:50: its group lacks CPU time; remedy: move the shell ",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        // Every reason is in the full report.
        let full = words(&report);
        assert!(full.contains("the limit is low"), "{full}");
    }

    #[test]
    fn method_is_named_with_the_reasons_against_the_better_ones() {
        let mut report = report();
        let absent = |name: &str, reason: &str| Ability {
            name: name.into(),
            is_needed: true,
            absence: Some(Absence::new(reason, "boot another kernel", Lacks::Kernel)),
        };
        report.abilities = vec![
            absent("BPF object chain", "no BTF"),
            absent("perf tracepoints", "no tracefs"),
        ];
        for (method, expected) in [
            (Backend::Bpf, "Method: BPF stamps every stage."),
            (
                Backend::Perf,
                "Method: perf tracepoints stamp the stages of threads, because BPF is not available (no BTF).",
            ),
            (
                Backend::User,
                "because neither BPF (no BTF) nor perf tracepoints (no tracefs) are available.",
            ),
        ] {
            report.method = Some(method);

            let words = words(&report);

            assert!(words.contains(expected), "{words}");
        }
    }

    #[test]
    fn abilities_with_the_same_reason_share_a_line() {
        let mut report = report();
        let absence = Absence::new(
            "this user may not load BPF programs",
            "run as root",
            Lacks::Kernel,
        );
        for ability in &mut report.abilities {
            ability.is_needed = true;
            ability.absence = Some(absence.clone());
        }
        report.missing = 2;

        let text = text(&report, Detail::Short);

        let expected = "Missing: steal clock, episodes: this user may not load BPF programs; remedy: run\n  as root\n";
        assert!(text.contains(expected), "{text}");
    }
}
