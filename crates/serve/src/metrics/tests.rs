//! Counts match the events, and the number of series is limited.

use laggard_answer::live::LatePart;
use laggard_model::{
    Activation, Backend, CauseClass, Clock, Histogram as Counted, LineId, LossReason, NamedCause,
    ProbePlan, Route, STAGES, Service, Stage,
};
use prometheus_client::encoding::prometheus_protobuf::encode;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model as model;

use super::super::culprits::MAX_NAMED;
use super::*;

const LINE: Line = Line::new(Cpu(3), Service::Fifo(90), Route::Direct);

fn begun() -> Metrics {
    let mut metrics = Metrics::new(true, None);
    begin(&mut metrics);
    metrics
}

fn begin(metrics: &mut Metrics) {
    let clock = Clock::monotonic(Nanos::ZERO, "then");
    let manifest = Manifest::new(Backend::Bpf, ProbePlan::default(), clock, vec![LINE]);
    metrics.begin(&manifest);
}

fn activation(seq: u64, irq: Nanos, user: Nanos, missed: bool) -> Activation {
    let mut steps = [None; STAGES.len()];
    steps[Stage::Irq.index()] = Some(irq);
    steps[Stage::User.index()] = Some(user);
    Activation {
        line: LineId(0),
        seq,
        expiry: Nanos::from_ms(seq),
        missed,
        censored: false,
        steps,
    }
}

fn late(class: CauseClass, who: &str) -> LateActivation {
    LateActivation {
        at: Nanos::ZERO,
        line: LINE,
        name: "fifo:90".into(),
        cpu: LINE.cpu,
        latency: Nanos::from_ms(1),
        censored: false,
        stages: Vec::new(),
        number: None,
        causes: vec![LatePart {
            time: Nanos::from_ms(1),
            cause: NamedCause::new(class, Some(who)),
            without_place: NamedCause::new(class, Some(who)),
        }],
    }
}

fn text(metrics: &Metrics) -> String {
    as_text(&metrics.registry()).unwrap()
}

/// Returns the value of the only series whose text starts with `begin`.
fn value(text: &str, begin: &str) -> f64 {
    let matches: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with(begin))
        .collect();
    let [line] = matches[..] else {
        panic!("{begin} is there {} times:\n{text}", matches.len())
    };
    let value = line[begin.len()..].split_whitespace().next();
    value.unwrap().parse().unwrap()
}

/// Returns the native buckets of the histogram of this family and service, by index.
fn native(metrics: &Metrics, family: &str, service: &str) -> Vec<(i32, i64)> {
    let families = encode(&metrics.registry()).unwrap();
    let family = families
        .iter()
        .find(|candidate| candidate.name == family)
        .unwrap();
    let of_service =
        |metric: &&model::Metric| metric.label.iter().any(|label| label.value == service);
    let metric = family.metric.iter().find(of_service).unwrap();
    let histogram = metric.histogram.as_ref().unwrap();
    assert_eq!(histogram.schema, i32::from(SCHEMA));
    let (mut index, mut count) = (0, 0);
    let mut deltas = histogram.positive_delta.iter();
    let mut buckets = Vec::new();
    for span in &histogram.positive_span {
        index += span.offset;
        for _ in 0..span.length {
            count += deltas.next().unwrap();
            buckets.push((index, count));
            index += 1;
        }
    }
    buckets.retain(|(_, count)| *count > 0);
    buckets
}

