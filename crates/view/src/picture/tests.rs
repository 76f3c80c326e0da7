use laggard_analyze::distribution::{Fold, Split};
use laggard_answer::show::{Measured, recording};
use laggard_answer::switch::{SwitchRow, SwitchSeries, SwitchTimes};
use laggard_model::{
    Activation, Backend, Batch, Clock, Cpu, HandOver, Host, Line, LineId, Losses, Manifest, Nanos,
    ProbePlan, Route, STAGES, Service, Stage, State, SwitchPolicy, SwitchWay,
};

use super::*;

const STYLE: Style = Style {
    width: 960,
    height: 600,
    dark: false,
};

fn report(latencies_us: &[u64]) -> RecordingReport {
    let lines = vec![Line::new(Cpu(0), Service::Fifo(90), Route::Direct)];
    let mut batch = Batch::default();
    for (seq, &us) in (0..).zip(latencies_us) {
        let mut steps = [None; STAGES.len()];
        steps[Stage::User.index()] = Some(Nanos::from_us(us));
        batch.push(&Activation::new(LineId(0), seq, Nanos::from_ms(seq), steps));
    }
    let mut fold = Fold::new(1, Split::Whole);
    fold.add(&batch);
    let measured = Measured {
        path: "<hostile> & \"quoted\".laggard".into(),
        manifest: manifest(lines),
        shortfalls: Vec::new(),
        fold,
        last: None,
    };
    recording(measured, false)
}

fn manifest(lines: Vec<Line>) -> Manifest {
    let clock = Clock {
        end_ns: Some(Nanos::from_secs(1)),
        ..Clock::monotonic(Nanos::ZERO, "2026-01-01T00:00:00Z")
    };
    Manifest {
        state: State::Complete,
        losses: Losses {
            ring_full: 7,
            ..Losses::default()
        },
        ..Manifest::new(Backend::User, ProbePlan::default(), clock, lines)
    }
}

fn distribution(reports: &[RecordingReport]) -> Picture<'_> {
    Picture::Distribution {
        reports,
        shape: Shape::Counts,
    }
}

/// A bump of 100 samples at 20 ms, and fewer than one in 100 samples beyond the axis.
#[test]
fn linear_axes_end_at_the_p99() {
    let mut us: Vec<u64> = vec![1_000; 9_800];
    us.extend([20_000; 100]);
    us.extend([900_000; 99]);
    let reports = [report(&us)];

    let text = svg(
        Picture::Distribution {
            reports: &reports,
            shape: Shape::LinearCounts,
        },
        STYLE,
    )
    .unwrap();

    assert!(text.contains("20.0 ms") || text.contains("20 ms"), "{text}");
    assert!(
        !text.contains("900 ms") && !text.contains("100 ms"),
        "{text}"
    );
    assert!(text.contains("Both scales are linear"), "{text}");
}

#[test]
fn an_svg_has_the_size_asked_for_and_names_what_it_shows() {
    let reports = [report(&[10, 12, 15, 900])];

    let text = svg(distribution(&reports), STYLE).unwrap();

    assert!(
        text.starts_with("<svg width=\"960\" height=\"600\""),
        "{}",
        &text[..80]
    );
    assert!(text.contains("viewBox=\"0 0 3840 2400\""));
    for words in [
        "wakeups per latency",
        "SCHED_FIFO 90 (4)",
        "7 samples lost",
        "100 us",
    ] {
        assert!(text.contains(words), "{words}");
    }
}

/// Names next to curves that meet would overlap. The names of a legend have the colour of text.
#[test]
fn figures_have_a_legend() {
    for curves in [1, 2, 3] {
        let reports = vec![report(&[10, 12, 15]); curves];
        let text = svg(distribution(&reports), STYLE).unwrap();
        let name = text.split("<text").find(|part| part.contains("(3)"));
        let ink = text
            .split("<text")
            .find(|part| part.contains("wakeups per latency"));
        let fill = |part: &str| part.split("fill=").nth(1).map(|rest| rest[..10].to_owned());

        assert_eq!(fill(name.unwrap()), fill(ink.unwrap()), "{curves} curves");
    }
}

#[test]
fn captions_are_broken_into_lines_and_not_cut() {
    let reports = [report(&[10, 12, 15])];
    let style = Style {
        width: 400,
        ..STYLE
    };

    let text = svg(distribution(&reports), style).unwrap();

    assert!(text.contains("waiting."), "{text}");
    assert!(!text.contains('…'), "{text}");
}

#[test]
fn text_from_a_recording_cannot_break_out_of_an_svg() {
    let reports = [report(&[10, 12])];

    let text = svg(distribution(&reports), STYLE).unwrap();

    assert!(!text.contains("<hostile>"));
    assert!(text.contains("&lt;hostile&gt;"));
}

