//! `laggard doctor` for the terminal.

use laggard_answer::doctor::{AudioRow, DoctorReport, EffectSeen};
use laggard_answer::proven::ProvenEffect;
use laggard_model::text::{Unit, count};
use laggard_model::{Ability, Caveat, Remedy, printable};

use super::Look;

/// The report as text.
pub fn doctor(report: &DoctorReport, look: Look) -> String {
    let mut text = filled(
        look,
        "",
        &format!(
            "{} on {}",
            report.host.system(),
            report.host.processor.model
        ),
    );
    text += "\nWhat can be measured\n";
    text.extend(report.abilities.iter().map(|one| ability(one, look)));
    text += &caveats(report, look);
    if !report.audio.is_empty() {
        text.push('\n');
        text += &filled(look, "", "What audio programs need, as rtcqs checks it");
        let asked = report.recording.as_deref();
        text.extend(report.audio.iter().map(|row| audio(row, asked, look)));
    }
    text.push('\n');
    let verdict = match report.missing {
        0 => "A full recording is possible.".into(),
        1 => "One ability is missing: `laggard record` measures the rest and says so.".into(),
        more => {
            format!("{more} abilities are missing: `laggard record` measures the rest and says so.")
        }
    };
    text + &filled(look, "", &verdict)
}

/// `text` behind `first`, as wide as a terminal; names in it are shown.
fn filled(look: Look, first: &str, text: &str) -> String {
    let rest = " ".repeat(first.chars().count());
    look.hanging(first, &rest, &printable(text).to_string())
}

fn ability(ability: &Ability, look: Look) -> String {
    let mark = match (&ability.absence, ability.is_needed) {
        (None, _) => "yes",
        (Some(_), true) => "NO ",
        (Some(_), false) => "no ",
    };
    let what = format!("{}: {}", ability.name, ability.gives);
    let mut text = filled(look, &format!("  {mark}  "), &what);
    if let Some(absence) = &ability.absence {
        text += &filled(look, "         ", &format!("because {}", absence.reason));
        text += &filled(look, "         ", &format!("remedy: {}", absence.remedy));
    }
    text
}

fn caveats(report: &DoctorReport, look: Look) -> String {
    if report.caveats.is_empty() {
        let none = "No setting was found that spoils latency.";
        return format!("\n{}", filled(look, "", none));
    }
    let mut text = String::from("\nWhat spoils latency here\n");
    for caveat in &report.caveats {
        text += &remedy(caveat, look);
        let here = report.proven.iter().filter(|one| one.kind == caveat.kind);
        text.extend(here.map(|one| proven(one, look)));
    }
    text
}

/// What a remedy did when it was tried here.
fn proven(one: &ProvenEffect, look: Look) -> String {
    let ProvenEffect {
        measured_on,
        effect,
        measured_by,
        ..
    } = one;
    let words = format!("measured here on {measured_on} ({measured_by}): {effect}");
    filled(look, "    ", &words)
}

/// What spoils latency, and what to do about it.
pub fn remedy(caveat: &Caveat, look: Look) -> String {
    let advice = match Remedy::of_setting(caveat.kind) {
        Some(remedy) => remedy.label(&caveat.advice),
        None => caveat.advice.clone(),
    };
    filled(look, "  - ", &caveat.what) + &filled(look, "    ", &format!("remedy: {advice}"))
}

/// A need, what to do about it, and whether the recording that was asked saw
/// what it is about.
fn audio(row: &AudioRow, asked: Option<&str>, look: Look) -> String {
    let found = &row.finding;
    let (mark, cannot) = match found.is_met {
        Some(true) => ("met  ", ""),
        Some(false) => ("UNMET", ""),
        None => ("?    ", "cannot tell here: "),
    };
    let what = format!("{}: {cannot}{}", found.need.words(), found.what);
    let mut text = filled(look, &format!("  {mark}  "), &what);
    let Some(advice) = &found.advice else {
        return text;
    };
    text += &filled(look, "         ", &format!("remedy: {advice}"));
    if let (Some(effect), Some(recording)) = (&row.effect, asked) {
        text += &filled(look, "         ", &seen(effect, recording));
    }
    text
}

