//! Names come from elsewhere: whatever they hold, no view passes on a control
//! character but its own new lines, and every drawing is well-formed.

use std::collections::BTreeMap;

use laggard_answer::Shortfall;
use laggard_answer::overview::{Overview, OverviewInput, overview};
use laggard_answer::show::RecordingReport;
use laggard_answer::why::{Explained, RecordedEpisodes, handlers};
use laggard_made::{Made, late, line};
use laggard_model::{
    Address, Caveat, CaveatKind, Episode, EpisodeNotes, Happening, LoadRun, Service, Stage, State,
    Symbol, Symbols,
};
use laggard_view::doc::{Detail, terminal};
use laggard_view::picture::{Picture, Shape, Style, svg};
use laggard_view::show::{document, side_by_side};
use laggard_view::text::Look;
use laggard_view::{flame, markdown, perfetto, why};
use proptest::prelude::*;

const STYLE: Style = Style {
    width: 960,
    height: 600,
    dark: false,
};

/// Escape sequences, new lines, marks of direction, markup, and anything.
fn name() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        prop::char::range('\0', '\u{9f}'),
        prop::sample::select(vec![
            '\u{1b}', '\n', '\r', '\u{9b}', '|', '`', '<', '>', '&', ';'
        ]),
        prop::char::range('\u{200b}', '\u{206f}'),
        prop::sample::select(vec!['\u{feff}', '\u{fffe}', '\u{ffff}', 'a', ' ']),
        any::<char>(),
    ];
    prop::collection::vec(letter, 1..16).prop_map(|letters| letters.into_iter().collect())
}

/// A late activation that a thread of this name made late.
fn episode(thread: &str) -> Episode {
    let mut late = late::episode(1);
    for event in &mut late.evidence.events {
        if let Happening::Switch { name, .. } = &mut event.what
            && name == "hog"
        {
            *name = thread.into();
        }
    }
    for sample in &mut late.evidence.samples {
        sample.kernel = vec![Address(8)];
    }
    late
}

/// All code that is in it has this name.
fn notes(symbol: &str) -> EpisodeNotes {
    let named = Symbol {
        name: Some(symbol.into()),
        module: Some(symbol.into()),
        unknown: None,
    };
    EpisodeNotes {
        symbols: Symbols {
            kernel: BTreeMap::from([(Address(8), named.clone())]),
            user: [(95, BTreeMap::from([(Address(16), named)]))].into(),
            interrupts: [(21, symbol.into())].into(),
            ..Symbols::default()
        },
        handlers: Some(late::handlers()),
        ..late::notes()
    }
}

/// A recording whose every foreign string is `name`.
fn recording(name: &str) -> Made {
    let mut made = Made::new(&[line(Service::Fifo(90), 1)]).served(
        0,
        2_000,
        &[(Stage::Irq, 9_000), (Stage::User, 7_000)],
    );
    let manifest = &mut made.manifest;
    manifest.state = State::Failed { error: name.into() };
    manifest.host.node = name.into();
    manifest.host.kernel = name.into();
    manifest.host.processor.model = name.into();
    manifest.host.preemption = Some(name.into());
    manifest.host.hypervisor = Some(name.into());
    manifest.clock.start_wall = name.into();
    manifest.load = Some(LoadRun {
        name: name.into(),
        command: vec![name.into()],
        ended: Some(name.into()),
        ..LoadRun::default()
    });
    let caveat = Caveat::new(CaveatKind::AbilityAbsent, name, name);
    manifest.caveats.push(caveat);
    made
}

fn is_clean(view: &str) -> bool {
    view.chars().all(|symbol| {
        let is_mark = matches!(symbol, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        symbol == '\n' || !(symbol.is_control() || is_mark)
    })
}

fn is_well_formed(svg: &str) -> bool {
    let mut reader = quick_xml::Reader::from_str(svg);
    let is_allowed = |symbol: char| !matches!(symbol, '\u{fffe}' | '\u{ffff}');
    let mut depth = 0_i64;
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Eof) => break,
            Ok(quick_xml::events::Event::Start(_)) => depth += 1,
            Ok(quick_xml::events::Event::End(_)) => depth -= 1,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    depth == 0 && svg.chars().all(is_allowed)
}

fn answered(report: &RecordingReport) -> Overview {
    overview(&OverviewInput {
        report,
        late: None,
        load: None,
        application: None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_view_of_a_recording_passes_a_name_on_as_it_is(name in name()) {
        let report = recording(&name).report();
        let plain = recording("plain").report();
        let lines = |text: &str| text.lines().count();
        let wide = Look { columns: 100_000, ..Look::default() };
        let shown = terminal(&document(&report, Detail::Full), wide).plain();
        prop_assert!(is_clean(&shown), "{shown:?}");
        // A line break in a name does not start a line.
        let other = terminal(&document(&plain, Detail::Full), wide).plain();
        prop_assert_eq!(lines(&shown), lines(&other));
        let reports = [report, plain];
        let overviews = reports.each_ref().map(answered);
        for view in [markdown(&reports, &overviews), terminal(&side_by_side(&reports), Look::default()).plain()] {
            prop_assert!(is_clean(&view), "{view:?}");
        }
        let picture = Picture::Distribution { reports: &reports, shape: Shape::Counts };
        let drawn = svg(picture, STYLE).unwrap();
        prop_assert!(is_clean(&drawn) && is_well_formed(&drawn), "{drawn:?}");
    }

    #[test]
    fn no_view_of_late_activations_passes_a_name_on_as_it_is(name in name()) {
        let made = recording(&name);
        let late = RecordedEpisodes {
            path: name.clone(),
            manifest: made.manifest,
            episodes: vec![episode(&name)],
            notes: notes(&name),
            latest: Vec::new(),
            samples_end: None,
            missing: 0,
            shortfalls: vec![Shortfall::Damaged {
                file: name.clone(),
                reason: name.clone(),
            }],
        };
        let explained = Explained::new(&late, None);
        let symbols = explained.symbols();
        let report = explained.why(3);
        let start = late.manifest.clock.start_ns;
        for shown in [
            why::document(&report, Detail::Short),
            why::document(&report, Detail::Full),
            why::episode(&explained.episodes[0], symbols, start, Detail::Full),
            why::handlers(&handlers(&late).unwrap(), 8),
        ] {
            let view = terminal(&shown, Look::default()).plain();
            prop_assert!(is_clean(&view), "{view:?}");
        }
        let drawn = flame(&explained).unwrap();
        // inferno indents its script with tabs.
        let without_tabs = drawn.replace('\t', " ");
        prop_assert!(is_clean(&without_tabs) && is_well_formed(&drawn), "{drawn:?}");
        let trace = perfetto(&explained);
        // A control character is also a number's byte; a mark's are not.
        for mark in ["\u{202e}", "\u{2066}", "\u{200f}"] {
            prop_assert!(!trace.windows(mark.len()).any(|bytes| bytes == mark.as_bytes()));
        }
    }
}
