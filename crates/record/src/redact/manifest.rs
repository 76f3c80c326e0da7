//! What a recording is of, without names.
//!
//! Every structure is taken apart to the last field: one that is added to it
//! later has to be judged here before this builds.

use laggard_model::{
    AskedApplication, Caveat, CaveatKind, Clock, Host, LoadRun, Manifest, OwnCost, ProbePlan,
    SCHEMA_VERSION, Service, State, Throughput,
};

use super::known;
use super::names::{NameSort, Redactor};

/// What was asked of the probe: numbers, and names out of lists.
fn planned(plan: ProbePlan) -> ProbePlan {
    let ProbePlan {
        period_ns,
        every,
        dither,
        seed,
        duration_ns,
        threshold_ns,
        keep,
        held_awake,
        stages,
        contexts,
        timer,
        rows,
    } = plan;
    ProbePlan {
        period_ns,
        every,
        dither,
        seed,
        duration_ns,
        threshold_ns,
        keep,
        held_awake,
        stages,
        contexts,
        timer,
        rows,
    }
}

/// Clocks of what was imported.
const TRACE_CLOCKS: [&str; 3] = ["cycle counter", "performance counter", "system time"];

/// What loads count that is nobody's secret.
const UNITS: [&str; 7] = [
    "bytes",
    "frames",
    "messages",
    "operations",
    "packets",
    "runs",
    "steps",
];
/// Words of laggard's command line besides its options.
const COMMANDS: &str = "record rehearse compare check provoke top import all tail on off auto none user bpf \
    direct deferred always office workstation game web";

impl Redactor {
    /// The manifest without names; its segments stay as they are.
    pub(super) fn manifest(&mut self, manifest: &Manifest) -> Manifest {
        let Manifest {
            schema: _,
            version,
            state,
            command,
            backend,
            plan,
            clock,
            written_within_ns,
            lines,
            counts,
            load,
            application,
            host,
            losses,
            caveats,
            cost,
            segments,
        } = manifest.clone();
        let Clock {
            name,
            start_ns,
            end_ns,
            start_wall,
        } = clock;
        let clock = Clock::monotonic(start_ns, self.time(&start_wall));
        let clock = Clock {
            end_ns,
            name: if TRACE_CLOCKS.contains(&name.as_str()) {
                name
            } else {
                clock.name
            },
            ..clock
        };
        let load_name = load.as_ref().map(|load| load.name.clone());
        let load = load.map(|load| self.load(load));
        // As sentences have it, and what stands for it.
        let load_names = load_name.zip(load.as_ref().map(|load| load.name.clone()));
        let caveats = caveats.into_iter();
        Manifest {
            schema: SCHEMA_VERSION,
            version: self.unless(is_version(&version), NameSort::Build, &version),
            state: match state {
                State::Running | State::Complete | State::Interrupted => state,
                State::Failed { error } => State::Failed {
                    error: self.sentence(&error),
                },
            },
            command: self.command(&command),
            backend,
            plan: planned(plan),
            clock,
            written_within_ns,
            lines: lines.into_iter().map(|one| self.line(one)).collect(),
            counts,
            caveats: caveats
                .map(|one| self.caveat(one, load_names.as_ref()))
                .collect(),
            load,
            application: application.map(|one| self.application(one)),
            host: self.host(host),
            losses,
            cost: self.cost(cost),
            segments,
        }
    }

    /// A time by the wall clock.
    fn time(&mut self, text: &str) -> String {
        let is_of_time = |one: char| one.is_ascii_digit() || "-:.TZ+".contains(one);
        // A name of a time zone may follow, which is a place.
        let time = text.split_once('[').map_or(text, |(time, _)| time);
        self.unless(time.chars().all(is_of_time), NameSort::Word, time)
    }

    /// laggard's command line: its options and quantities stay, and what comes
    /// after `--` is a command of the user's.
    fn command(&mut self, command: &[String]) -> Vec<String> {
        let mut own = true;
        let mut redacted = Vec::new();
        for (number, word) in command.iter().enumerate() {
            let is_end = word == "--";
            redacted.push(match (number, own) {
                (0, _) => "laggard".into(),
                (_, true) if is_end => word.clone(),
                (_, true) => self.own_argument(word),
                (_, false) => self.instead(NameSort::Argument, word),
            });
            own &= !is_end;
        }
        redacted
    }

    fn own_argument(&mut self, word: &str) -> String {
        if let Some((option, value)) = word.split_once('=').filter(|(name, _)| is_option(name)) {
            return format!("{option}={}", self.value(value));
        }
        if is_option(word) {
            return word.into();
        }
        match short_option(word) {
            Some((option, value)) => format!("{option}{}", self.value(value)),
            None => self.value(word),
        }
    }