#[test]
fn a_png_has_twice_the_pixels_and_is_not_of_one_colour() {
    let reports = [report(&[10, 12, 15, 900])];

    let file = png(distribution(&reports), STYLE).unwrap();

    let decoder = png::Decoder::new(std::io::Cursor::new(file));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (1920, 1200));
    let ground = &pixels[..3];
    let drawn = pixels.chunks(3).filter(|pixel| *pixel != ground).count();
    assert!(drawn > 5_000, "{drawn} pixels");
}

#[test]
fn a_dark_picture_differs_in_its_ground() {
    let reports = [report(&[10, 12])];
    let dark = Style {
        dark: true,
        ..STYLE
    };

    let (light, dark) = (
        svg(distribution(&reports), STYLE).unwrap(),
        svg(distribution(&reports), dark).unwrap(),
    );

    assert!(
        light.contains("#FFFFFF") && dark.contains("#181B1F"),
        "{}",
        &dark[..400]
    );
}

#[test]
fn a_recording_without_samples_is_an_error_and_no_empty_picture() {
    let err = svg(distribution(&[report(&[])]), STYLE).unwrap_err();

    assert!(matches!(err, PictureError::Nothing(_)), "{err}");
}

fn switches(rows: &[(usize, f64)]) -> SwitchReport {
    let way = SwitchWay::new(HandOver::Yield, SwitchPolicy::Fifo(80));
    let row = |&(threads, mean_ns): &(usize, f64)| SwitchRow {
        threads,
        way,
        count: 20_000,
        counted_by_kernel: 20_000,
        left_out: 0,
        unkept: 0,
        alone_ns: None,
        gross: Some(SwitchTimes {
            min_ns: mean_ns / 2.0,
            mean_ns,
            median_ns: mean_ns,
            p999_ns: Some(mean_ns * 8.0),
            max_ns: mean_ns * 90.0,
        }),
        net: None,
        activity: None,
        untraced_median_ns: None,
        absence: None,
    };
    SwitchReport {
        schema: 1,
        host: Host::default(),
        cpu: Cpu(1),
        other_cpu: None,
        load: Some("<hostile> & load".into()),
        rows: rows.iter().map(row).collect(),
        growth: Vec::new(),
        series: None,
        is_complete: true,
        net_absence: None,
        warnings: Vec::new(),
    }
}

/// Each circle's height in its picture, from above.
fn heights(picture: &str) -> Vec<i64> {
    let circles = picture.split("<circle").skip(1);
    let height = |circle: &str| {
        let rest = circle.split("cy=\"").nth(1)?;
        rest.split('"').next()?.parse().ok()
    };
    circles.filter_map(height).collect()
}

#[test]
fn longer_context_switches_are_drawn_higher() {
    let picture = svg(
        Picture::Growth {
            report: &switches(&[(2, 700.0), (10, 900.0), (128, 4_000.0)]),
        },
        STYLE,
    );

    let picture = picture.unwrap();
    let heights = heights(&picture);
    // The means, then the largest.
    assert_eq!(heights.len(), 6, "{picture}");
    assert!(
        heights[0] > heights[1] && heights[1] > heights[2],
        "{heights:?}"
    );
    assert!(
        (0..3).all(|index| heights[index] > heights[index + 3]),
        "{heights:?}"
    );
    assert!(picture.contains("&lt;hostile&gt; &amp; load"), "{picture}");
    assert!(picture.contains("128"), "{picture}");
}

#[test]
fn one_number_of_threads_shows_no_growth() {
    let err = svg(
        Picture::Growth {
            report: &switches(&[(2, 700.0)]),
        },
        STYLE,
    )
    .unwrap_err();

    assert!(
        err.to_string()
            .contains("no mechanism was measured with two numbers"),
        "{err}"
    );
}

#[test]
fn every_context_switch_of_a_series_is_drawn_with_the_median() {
    let mut report = switches(&[(10, 700.0)]);
    report.series = Some(SwitchSeries {
        threads: 10,
        way: report.rows[0].way,
        took_ns: vec![700, 800, 90_000, 0, 750],
    });

    let picture = svg(Picture::Series { report: &report }, STYLE).unwrap();

    let heights = heights(&picture);
    assert_eq!(heights.len(), 5, "{picture}");
    assert_eq!(heights.iter().min(), Some(&heights[2]), "{heights:?}");
    assert!(picture.contains("Median: 750 ns."), "{picture}");
    assert!(
        picture.contains("5 context switches among 10 threads"),
        "{picture}"
    );
    report.series = None;
    let err = svg(Picture::Series { report: &report }, STYLE).unwrap_err();
    assert!(
        err.to_string().contains("no context switch was measured"),
        "{err}"
    );
}
