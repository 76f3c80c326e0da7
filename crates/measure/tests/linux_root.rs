//! A real measurement on this machine. What it checks is order, sums and
//! counts, never how long anything took.
//!
//! Needs root and a kernel with BTF; without them each test says that it is
//! skipped, and why.

use std::collections::BTreeSet;
use std::time::Duration;

use laggard_measure::linux::{LinuxProbe, Wanted, online_cpus};
use laggard_measure::{Drive, Probe, ProbeError, Request, Timeline};
use laggard_model::{
    Account, Activation, Backend, Batch, Cpu, Line, Losses, Nanos, OwnCost, Route, STAGES, Service,
    Stage,
};
use nix::time::ClockId;

const PERIOD: Nanos = Nanos::from_ms(1);
const TIME: Duration = Duration::from_secs(1);
const EVERY_SERVICE: &str = "irq,softirq,worker,fifo:90,fifo:50,other";

struct Measured {
    lines: Vec<Line>,
    batch: Batch,
    losses: Losses,
    accounts: Vec<Account>,
    /// From the beginning to the end.
    time: Nanos,
    cost: OwnCost,
}

impl Measured {
    fn of_line(&self, line: usize) -> impl Iterator<Item = Activation> + '_ {
        self.batch
            .iter()
            .filter(move |one| usize::from(one.line.0) == line)
    }
}

fn request(services: &str) -> Request {
    Request {
        cpus: online_cpus(),
        services: services
            .split(',')
            .map(|name| name.parse().unwrap())
            .collect(),
        optional: true,
        period: PERIOD,
        dither: true,
        seed: 1,
        drive: Drive::Timer,
        stages: None,
    }
}

/// Measures with BPF, or says why it cannot.
fn measure(services: &str) -> Option<Measured> {
    measure_request(request(services))
}

fn measure_request(request: Request) -> Option<Measured> {
    let mut probe = match LinuxProbe::new(request, Wanted::Bpf) {
        Ok(probe) => probe,
        Err(err) => {
            println!("skipped: {err}");
            return None;
        }
    };
    for caveat in probe.caveats() {
        println!("{}", caveat.what);
    }
    assert_eq!(probe.backend(), Backend::Bpf);
    let mut batch = Batch::default();
    let start = probe.start().unwrap();
    probe.pause(TIME);
    probe.drain(&mut batch);
    let end = probe.stop();
    probe.drain(&mut batch);
    Some(Measured {
        lines: probe.lines().to_vec(),
        batch,
        losses: probe.losses(),
        accounts: probe.accounts(),
        time: end.saturating_sub(start),
        cost: probe.cost(),
    })
}

#[test]
fn every_gap_in_a_lines_numbers_is_a_loss_and_every_loss_a_gap() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

    let mut gaps = 0;
    for line in 0..measured.lines.len() {
        let numbers: Vec<u64> = measured.of_line(line).map(|one| one.seq).collect();
        assert!(
            !numbers.is_empty(),
            "{:?} was never served",
            measured.lines[line]
        );
        assert!(
            numbers.windows(2).all(|two| two[0] < two[1]),
            "{:?}",
            measured.lines[line]
        );
        gaps += numbers.last().unwrap() + 1 - numbers.len() as u64;
    }
    // What is lost after the last that was not leaves no gap, and a clock that
    // runs backwards costs an activation or only a stage.
    let losses = measured.losses;
    let lost: u64 = measured.accounts.iter().map(|account| account.lost).sum();
    assert!(gaps <= lost, "{gaps} gaps, {losses:?}");
    let known = losses.activations();
    assert!(
        (known..=known + losses.clock_back + losses.expire_unseen + losses.out_of_order)
            .contains(&lost),
        "{lost} lost, {losses:?}"
    );
}

/// Whether each line's activations and losses are those of its plan.
fn assert_all_is_accounted_for(measured: &Measured) {
    for (index, line) in measured.lines.iter().enumerate() {
        let (account, found) = (
            measured.accounts[index],
            measured.of_line(index).count() as u64,
        );
        assert_eq!(
            account.planned,
            Some(found + account.lost),
            "{line:?}: {account:?}"
        );
        // Two expiries are half a period apart at least, and one and a half at
        // most, times the turns of a line that is asked in turn.
        let turns = match line.route {
            Route::Direct => 1,
            Route::Deferred => {
                let same = |one: &&Line| one.cpu == line.cpu && one.route == Route::Deferred;
                measured.lines.iter().filter(same).count() as u64
            }
        };
        let periods = measured.time.ns() / PERIOD.ns() / turns;
        let planned = found + account.lost;
        assert!(
            planned >= periods / 2 && planned <= periods * 2 + 1,
            "{line:?}: {planned} in {periods} periods"
        );
    }
}

