//! First screens of a busy machine, and of one that spoilt its recording.

use laggard_answer::Doubt;
use laggard_answer::Trust;
use laggard_answer::overview::{
    Conditions, Enough, First, Fit, Late, LateService, Measurement, OtherCauses, Overview, Subject,
};
use laggard_answer::qos::{Application, Fitness, MissFigures, Resolution, by_name};
use laggard_answer::remedy::Fix;
use laggard_answer::show::{Share, Waiting};
use laggard_answer::trust::Distrust;
use laggard_answer::why::{CauseShare, RhythmRow};
use laggard_model::{
    Backend, CauseClass, Caveat, CaveatKind, Cpu, LoadLabel, NamedCause, Nanos, Route, Service,
    State,
};

const FIFO: Service = Service::Fifo(90);

fn share(q: f64, us: u64) -> Share {
    Share {
        q,
        ns: Some(Nanos::from_us(us)),
        ..Share::default()
    }
}

fn service(service: Service, [median, hundred, thousand, largest]: [u64; 4]) -> LateService {
    let route = if service == Service::Worker {
        Route::Deferred
    } else {
        Route::Direct
    };
    LateService {
        service,
        route,
        samples: 59_982,
        median: share(0.5, median),
        p99: share(0.99, hundred),
        p999: share(0.999, thousand),
        max_ns: Some(Nanos::from_us(largest)),
        max_is_at_least: false,
    }
}

/// Share of the time, number of wakeups, and longest time in microseconds.
type Took = (f64, u64, u64);

/// A cause that took part in late wakeups.
pub fn cause(class: CauseClass, who: Option<&str>, (share, wakeups, us): Took) -> CauseShare {
    CauseShare {
        cause: NamedCause::new(class, who),
        contenders: Vec::new(),
        quota: None,
        is_ours: false,
        irq: None,
        cpus: vec![Cpu(0), Cpu(1)],
        episodes: usize::try_from(wakeups).unwrap_or(usize::MAX),
        first_in: 1,
        per_hour: 1.0,
        wakeups,
        time_ns: Nanos::from_us(us),
        share,
        largest_ns: Nanos::from_us(us),
        largest_episode: 3,
        is_at_least: false,
        largest_without_ns: Nanos::from_us(13_200),
        largest_without_is_at_least: false,
        rhythm: None,
        fix: None,
        gains: Vec::new(),
    }
}

/// Returns the figures of 60 s on two CPUs: `failures`, and the mean time between them,
/// s.
pub fn figures(failures: f64, [mean, low, high]: [f64; 3]) -> MissFigures {
    let some = |seconds: f64| (seconds > 0.0).then_some(seconds * 1e9);
    MissFigures {
        exposure_ns: 60e9,
        failures: Some(failures),
        clusters: Some(failures),
        mttf_ns: some(mean),
        mttf_low_ns: low * 1e9,
        mttf_high_ns: some(high),
        late_per_hour: failures * 60.0,
        dispersion: None,
        paper_mttf_ns: None,
    }
}

/// Returns an application of the catalogue.
///
/// # Panics
/// If the name is unknown.
pub fn application(name: &str) -> Application {
    by_name(name).expect("an application of the catalogue")
}

/// Returns the verdict on an application of the catalogue as FIFO 90. Six buffers are
/// enough for a decided one.
pub fn fit(name: &str, verdict: Fitness, figures: MissFigures) -> Fit {
    let is_open = verdict == Fitness::Unknown;
    Fit {
        application: application(name),
        service: FIFO,
        route: Route::Direct,
        verdict,
        figures,
        apart: None,
        waited_ns: None,
        resolution: Resolution::Full,
        decided_by_ns: is_open.then_some(5.4e12),
        narrowed_by_ns: None,
        enough: (!is_open).then_some(Enough {
            buffers: 6,
            is_sure: false,
        }),
        unfailing: None,
    }
}

fn catalogue() -> Vec<Fit> {
    let often = |mean: f64| figures(60.0 / mean, [mean, mean * 0.6, mean * 2.6]);
    let none = || figures(0.0, [0.0, 20.0, 0.0]);
    let not_fit = |name, mean| fit(name, Fitness::NotFit, often(mean));
    let open = |name| fit(name, Fitness::Unknown, none());
    vec![
        not_fit("ethercat-250us", 0.9),
        not_fit("jack-32", 1.1),
        not_fit("ros2-1khz", 1.2),
        not_fit("5g-slot", 1.2),
        not_fit("jack-64", 1.4),
        not_fit("jack-128", 1.7),
        open("jack-256"),
        open("jack-512"),
        open("jack-1024"),
        open("video-call"),
    ]
}