#[test]
fn classic_and_native_buckets_count_every_wakeup() {
    let mut metrics = begun();
    let mut batch = Batch::default();
    let mut counted = Counted::default();
    for seq in 0..1_000 {
        let activation_at = activation(
            seq,
            Nanos::from_us(3),
            Nanos::from_us(7 + seq * seq),
            seq % 10 == 9,
        );
        counted.add(activation_at.latency());
        batch.push(&activation_at);
    }

    metrics.count(&batch);

    let text = text(&metrics);
    let value_of =
        |what: &str| format!("laggard_{what}{{service=\"fifo:90\",route=\"direct\",cpu=\"3\"}} ");
    assert_eq!(value(&text, &value_of("latency_seconds_count")), 1_000.0);
    assert_eq!(value(&text, &value_of("missed_activations_total")), 100.0);
    let largest = counted.max().unwrap().as_secs_f64();
    assert_eq!(value(&text, &value_of("largest_latency_seconds")), largest);
    let sum = value(&text, &value_of("latency_seconds_sum"));
    assert!(
        (sum * 1e9 - counted.sum_ns() as f64).abs() < 1_000.0,
        "{sum}"
    );
    // An edge belongs to the bucket below it, in both kinds of bucket: 10 us is an edge.
    let below = |ns| {
        (0..1_000)
            .filter(|seq| 10_000 + seq * seq * 1_000 <= ns)
            .count() as f64
    };
    for (edge, ns) in [
        ("0.00001", 10_000),
        ("0.001", 1_000_000),
        ("0.1", 100_000_000),
    ] {
        let name = format!("laggard_latency_seconds_bucket{{le=\"{edge}\",service=\"fifo:90\"");
        let begin = format!("{name},route=\"direct\",cpu=\"3\"}} ");
        assert_eq!(value(&text, &begin), below(ns), "up to {edge} s");
    }
    // Missed expiries do not have an interrupt.
    let irqs = "laggard_latency_seconds_count{service=\"irq\",route=\"direct\",cpu=\"3\"} ";
    assert_eq!(value(&text, irqs), 900.0);
    let native = native(&metrics, "laggard_latency_seconds", "fifo:90");
    assert_eq!(native.iter().map(|(_, count)| count).sum::<i64>(), 1_000);
    for (index, _) in native {
        let edge = 2f64.powf(f64::from(index) / 64.0);
        let has = (0..1_000u64).any(|seq| {
            let latency = (10_000 + seq * seq * 1_000) as f64 / 1e9;
            latency <= edge * 1.000_001 && latency > edge / 2f64.powf(1.0 / 64.0) * 0.999_999
        });
        assert!(has, "nothing is in the bucket up to {edge} s");
    }
}

#[test]
fn ten_thousand_short_lived_culprits_are_counted_in_few_series() {
    let mut metrics = begun();

    for number in 0..10_000 {
        let class = CauseClass::ALL[number % CauseClass::ALL.len()];
        // Each name occurs often enough to get a series, as a hostile user could cause.
        for _ in 0..4 {
            metrics.count_late(&late(class, &format!("job-{number}")), 1);
        }
    }

    let text = text(&metrics);
    let series: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("culprit="))
        .collect();
    // Each name has a count and a time; each class has `other`.
    let most = 2 * (MAX_NAMED + CauseClass::ALL.len());
    assert!(series.len() <= most, "{} series", series.len());
    let episodes = series
        .iter()
        .filter(|line| line.starts_with("laggard_episodes_total"));
    let number = |line: &&str| {
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    assert_eq!(episodes.map(number).sum::<f64>(), 40_000.0);
}

#[test]
fn late_culprit_with_the_most_time_replaces_the_smallest() {
    let mut metrics = begun();
    let class = CauseClass::HigherPriority;
    for number in 0..MAX_NAMED {
        for _ in 0..3 {
            metrics.count_late(&late(class, &format!("early-{number}")), 1);
        }
    }

    for _ in 0..4 {
        let mut worst = late(class, "worst");
        worst.causes[0].time = Nanos::from_ms(50);
        metrics.count_late(&worst, 1);
    }

    let text = text(&metrics);
    let value_of = |what: &str, who: &str| {
        let labels = format!("{{class=\"higher_priority\",culprit=\"{who}\"}} ");
        value(&text, &format!("laggard_{what}_total{labels}"))
    };
    assert_eq!(value_of("episodes", "worst"), 2.0);
    assert_eq!(value_of("episode_causes_seconds", "worst"), 0.1);
    // Two episodes of each early name, and two of the worst.
    assert_eq!(value_of("episodes", OTHER), 2.0 * (MAX_NAMED as f64 + 1.0));
    assert!(!text.contains("culprit=\"early-0\""), "{text}");
    let names = text
        .lines()
        .filter(|line| line.contains("_episodes_total{"));
    assert_eq!(names.count(), MAX_NAMED + 1, "and `other`");
}