#[test]
fn what_is_served_missed_and_lost_is_what_was_planned() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

    assert_all_is_accounted_for(&measured);
}

/// Longer than the end waits for a service that does not come.
const SPIN: Duration = Duration::from_millis(4_500);

/// Computes at FIFO 97 on `cpu` for [`SPIN`], from `delay` on: nothing of ours
/// runs there meanwhile. Whether the policy may be had.
fn spin_above_everything(cpu: usize, delay: Duration) -> std::thread::JoinHandle<bool> {
    std::thread::spawn(move || {
        let mut set = nix::sched::CpuSet::new();
        set.set(cpu).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
        std::thread::sleep(delay);
        let priority = libc::sched_param { sched_priority: 97 };
        // SAFETY: `priority` is valid for reads; 0 is the calling thread.
        if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } != 0 {
            return false;
        }
        let end = std::time::Instant::now() + SPIN;
        while std::time::Instant::now() < end {
            std::hint::spin_loop();
        }
        true
    })
}

#[test]
fn a_cpu_that_is_taken_away_across_the_end_leaves_expiries_that_waited_until_they_were_given_up() {
    let all = online_cpus();
    let Some(cpu) = all.as_slice().last().filter(|cpu| cpu.0 > 0) else {
        println!("skipped: there is one CPU only");
        return;
    };
    let runtime = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us");
    let is_throttled = runtime.is_ok_and(|text| text.trim() != "-1");
    let mut probe = match LinuxProbe::new(request("softirq,fifo:90,other"), Wanted::Bpf) {
        Ok(probe) => probe,
        Err(err) => {
            println!("skipped: {err}");
            return;
        }
    };
    let mut batch = Batch::default();
    let start = probe.start().unwrap();
    probe.pause(TIME / 2);
    probe.drain(&mut batch);
    let spinner = spin_above_everything(cpu.0 as usize, Duration::ZERO);
    probe.pause(TIME / 2);
    let end = probe.stop();
    probe.drain(&mut batch);
    assert!(spinner.join().unwrap());

    let measured = Measured {
        lines: probe.lines().to_vec(),
        batch,
        losses: probe.losses(),
        accounts: probe.accounts(),
        time: end.saturating_sub(start),
        cost: probe.cost(),
    };
    assert_all_is_accounted_for(&measured);
    let censored: Vec<Activation> = measured.batch.iter().filter(|one| one.censored).collect();
    for one in &censored {
        let line = measured.lines[usize::from(one.line.0)];
        assert_eq!(line.cpu, *cpu, "{line:?}");
        assert!(one.missed && one.expiry < end && one.expiry + one.latency() >= end);
    }
    // Where the kernel leaves normal threads a share, `other` is served meanwhile.
    let direct = |service| {
        let own = censored
            .iter()
            .map(|one| measured.lines[usize::from(one.line.0)]);
        own.filter(|line| line.service == service && line.route == Route::Direct)
            .count()
    };
    assert!(direct(Service::Fifo(90)) > 0);
    assert!(is_throttled || direct(Service::Other) > 0);
}

#[test]
fn a_recording_has_the_stages_on_the_way_that_were_asked_for_and_no_program_of_another() {
    for (asked, programs) in [
        (vec![], vec![]),
        (vec![Stage::Running], vec!["on_sched_switch"]),
        (
            vec![Stage::Irq],
            vec!["on_hrtimer_expire_entry", "on_local_timer_entry"],
        ),
    ] {
        let Some(measured) = measure_request(Request {
            stages: Some(asked.clone()),
            ..request("fifo:90,other")
        }) else {
            return;
        };

        let mut seen = BTreeSet::new();
        for one in measured.batch.iter().filter(|one| !one.missed) {
            seen.extend(
                STAGES
                    .into_iter()
                    .filter(|stage| one.steps[stage.index()].is_some()),
            );
        }
        let expected: BTreeSet<Stage> = asked.iter().copied().chain([Stage::User]).collect();
        assert_eq!(seen, expected);
        let ran = measured.cost.programs.iter().filter(|one| one.runs > 0);
        let ran: BTreeSet<&str> = ran.map(|one| one.name.as_str()).collect();
        assert_eq!(ran, programs.into_iter().collect(), "for {asked:?}");
    }
}