    /// The value of an option, or the name of a command.
    fn value(&mut self, value: &str) -> String {
        let is_application = |part: &str| {
            let mut known = self.public.applications.iter();
            known.any(|one| one.name == part)
        };
        let is_public = |part: &str| {
            known::is_quantity(part)
                || matches!(part.parse::<Service>(), Ok(service) if !matches!(service, Service::Task(_) | Service::Traced(_)))
                || self.public.loads.contains(part)
                || is_application(part)
                || COMMANDS.split_whitespace().any(|known| known == part)
        };
        let is_known = value.split(',').all(is_public);
        self.unless(is_known, NameSort::Argument, value)
    }

    fn load(&mut self, load: LoadRun) -> LoadRun {
        let LoadRun {
            name,
            command,
            usage,
            ended,
            begun_ns,
            throughput,
        } = load;
        let is_public = command.is_empty() && self.public.loads.contains(&name);
        let words = command.iter().enumerate();
        let words = words.map(|(number, word)| match number {
            0 => self.instead(NameSort::Load, word),
            _ => self.instead(NameSort::Argument, word),
        });
        LoadRun {
            command: words.collect(),
            name: self.unless(is_public, NameSort::Load, &name),
            usage,
            ended: ended.map(|how| self.sentence(&how)),
            begun_ns,
            throughput: throughput.map(|done| self.throughput(done)),
        }
    }

    fn throughput(&mut self, done: Throughput) -> Throughput {
        let Throughput {
            unit,
            count,
            elapsed_ns,
        } = done;
        let is_known = UNITS.contains(&unit.as_str());
        Throughput {
            unit: self.unless(is_known, NameSort::Unit, &unit),
            count,
            elapsed_ns,
        }
    }

    /// An application without its name, unless it is one that everybody has.
    pub fn application(&mut self, application: AskedApplication) -> AskedApplication {
        let is_public = self.public.applications.contains(&application);
        let AskedApplication {
            name,
            buffers,
            buffer_ns,
            compute_ns,
            source,
            service,
        } = application;
        AskedApplication {
            name: self.unless(is_public, NameSort::Application, &name),
            buffers,
            buffer_ns,
            compute_ns,
            source: self.unless(is_public, NameSort::Word, &source),
            service,
        }
    }

    fn host(&mut self, host: Host) -> Host {
        let Host {
            node,
            distribution,
            kernel,
            build,
            architecture,
            preemption,
            hz,
            config,
            command_line,
            processor,
            memory_bytes,
            frequency,
            turbo,
            idle,
            idle_driver,
            isolation,
            throttling,
            huge_pages,
            mitigations,
            clocksource,
            hypervisor,
            lockdown,
            settings,
        } = host;
        Host {
            node: self.instead(NameSort::Host, &node),
            distribution: distribution.map(|name| {
                let is_known = known::is_distribution(&name);
                self.unless(is_known, NameSort::Distribution, &name)
            }),
            kernel: if is_windows(&kernel) {
                kernel
            } else {
                self.parts(&kernel, '-')
            },
            build: self.parts(&build, ' '),
            architecture,
            preemption,
            hz,
            config: config.iter().map(|line| self.setting(line)).collect(),
            command_line: self.kernel_options(&command_line),
            processor,
            memory_bytes,
            frequency,
            turbo,
            idle,
            idle_driver,
            isolation,
            throttling,
            huge_pages,
            mitigations,
            clocksource,
            hypervisor,
            lockdown,
            settings,
        }
    }

    /// A kernel's version: whoever builds one adds words of their own.
    fn parts(&mut self, version: &str, between: char) -> String {
        let parts = version.split(between);
        let parts: Vec<String> = parts
            .map(|part| self.unless(known::is_release(part), NameSort::Build, part))
            .collect();
        parts.join(&between.to_string())
    }

    /// A line of the kernel's configuration: texts in it are the builder's.
    fn setting(&mut self, line: &str) -> String {
        match line.split_once('=') {
            Some((name, value)) if value.starts_with('"') => {
                format!("{name}=\"{}\"", self.instead(NameSort::Build, value))
            }
            _ => line.into(),
        }
    }

    fn kernel_options(&mut self, line: &str) -> String {
        let mut own = true;
        let mut words = Vec::new();
        for word in line.split(' ') {
            // What follows is for the first program, and may be a password.
            own &= word != "--";
            let is_known = own && known::is_kernel_option(word);
            words.push(self.unless(is_known || word == "--", NameSort::Option, word));
        }
        words.join(" ")
    }

    fn cost(&mut self, mut cost: OwnCost) -> OwnCost {
        for program in &mut cost.programs {
            let is_ours = |one: char| one.is_ascii_lowercase() || one == '_' || one == ' ';
            let is_ours = program.name.chars().all(is_ours);
            if let (true, Some(name)) = (is_ours, program.name.rsplit(' ').next()) {
                self.programs.insert(name.into());
            }
            program.name = self.unless(is_ours, NameSort::Function, &program.name);
        }
        cost
    }