#[test]
fn silent_line_differs_from_a_late_one() {
    let mut metrics = begun();
    let begin = Instant::now();
    let minute = Duration::from_secs(60);
    let silent = |metrics: &Metrics| metrics.most_silent(begin + minute).unwrap();
    let before = silent(&metrics);
    std::thread::sleep(Duration::from_millis(20));
    let mut batch = Batch::default();
    batch.push(&activation(1, Nanos::from_us(3), Nanos::from_us(9), true));

    metrics.count(&batch);

    let after = silent(&metrics);
    assert_eq!((before.0, after.0), (LINE, LINE));
    assert!(before.1 >= minute, "{before:?}");
    assert!(after.1 < before.1, "{before:?} {after:?}");
}

#[test]
fn hostile_name_is_one_label_value_on_one_line() {
    let mut metrics = begun();
    let class = CauseClass::HigherPriority;
    for _ in 0..3 {
        metrics.count_late(&late(class, "a\"} 1\nlaggard_trusted 1\n\\"), 1);
    }

    let text = text(&metrics);

    // The newline is shown as `\n`, and a label escapes the backslash of that.
    let series = r#"laggard_episodes_total{class="higher_priority",culprit="a\"} 1\\nlaggard_trusted 1\\n\\"} "#;
    assert_eq!(value(&text, series), 1.0);
    assert!(!text.contains("\nlaggard_trusted 1\n"), "{text}");
}

#[test]
fn counters_continue_in_the_next_piece() {
    let mut metrics = begun();
    let mut losses = Losses::default();
    losses.add(LossReason::RingFull, 3);
    let cost = OwnCost {
        wall_ns: Nanos::from_secs(10),
        measuring_cpu_ns: Nanos::from_ms(500),
        ..OwnCost::default()
    };

    // Read twice in a piece, and in two pieces.
    metrics.note_losses(losses);
    metrics.note_losses(losses);
    metrics.note_cost(&cost);
    metrics.note_cost(&cost);
    begin(&mut metrics);
    metrics.note_losses(losses);
    metrics.note_cost(&cost);

    let text = text(&metrics);
    assert_eq!(
        value(&text, "laggard_losses_total{reason=\"ring_full\"} "),
        6.0
    );
    assert_eq!(value(&text, "laggard_lost_activations_total "), 6.0);
    assert_eq!(value(&text, "laggard_measured_seconds_total "), 20.0);
    assert_eq!(
        value(&text, "laggard_own_cpu_seconds_total{part=\"measuring\"} "),
        1.0
    );
    assert_eq!(
        value(&text, "laggard_losses_total{reason=\"stopped\"} "),
        0.0
    );
}

/// CPU time at the start and end of a piece was missing: 0.19 s of 1.76 s were reported.
#[test]
fn cpu_time_outside_of_measuring_is_counted_once() {
    let ms = Nanos::from_ms;
    let mut cpu = ServedCpuTime::default();

    // Preparation of a piece, measuring, the end, and preparation of the next.
    assert_eq!(cpu.note_whole(ms(900)), ms(900));
    cpu.measuring += ms(50);
    cpu.competing += ms(5_000);
    assert_eq!(cpu.note_whole(ms(5_970)), ms(20));
    // The clock of the measuring threads may be ahead of the clock of the process.
    cpu.measuring += ms(10);
    assert_eq!(cpu.note_whole(ms(5_975)), Nanos::ZERO);
    assert_eq!(cpu.note_whole(ms(6_980)), ms(1_000));

    assert_eq!(cpu.measuring + cpu.competing + cpu.other, ms(6_980));
}