#[test]
fn the_irq_service_is_refused_without_its_stage() {
    let refused = LinuxProbe::new(
        Request {
            stages: Some(vec![Stage::Expire]),
            optional: false,
            ..request("irq,fifo:90")
        },
        Wanted::Best,
    );

    assert_eq!(
        refused.unwrap_err().to_string(),
        "cannot measure `irq`: its stage was not asked for; add irq to the stages, or leave it out of the services"
    );
}

#[test]
fn every_line_is_asked_as_often_as_its_period_says() {
    let Some(measured) = measure("softirq,fifo:90,other") else {
        return;
    };

    for (index, line) in measured.lines.iter().enumerate() {
        let expiries: Vec<Nanos> = measured.of_line(index).map(|one| one.expiry).collect();
        let span = Nanos::between(expiries[0], *expiries.last().unwrap()).unwrap();
        let turns = if line.route == Route::Deferred { 2 } else { 1 };
        let periods = span.ns() / PERIOD.ns() / turns;
        let found = expiries.len() as u64;
        assert!(
            found.abs_diff(periods) * 10 <= periods + 50,
            "{line:?}: {found} in {periods}"
        );
    }
}

/// What `Timeline` plans for a line, from an instant of its own.
fn planned(cpu: Cpu, place: u32, places: u32) -> Vec<u64> {
    let seed = request("other").seed ^ u64::from(cpu.0);
    let mut timeline = Timeline::new(seed, PERIOD, true, place, places, Nanos::ZERO);
    let expiries = (0..5_000).map(|_| {
        let expiry = timeline.expiry().ns();
        timeline.advance();
        expiry
    });
    expiries.collect()
}

/// Whether activations, each with its number and expiry, follow a plan from
/// one of its expiries on.
fn follows(seen: &[(u64, u64)], plan: &[u64]) -> bool {
    let (first, expiry) = seen[0];
    let number = |seq: u64| usize::try_from(seq - first).unwrap();
    (0..plan.len() - number(seen[seen.len() - 1].0)).any(|from| {
        seen.iter()
            .all(|&(seq, at)| at - expiry == plan[from + number(seq)] - plan[from])
    })
}

#[test]
fn the_kernel_s_softirq_timer_follows_the_plan_of_user_space() {
    let Some(measured) = measure("softirq,fifo:90,other") else {
        return;
    };
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut parts = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    let version: (u32, u32) = (parts.next().unwrap(), parts.next().unwrap());
    if version < (6, 4) {
        println!(
            "skipped: before Linux 6.4 the softirq's timer is armed for a delay, not for an instant"
        );
        return;
    }

    // Two direct threads come before it.
    for (index, line) in measured.lines.iter().enumerate() {
        let place = match (line.service, line.route) {
            (Service::Fifo(90), Route::Direct) => 0,
            (Service::Other, Route::Direct) => 1,
            (Service::Softirq, _) => 2,
            _ => continue,
        };
        let of_line = measured.of_line(index);
        let seen: Vec<(u64, u64)> = of_line.map(|one| (one.seq, one.expiry.ns())).collect();
        assert!(seen.len() > 100, "{line:?}");
        assert!(follows(&seen, &planned(line.cpu, place, 3)), "{line:?}");
    }
}

#[test]
fn every_follower_has_the_expiries_of_its_turn_missed_or_not() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

    let lines = || measured.lines.iter().enumerate();
    for (softirq, of) in lines().filter(|(_, line)| line.service == Service::Softirq) {
        let followers: Vec<usize> = lines()
            .filter(|(_, line)| line.cpu == of.cpu && line.route == Route::Deferred)
            .map(|(index, _)| index)
            .collect();
        let asked: Vec<Nanos> = measured.of_line(softirq).map(|one| one.expiry).collect();
        for &follower in &followers {
            let turns: BTreeSet<usize> = measured
                .of_line(follower)
                .filter_map(|one| asked.binary_search(&one.expiry).ok())
                .map(|number| number % followers.len())
                .collect();
            assert!(
                turns.len() <= 1,
                "{:?}: {turns:?}",
                measured.lines[follower]
            );
        }
    }
}

