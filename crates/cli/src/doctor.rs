//! `laggard doctor`: what can be measured here, and what spoils latency.

use std::fmt::Write as _;

use laggard_measure::host::{self, Files};
use laggard_measure::linux::{self, Ability};
use laggard_model::{Caveat, Service, printable};

use crate::args::DoctorArgs;
use crate::exit::Exit;
use crate::pipe;

pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<Exit> {
    let cpus = args.cpus.clone().unwrap_or_else(linux::allowed_cpus);
    let tracers = linux::other_tracers();
    let abilities = linux::abilities(&Service::DEFAULTS);
    let files = Files::default();
    let host = host::identify(&files);
    let mut caveats = host::caveats(&host, &linux::own_rights(), &cpus, &Service::DEFAULTS);
    caveats.extend(linux::inherited());
    caveats.extend(tracers);
    let mut text = format!(
        "Linux {} on {}\n\n",
        printable(&host.kernel),
        printable(&host.processor.model)
    );
    text += "What can be measured\n";
    for ability in &abilities {
        write_ability(&mut text, ability)?;
    }
    write_caveats(&mut text, &caveats)?;
    let missing = abilities
        .iter()
        .filter(|one| one.is_needed && one.absence.is_some())
        .count();
    let verdict = match missing {
        0 => "A full recording is possible.".into(),
        1 => "One ability is missing: `laggard record` measures the rest and says so.".into(),
        more => {
            format!("{more} abilities are missing: `laggard record` measures the rest and says so.")
        }
    };
    writeln!(text, "\n{verdict}")?;
    pipe::print(&text)?;
    Ok(if missing == 0 { Exit::Ok } else { Exit::Unmet })
}

fn write_ability(text: &mut String, ability: &Ability) -> std::fmt::Result {
    let name = &ability.name;
    match &ability.absence {
        None => writeln!(text, "  yes  {name}: {}", ability.gives),
        Some(absence) => {
            let mark = if ability.is_needed { "NO " } else { "no " };
            writeln!(text, "  {mark}  {name}: {}", ability.gives)?;
            writeln!(text, "         because {}", printable(&absence.reason))?;
            writeln!(text, "         remedy: {}", printable(&absence.remedy))
        }
    }
}

fn write_caveats(text: &mut String, caveats: &[Caveat]) -> std::fmt::Result {
    if caveats.is_empty() {
        return writeln!(text, "\nNo setting was found that spoils latency.");
    }
    writeln!(text, "\nWhat spoils latency here")?;
    for caveat in caveats {
        writeln!(text, "  - {}", printable(&caveat.what))?;
        writeln!(text, "    remedy: {}", printable(&caveat.advice))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use laggard_measure::linux::Absence;
    use laggard_model::CaveatKind;

    use super::*;

    #[test]
    fn names_in_reasons_and_caveats_have_no_line_of_their_own() {
        let name = "n\u{1b}[2J\nINJECTED\u{202e}";
        let ability = Ability {
            name: "episodes".into(),
            gives: "evidence",
            is_needed: false,
            absence: Some(Absence {
                reason: name.into(),
                remedy: name.into(),
            }),
        };
        let mut text = String::new();

        write_ability(&mut text, &ability).unwrap();
        let caveat = Caveat::new(CaveatKind::OtherTracers, name, name);
        write_caveats(&mut text, &[caveat]).unwrap();

        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        assert!(!text.contains("\nINJECTED"), "{text:?}");
        assert_eq!(text.matches("n\\x1b[2J\\nINJECTED\\u{202e}").count(), 4);
    }
}