#[test]
fn cpu_time_of_the_process_is_the_sum_of_its_parts() {
    let mut metrics = begun();
    let before = super::super::resident::cpu_time().unwrap();
    let parts = |metrics: &Metrics| {
        let text = text(metrics);
        let value_of = |part: &str| {
            value(
                &text,
                &format!("laggard_own_cpu_seconds_total{{part=\"{part}\"}} "),
            )
        };
        value_of("measuring") + value_of("other")
    };

    // Uses CPU time between two pieces.
    while super::super::resident::cpu_time().unwrap() < before + Nanos::from_ms(30) {}
    begin(&mut metrics);
    metrics.note_cost(&OwnCost::default());

    let after = super::super::resident::cpu_time().unwrap().as_secs_f64();
    let counted = parts(&metrics);
    assert!(
        counted >= before.as_secs_f64() + 0.03,
        "{counted}, {before}"
    );
    // Sums of floating-point numbers.
    assert!(counted <= after + 1e-6, "{counted} of {after}");
}

#[test]
fn number_of_series_does_not_grow_during_a_day() {
    let mut metrics = begun();
    let second = |seq: u64| {
        let mut batch = Batch::default();
        for row in 0..10 {
            // This rule produces latencies of all sizes.
            let ns = 1_000 + (seq * 10 + row).wrapping_mul(2_654_435_761) % 50_000_000;
            batch.push(&activation(
                seq,
                Nanos::from_ns(ns / 3),
                Nanos::from_ns(ns),
                false,
            ));
        }
        batch
    };
    metrics.count(&second(0));
    let first = text(&metrics).lines().count();

    for hour in 0..24 {
        begin(&mut metrics);
        for seq in 0..3_600 {
            metrics.count(&second(hour * 3_600 + seq));
        }
    }

    let text = text(&metrics);
    assert_eq!(text.lines().count(), first);
    let native = native(&metrics, "laggard_latency_seconds", "fifo:90");
    assert!(native.len() <= MAX_BUCKETS, "{} buckets", native.len());
    assert_eq!(native.iter().map(|(_, count)| count).sum::<i64>(), 864_010);
}

#[test]
fn maximum_of_the_previous_piece_stays_until_the_first_wakeup() {
    let mut metrics = begun();
    let activation_at = |us: u64| {
        let mut batch = Batch::default();
        batch.push(&activation(0, Nanos::ZERO, Nanos::from_us(us), false));
        batch
    };
    let largest =
        "laggard_largest_latency_seconds{service=\"fifo:90\",route=\"direct\",cpu=\"3\"} ";
    assert!(!text(&metrics).contains(largest), "of nothing");

    metrics.count(&activation_at(700));
    begin(&mut metrics);
    assert_eq!(value(&text(&metrics), largest), 7e-4);
    metrics.count(&activation_at(20));

    assert_eq!(value(&text(&metrics), largest), 2e-5);
}

#[test]
fn silent_thread_stays_silent_in_the_next_piece() {
    let mut metrics = begun();
    let silent = Duration::from_millis(30);
    std::thread::sleep(silent);
    metrics.count(&Batch::default());
    // Between pieces nothing is measured, so that no line is silent.
    begin(&mut metrics);

    let (line, silent_for) = metrics.most_silent(Instant::now()).unwrap();

    assert_eq!(line, LINE);
    assert!(silent_for >= silent, "{silent_for:?}");
    metrics.count(&{
        let mut batch = Batch::default();
        batch.push(&activation(1, Nanos::ZERO, Nanos::from_us(5), false));
        batch
    });
    let heard = metrics.lines[0].heard;
    assert_eq!(metrics.most_silent(heard).unwrap().1, Duration::ZERO);
}

#[test]
fn actions_on_late_wakeups_are_counted_by_result_across_pieces() {
    let mut metrics = begun();
    let counts = |done, failed| LateActionCounts {
        action: "exec=./save.sh".into(),
        done,
        failed,
        ..LateActionCounts::default()
    };

    metrics.note_late_actions(&[counts(2, 0)]);
    begin(&mut metrics);
    metrics.note_late_actions(&[counts(3, 1), counts(1, 0)]);

    let text = text(&metrics);
    let series = |result| {
        format!("laggard_late_actions_total{{action=\"exec=./save.sh\",result=\"{result}\"}}")
    };
    assert_eq!(value(&text, &series("done")), 4.0);
    assert_eq!(value(&text, &series("failed")), 1.0);
    assert_eq!(value(&text, &series("skipped")), 0.0);
}