#[test]
fn most_activations_have_every_stage_of_their_route() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

    for (index, line) in measured.lines.iter().enumerate() {
        let wanted: &[Stage] = match (line.service, line.route) {
            (Service::Softirq, _) => &[Stage::Irq, Stage::Raise, Stage::Softirq],
            (Service::Worker, _) => &[Stage::Raise, Stage::Softirq, Stage::Signal, Stage::Worker],
            (_, Route::Direct) => &[
                Stage::Irq,
                Stage::Expire,
                Stage::Waking,
                Stage::Running,
                Stage::User,
            ],
            (_, Route::Deferred) => &[
                Stage::Softirq,
                Stage::Signal,
                Stage::Waking,
                Stage::Running,
                Stage::User,
            ],
        };
        let served: Vec<Activation> = measured.of_line(index).filter(|one| !one.missed).collect();
        let complete = served
            .iter()
            .filter(|one| {
                wanted
                    .iter()
                    .all(|stage| one.steps[stage.index()].is_some())
            })
            .count();
        assert!(
            complete * 10 > served.len() * 8,
            "{line:?}: {complete} of {}",
            served.len()
        );
    }
}

#[test]
fn every_program_ran_and_its_cost_is_known() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

    let programs = &measured.cost.programs;
    let has = |name| measured.lines.iter().any(|line| line.service == name);
    for (name, wanted) in [
        ("on_hrtimer_expire_entry", true),
        ("on_sched_waking", true),
        ("on_sched_switch", true),
        ("on_deferred", has(Service::Softirq)),
        ("on_work", has(Service::Worker)),
    ] {
        let ran = programs
            .iter()
            .any(|one| one.name == name && one.runs > 0 && one.run_ns > Nanos::ZERO);
        assert_eq!(ran, wanted, "{name} in {programs:?}");
    }
    assert!(measured.cost.measuring_cpu_ns > Nanos::ZERO);
}

/// Works until this thread has used `time` of a CPU more.
fn use_cpu(time: Duration) {
    let used = || Duration::from(ClockId::CLOCK_THREAD_CPUTIME_ID.now().unwrap());
    let until = used() + time;
    while used() < until {
        std::hint::spin_loop();
    }
}

#[test]
fn own_cost_is_what_was_used_from_begin_to_end() {
    let mut probe = match LinuxProbe::new(request(EVERY_SERVICE), Wanted::Bpf) {
        Ok(probe) => probe,
        Err(err) => {
            println!("skipped: {err}");
            return;
        }
    };
    let work = Duration::from_millis(200);
    probe.start().unwrap();

    use_cpu(work);
    probe.stop();
    let cost = probe.cost();
    use_cpu(work);

    // The kernel counts a thread's time and the process's by the tick.
    let other = Duration::from(cost.other_cpu_ns);
    assert!(other >= work.mul_f64(0.9), "{cost:?}");
    assert_eq!(probe.cost().other_cpu_ns, cost.other_cpu_ns);
    assert_eq!(probe.cost().measuring_cpu_ns, cost.measuring_cpu_ns);
}

#[test]
fn without_bpf_only_thread_services_and_their_user_stage_remain() {
    let mut probe = LinuxProbe::new(request("irq,softirq,other"), Wanted::User).unwrap();
    let mut batch = Batch::default();

    probe.start().unwrap();
    probe.pause(TIME / 4);
    probe.stop();
    probe.drain(&mut batch);

    assert!(
        probe
            .lines()
            .iter()
            .all(|line| line.service == Service::Other)
    );
    assert!(batch.len() > 50, "{}", batch.len());
    assert!(
        batch
            .iter()
            .all(|one| one.latency_of(Service::Other).is_some())
    );
    assert!(
        batch
            .iter()
            .all(|one| one.steps[Stage::Irq.index()].is_none())
    );
}

#[test]
fn a_service_asked_for_by_name_is_refused_where_it_cannot_be_had() {
    let mut request = request("softirq");
    request.optional = false;

    let err = LinuxProbe::new(request, Wanted::User).unwrap_err();

    assert!(matches!(err, ProbeError::Service { .. }));
    assert_eq!(
        err.to_string(),
        "cannot measure `softirq`: it needs BPF; run as root on a kernel with BTF"
    );
}

#[test]
fn an_offline_cpu_and_an_impossible_period_are_refused() {
    let mut offline = request("other");
    offline.cpus = "4095".parse().unwrap();
    let mut short = request("other");
    short.period = Nanos::from_us(1);

    assert!(matches!(
        LinuxProbe::new(offline, Wanted::User),
        Err(ProbeError::NoCpu(4095, _))
    ));
    assert!(matches!(
        LinuxProbe::new(short, Wanted::User),
        Err(ProbeError::Period(..))
    ));
}