    fn caveat(&mut self, caveat: Caveat, load: Option<&(String, String)>) -> Caveat {
        let Caveat { kind, what, advice } = caveat;
        let what = match kind {
            // These tell what others on the machine are called, or what the
            // system said.
            CaveatKind::OtherTracers => self.tracers(&what),
            CaveatKind::ExternalSource
            | CaveatKind::SoftirqThread
            | CaveatKind::Tracer
            | CaveatKind::AbilityAbsent
            | CaveatKind::NoBpf
            | CaveatKind::ServiceAbsent
            | CaveatKind::MemoryLock
            | CaveatKind::Inherited => self.sentence(&what),
            CaveatKind::LoadEnded => self.load_ended(&what, load),
            // And these what laggard itself did, or how the machine is set.
            CaveatKind::NotRoot
            | CaveatKind::Imported
            | CaveatKind::TraceIncomplete
            | CaveatKind::Wine
            | CaveatKind::NoBtf
            | CaveatKind::Priority
            | CaveatKind::RtGroup
            | CaveatKind::DebugKernel
            | CaveatKind::Stolen
            | CaveatKind::CpuOffline
            | CaveatKind::Rescheduled
            | CaveatKind::Losses
            | CaveatKind::Overload
            | CaveatKind::RtThrottling
            | CaveatKind::IdleStates
            | CaveatKind::Governor
            | CaveatKind::Preemption
            | CaveatKind::Siblings
            | CaveatKind::Swap
            | CaveatKind::NumaBalancing
            | CaveatKind::VirtualMachine
            | CaveatKind::CpuIsolated
            | CaveatKind::Clocksource
            | CaveatKind::Stopped
            | CaveatKind::Moved
            | CaveatKind::PageFaults
            | CaveatKind::OwnCost
            | CaveatKind::StageUnseen
            | CaveatKind::TimerElsewhere
            | CaveatKind::Unfinished
            | CaveatKind::Cpuset
            | CaveatKind::CpuQuota
            | CaveatKind::Lockdown
            | CaveatKind::Turbo
            | CaveatKind::TickRate
            | CaveatKind::Tickless
            | CaveatKind::Mitigations
            | CaveatKind::HugePages
            | CaveatKind::Watchdog
            | CaveatKind::IrqBalance
            | CaveatKind::TimerMigration
            | CaveatKind::Autogroup
            | CaveatKind::NoPmu => what,
        };
        Caveat { kind, what, advice }
    }

    /// A sentence that names processes, each before ` (process 7)`: as their
    /// threads, also where a name is a word of ours.
    fn tracers(&mut self, what: &str) -> String {
        const BEFORE: [&str; 3] = [" of ", ", ", " and "];
        const AFTER: &str = " (process ";
        let mut text = String::new();
        let mut rest = what;
        while let Some((part, after)) = rest.split_once(AFTER) {
            let ends = BEFORE
                .iter()
                .filter_map(|word| Some(part.rfind(word)? + word.len()));
            let (before, name) = part.split_at(ends.max().unwrap_or_default());
            text += &self.sentence(before);
            text += &self.thread(name);
            text += AFTER;
            rest = after;
        }
        text + &self.sentence(rest)
    }

    /// A sentence around the load's name, which is replaced as it is elsewhere.
    fn load_ended(&mut self, what: &str, load: Option<&(String, String)>) -> String {
        let parts = load.and_then(|(name, instead)| {
            let how = what.strip_prefix(&format!("the load `{name}`"))?;
            Some((format!("the load `{instead}`"), how))
        });
        match parts {
            Some((begin, how)) => begin + &self.sentence(how),
            None => self.sentence(what),
        }
    }
}

/// Whether that is Windows with its version, which says nothing of whose it is.
fn is_windows(kernel: &str) -> bool {
    let version = kernel.strip_prefix("Windows ");
    version.is_some_and(|text| text.bytes().all(|one| one.is_ascii_digit() || one == b'.'))
}

/// `1.2.3`.
fn is_version(text: &str) -> bool {
    let plain = |one: char| one.is_ascii_digit() || one == '.';
    text.chars().all(plain)
}

/// `--option`, of small letters.
fn is_option(word: &str) -> bool {
    let name = word.strip_prefix("--").unwrap_or_default();
    !name.is_empty()
        && name
            .bytes()
            .all(|one| one.is_ascii_lowercase() || one == b'-')
}

/// `-o`, and what is written to it without a space.
fn short_option(word: &str) -> Option<(&str, &str)> {
    let letter = word.strip_prefix('-')?.chars().next()?;
    letter.is_ascii_alphabetic().then(|| word.split_at(2))
}

#[cfg(test)]
mod tests {
    use super::super::PublicNames;
    use super::*;