fn seen(effect: &EffectSeen, recording: &str) -> String {
    let late = |episodes: usize| match episodes {
        1 => "its late activation".into(),
        more => format!("its {} late activations", count(more as u64)),
    };
    match effect {
        EffectSeen::Yes {
            episodes,
            largest_ns,
            share,
        } => format!(
            "seen in {recording}: up to {} of one, {} of the time of {}",
            Unit::Auto.write_nanos(*largest_ns),
            match share * 100.0 {
                0.1.. => format!("{:.1} %", share * 100.0),
                _ => "less than 0.1 %".into(),
            },
            late(*episodes)
        ),
        EffectSeen::No { episodes } => {
            format!("not seen in {recording}, in {}", late(*episodes))
        }
        EffectSeen::Unknown { why } => format!("{recording} cannot tell: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use laggard_answer::doctor::{Examined, doctor as answer};
    use laggard_model::{
        Absence, AudioFinding, AudioNeed, CaveatKind, CpuList, Host, Lacks, Nanos, Processor,
    };

    use super::*;

    const NAME: &str = "n\u{1b}[2J\nINJECTED\u{202e}";

    fn report() -> DoctorReport {
        let found = |need, is_met: Option<bool>| AudioFinding {
            need,
            is_met,
            what: "no sound card".into(),
            advice: (is_met == Some(false)).then(|| NAME.into()),
        };
        let ability = |name: &str, absence| Ability {
            name: name.into(),
            gives: "evidence".into(),
            is_needed: false,
            absence,
        };
        let refused = Absence {
            reason: NAME.into(),
            remedy: NAME.into(),
            lacks: Lacks::Kernel,
        };
        let examined = Examined {
            host: Host {
                kernel: NAME.into(),
                processor: Processor {
                    model: "A processor of very many words ".repeat(4),
                    ..Processor::default()
                },
                ..Host::default()
            },
            cpus: CpuList::default(),
            abilities: vec![
                ability("steal clock", None),
                ability("episodes", Some(refused)),
            ],
            caveats: vec![Caveat::new(CaveatKind::OtherTracers, NAME, NAME)],
            audio: vec![
                found(AudioNeed::SoundInterrupt, None),
                found(AudioNeed::Governor, Some(true)),
                found(AudioNeed::IdleStates, Some(false)),
            ],
            proven: Vec::new(),
        };
        answer(examined, None).unwrap()
    }

    #[test]
    fn names_from_elsewhere_have_no_line_of_their_own() {
        let mut report = report();
        report.recording = Some(NAME.into());
        for row in &mut report.audio {
            row.effect = Some(EffectSeen::Unknown { why: NAME.into() });
        }

        let text = doctor(&report, Look::default());

        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        assert!(!text.contains("\nINJECTED"), "{text:?}");
        assert_eq!(text.matches("n\\x1b[2J\\nINJECTED\\u{202e}").count(), 8);
    }

    #[test]
    fn what_a_remedy_did_here_is_beside_its_advice() {
        let mut report = report();
        let advice = |setting: &str| format!("set {setting}");
        report.caveats = [CaveatKind::Autogroup, CaveatKind::TimerMigration]
            .map(|kind| Caveat::new(kind, "it spoils latency", advice("it")))
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
            load: "none".into(),
            effect: NAME.into(),
            measured_by: "20 min without and 20 min with it, no load of ours".into(),
        }];

        let text = doctor(&report, Look::default());

        let expected = "    remedy: set it (untested)\n    measured here on 2026-11-20 (20 min without and 20 min with it, no load of\n    ours): n\\x1b[2J\\nINJECTED\\u{202e}\n  - it spoils latency\n    remedy: set it (untested)\n\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn every_line_fits_a_terminal() {
        let text = doctor(&report(), Look::default());

        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(
            text.contains(
                "\n  ?      interrupt of the sound card: cannot tell here: no sound card\n"
            ),
            "{text}"
        );
        assert!(text.ends_with("A full recording is possible.\n"), "{text}");
    }

    #[test]
    fn an_effect_is_told_of_what_is_not_met_alone_with_its_size() {
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

        let text = doctor(&report, Look::default()).replace("\n         ", " ");

        let told =
            "seen in r.laggard: up to 890 us of one, 3.1 % of the time of its 65 late activations";
        assert!(text.contains(told), "{text}");
        assert_eq!(text.matches("r.laggard").count(), 1, "{text}");
        report.audio[2].effect = Some(EffectSeen::No { episodes: 1 });
        let text = doctor(&report, Look::default());
        assert!(
            text.contains("not seen in r.laggard, in its late activation"),
            "{text}"
        );
    }
}