/// Returns thirty seconds of two CPUs under a load that writes files: a hypervisor
/// stops them twice a second.
pub fn made() -> Overview {
    let mut stolen = cause(CauseClass::Stolen, None, (0.74, 105, 13_200));
    stolen.rhythm = Some(RhythmRow {
        period_ns: Nanos::from_ms(500),
        period_error_ns: None,
        hits: 58,
        due: 60,
        p: 1e-9,
        none_before_ns: None,
        none_after_ns: None,
    });
    Overview {
        schema: 2,
        path: "busy.laggard".into(),
        conditions: Conditions {
            duration_ns: Nanos::from_secs(30),
            started: "2026-11-22T02:12:34.220+00:00".into(),
            state: State::Complete,
            backend: Backend::Bpf,
            load: LoadLabel::named("fileio"),
            cpus: 2,
            period_ns: Nanos::from_ms(1),
            kernel: "6.18.44".into(),
            preemption: Some("none".into()),
            hypervisor: Some("kvm".into()),
            processor: "Intel(R) Xeon(R) Processor".into(),
        },
        trust: Trust::Good,
        waiting: Vec::new(),
        warnings: Vec::new(),
        is_for_application: false,
        fits: catalogue(),
        missing_fits: None,
        subject: Some(Subject {
            service: FIFO,
            route: Route::Direct,
        }),
        contexts: None,
        services: vec![
            service(Service::Irq, [7, 22, 137, 13_300]),
            service(Service::Softirq, [14, 43, 2_200, 13_300]),
            service(Service::Worker, [22, 161, 2_600, 12_000]),
            service(FIFO, [18, 54, 2_300, 13_200]),
            service(Service::Other, [19, 951, 3_200, 13_300]),
        ],
        more_services: 1,
        is_explained: true,
        threshold_ns: Some((Nanos::from_us(300), Nanos::from_ms(1))),
        late: Some(Late {
            service: Some(FIFO),
            route: Some(Route::Direct),
            episodes: 155,
            wakeups: 155,
            untraced: None,
            is_incomplete: false,
            total_ns: Nanos::from_ms(551),
            max_ns: Nanos::from_us(13_200),
            max_is_at_least: false,
            causes: vec![
                stolen.clone(),
                cause(
                    CauseClass::PreemptionOff,
                    Some("tokio-rt-worker"),
                    (0.05, 19, 3_000),
                ),
                cause(
                    CauseClass::Equal,
                    Some("tokio-rt-worker"),
                    (0.02, 10, 4_400),
                ),
            ],
            others: Some(OtherCauses {
                causes: 4,
                share: 0.19,
                max_ns: Nanos::from_us(900),
            }),
        }),
        first: Some(First {
            cause: stolen,
            fix: Fix::DedicatedCpus,
            max_ns: Nanos::from_us(13_200),
            max_without_ns: Nanos::from_us(9_100),
            max_without_is_at_least: false,
            stalls: None,
        }),
        measurement: Measurement {
            samples: 597_700,
            lost: 0,
            overhead: Some(0.041),
            warnings: 9,
        },
    }
}

/// Returns an overview that is untrusted, starved and truncated, with severe caveats
/// only.
pub fn spoilt() -> Overview {
    let waiting = Waiting {
        service: FIFO,
        route: Route::Direct,
        cpu: Cpu(1),
        served: 0,
        still_waiting: 6_000,
        at_least_ns: Nanos::from_secs(6),
    };
    let caveat = Caveat::new(
        CaveatKind::LoadEnded,
        "the load `fileio` ended 4 s before measuring did",
        "record for as long as it runs",
    );
    Overview {
        trust: Trust::None(vec![
            Distrust::TooFew { samples: 3 },
            Distrust::ClockBack { times: 7 },
            Distrust::Empty,
        ]),
        waiting: vec![waiting],
        warnings: vec![Doubt::Caveat(caveat); 3],
        ..made()
    }
}