    #[test]
    fn who_traces_is_called_as_its_threads_are() {
        let mut redactor = Redactor::default();
        let thread = redactor.thread("script");

        let told = redactor.tracers(
            "other programs trace or sample this machine: BPF programs of script (process 51) on sched_switch (pay); perf events of my perf (process 7), script (process 51)",
        );

        assert_eq!(
            told,
            format!(
                "other programs trace or sample this machine: BPF programs of {thread} (process 51) on sched_switch (word-1); perf events of thread-2 (process 7), {thread} (process 51)"
            )
        );
    }

    fn redactor() -> Redactor {
        Redactor::new(PublicNames {
            loads: ["fileio".into()].into(),
            applications: vec![application("jack-128", "JACK")],
        })
    }

    fn application(name: &str, source: &str) -> AskedApplication {
        AskedApplication {
            name: name.into(),
            buffers: 2,
            buffer_ns: laggard_model::Nanos::from_ms(3),
            compute_ns: laggard_model::Nanos::from_ms(1),
            source: source.into(),
            service: None,
        }
    }

    #[test]
    fn an_application_of_ours_stays_and_another_of_its_name_does_not() {
        let mut redactor = redactor();

        let ours = redactor.application(application("jack-128", "JACK"));
        let theirs = redactor.application(application("jack-128", "alice told me"));

        assert_eq!(ours, application("jack-128", "JACK"));
        assert_eq!(theirs, application("application-1", "word-1"));
    }

    #[test]
    fn of_a_command_line_options_quantities_and_our_own_names_stay() {
        let command = "/home/alice/laggard record --load fileio --for=jack-128 -o/home/alice/x \
                       --output=/home/alice --services fifo:90,alice --duration 30s -q --alice_x \
                       --Alice=1 office fifo:50,irq -- fileio --quiet 30s";
        let words: Vec<String> = command.split_whitespace().map(Into::into).collect();

        let redacted = redactor().command(&words).join(" ");

        assert_eq!(
            redacted,
            "laggard record --load fileio --for=jack-128 -oargument-1 --output=argument-2 \
             --services argument-3 --duration 30s -q argument-4 argument-5 office fifo:50,irq -- \
             argument-6 argument-7 argument-8"
        );
    }

    #[test]
    fn of_the_kernel_s_options_those_stay_that_bear_on_latency_and_are_the_kernel_s() {
        let line = "quiet isolcpus=2-3 root=/dev/alice -- quiet alice";

        let redacted = redactor().kernel_options(line);

        assert_eq!(redacted, "quiet isolcpus=2-3 option-1 -- option-2 option-3");
    }

    #[test]
    fn a_time_stays_and_its_place_does_not() {
        let mut redactor = redactor();
        for (text, expected) in [
            ("2026-11-20T11:00:00.5+01:00", "2026-11-20T11:00:00.5+01:00"),
            (
                "2026-11-20T10:00:00Z[Europe/Berlin]",
                "2026-11-20T10:00:00Z",
            ),
            ("2026 alice", "word-1"),
        ] {
            assert_eq!(redactor.time(text), expected);
        }
        assert!(is_version("0.1.0"));
        assert!(!is_version("0.1.0-alice") && !is_version("alice"));
    }

    #[test]
    fn a_load_of_ours_stays_and_a_command_of_its_name_does_not() {
        let load = |name: &str, command: &[&str]| LoadRun {
            name: name.into(),
            command: command.iter().map(ToString::to_string).collect(),
            usage: None,
            ended: None,
            begun_ns: None,
            throughput: None,
        };
        let mut redactor = redactor();

        let ours = redactor.load(load("fileio", &[]));
        let file = redactor.load(load("alice", &[]));
        let command = redactor.load(load("fileio", &["fileio", "-x"]));

        assert_eq!(ours, load("fileio", &[]));
        assert_eq!(file, load("load-1", &[]));
        assert_eq!(command, load("load-2", &["load-2", "argument-1"]));
    }

    #[test]
    fn our_own_programs_in_the_kernel_stay() {
        let program = |name: &str| laggard_model::ProgramCost {
            name: name.into(),
            ..laggard_model::ProgramCost::default()
        };
        let names = [
            "flight on_sched_switch",
            "on_irq_entry",
            "Alice",
            "on_alice1",
        ];
        let mut redactor = redactor();

        let cost = redactor.cost(OwnCost {
            programs: names.map(program).into(),
            ..OwnCost::default()
        });

        let kept: Vec<&str> = cost.programs.iter().map(|one| one.name.as_str()).collect();
        let expected = [
            "flight on_sched_switch",
            "on_irq_entry",
            "function-1",
            "function-2",
        ];
        assert_eq!(kept, expected);
        let known = ["on_irq_entry", "on_sched_switch"].map(String::from);
        assert_eq!(redactor.programs, known.into());
    }
}
