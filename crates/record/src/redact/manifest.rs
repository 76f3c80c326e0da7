//! Manifest without names. A test compares the replaced texts with the schema.

use laggard_model::{
    AskedApplication, Caveat, CaveatKind, Clock, Host, LoadRun, Manifest, OwnCost, SCHEMA_VERSION,
    Service, State,
};

use super::known;
use super::names::{NameSort, Redactor};

/// Clocks of imported traces.
const TRACE_CLOCKS: [&str; 3] = ["cycle counter", "performance counter", "system time"];

/// Public units of loads.
const UNITS: [&str; 7] = [
    "bytes",
    "frames",
    "messages",
    "operations",
    "packets",
    "runs",
    "steps",
];
/// Words of laggard's command line, in addition to its options.
const COMMANDS: &str = "record rehearse compare check provoke top import all tail on off auto none user bpf \
    direct deferred always office workstation game web";

impl Redactor {
    /// Returns the manifest without names. Its segments stay unchanged.
    pub(super) fn manifest(&mut self, manifest: &Manifest) -> Manifest {
        let mut public = manifest.clone();
        public.schema = SCHEMA_VERSION;
        let version = &manifest.version;
        public.version = self.unless(is_version(version), NameSort::Build, version);
        if let State::Failed { error } = &mut public.state {
            *error = self.sentence(error);
        }
        public.command = self.command(&manifest.command);
        let clock = &mut public.clock;
        clock.start_wall = self.time(&clock.start_wall);
        if !TRACE_CLOCKS.contains(&clock.name.as_str()) {
            clock.name = Clock::monotonic(clock.start_ns, "").name;
        }
        let lines = manifest.lines.iter();
        public.lines = lines.map(|&line| self.line(line)).collect();
        public.load = public.load.map(|load| self.load(load));
        // The name as sentences contain it, and its replacement.
        let loads = manifest.load.as_ref().zip(public.load.as_ref());
        let loads = loads.map(|(load, public)| (load.name.clone(), public.name.clone()));
        for caveat in &mut public.caveats {
            self.caveat(caveat, loads.as_ref());
        }
        public.application = public
            .application
            .map(|application| self.application(application));
        self.host(&mut public.host);
        public.cost = self.cost(public.cost);
        public
    }

    /// Returns a time without its time zone name.
    fn time(&mut self, text: &str) -> String {
        let is_of_time =
            |character: char| character.is_ascii_digit() || "-:.TZ+".contains(character);
        // The name of a time zone may follow; it is a place.
        let time = text.split_once('[').map_or(text, |(time, _)| time);
        self.unless(time.chars().all(is_of_time), NameSort::Word, time)
    }

    /// Returns laggard's command line: its options and quantities stay, and the words
    /// after `--` are a private command.
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

    /// Returns the value of an option or the name of a command, without a private name.
    fn value(&mut self, value: &str) -> String {
        let is_application = |part: &str| {
            let mut applications = self.public.applications.iter();
            applications.any(|application| application.name == part)
        };
        let is_public = |part: &str| {
            known::is_quantity(part)
                || matches!(part.parse::<Service>(), Ok(service) if !matches!(service, Service::Task(_) | Service::Traced(_)))
                || self.public.loads.contains(part)
                || is_application(part)
                || COMMANDS.split_whitespace().any(|command| command == part)
        };
        let is_known = value.split(',').all(is_public);
        self.unless(is_known, NameSort::Argument, value)
    }

    fn load(&mut self, mut load: LoadRun) -> LoadRun {
        let is_public = load.command.is_empty() && self.public.loads.contains(&load.name);
        for (number, word) in load.command.iter_mut().enumerate() {
            let sort = match number {
                0 => NameSort::Load,
                _ => NameSort::Argument,
            };
            *word = self.instead(sort, word);
        }
        load.name = self.unless(is_public, NameSort::Load, &load.name);
        load.ended = load.ended.map(|how| self.sentence(&how));
        if let Some(done) = &mut load.throughput {
            let is_known = UNITS.contains(&done.unit.as_str());
            done.unit = self.unless(is_known, NameSort::Unit, &done.unit);
        }
        load
    }

    /// Returns an application without its name, unless it is a public one.
    pub fn application(&mut self, mut application: AskedApplication) -> AskedApplication {
        let is_public = self.public.applications.contains(&application);
        let AskedApplication { name, source, .. } = &mut application;
        *name = self.unless(is_public, NameSort::Application, name);
        *source = self.unless(is_public, NameSort::Word, source);
        application
    }

    fn host(&mut self, host: &mut Host) {
        host.node = self.instead(NameSort::Host, &host.node);
        if let Some(name) = &mut host.distribution {
            *name = self.unless(known::is_distribution(name), NameSort::Distribution, name);
        }
        if !is_windows(&host.kernel) {
            host.kernel = self.parts(&host.kernel, '-');
        }
        host.build = self.parts(&host.build, ' ');
        for line in &mut host.config {
            *line = self.setting(line);
        }
        host.command_line = self.kernel_options(&host.command_line);
    }

    /// Returns a kernel version without private words of its builder.
    fn parts(&mut self, version: &str, between: char) -> String {
        let parts = version.split(between);
        let parts: Vec<String> = parts
            .map(|part| self.unless(known::is_release(part), NameSort::Build, part))
            .collect();
        parts.join(&between.to_string())
    }

    /// Returns a line of the kernel's configuration; its texts are private.
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
            // The rest is for the init program, and may be a password.
            own &= word != "--";
            let is_known = own && known::is_kernel_option(word);
            words.push(self.unless(is_known || word == "--", NameSort::Option, word));
        }
        words.join(" ")
    }

    fn cost(&mut self, mut cost: OwnCost) -> OwnCost {
        for program in &mut cost.programs {
            let is_ours = |character: char| {
                character.is_ascii_lowercase() || character == '_' || character == ' '
            };
            let is_ours = program.name.chars().all(is_ours);
            if let (true, Some(name)) = (is_ours, program.name.rsplit(' ').next()) {
                self.programs.insert(name.into());
            }
            program.name = self.unless(is_ours, NameSort::Function, &program.name);
        }
        cost
    }

    fn caveat(&mut self, caveat: &mut Caveat, load: Option<&(String, String)>) {
        let what = &mut caveat.what;
        match caveat.kind {
            // These contain names of other programs, or messages of the system.
            CaveatKind::OtherTracers => *what = self.tracers(what),
            CaveatKind::ExternalSource
            | CaveatKind::SoftirqThread
            | CaveatKind::Tracer
            | CaveatKind::AbilityAbsent
            | CaveatKind::NoBpf
            | CaveatKind::ServiceAbsent
            | CaveatKind::MemoryLock
            | CaveatKind::Inherited => *what = self.sentence(what),
            CaveatKind::LoadEnded => *what = self.load_ended(what, load),
            // These describe laggard's actions or settings of the machine.
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
            | CaveatKind::NoPmu => {}
        }
    }

    /// Returns a sentence that names processes, each before ` (process 7)`. They are
    /// replaced as their threads are, even if the name is a word that laggard uses.
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

    /// Returns a sentence around the load's name, which is replaced as elsewhere.
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

/// Returns whether the text is Windows with its version, which does not identify the
/// owner.
fn is_windows(kernel: &str) -> bool {
    let version = kernel.strip_prefix("Windows ");
    version.is_some_and(|text| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}

/// Returns whether the text has the form `1.2.3`.
fn is_version(text: &str) -> bool {
    let plain = |character: char| character.is_ascii_digit() || character == '.';
    text.chars().all(plain)
}

/// Returns whether the text has the form `--option`, in lower case.
fn is_option(word: &str) -> bool {
    let name = word.strip_prefix("--").unwrap_or_default();
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// Splits `-oVALUE` into the option and its value.
fn short_option(word: &str) -> Option<(&str, &str)> {
    let letter = word.strip_prefix('-')?.chars().next()?;
    letter.is_ascii_alphabetic().then(|| word.split_at(2))
}

#[cfg(test)]
mod tests {
    use super::super::PublicNames;
    use super::*;

    #[test]
    fn tracing_process_is_replaced_as_its_threads_are() {
        let mut redactor = Redactor::default();
        let thread = redactor.thread("script");

        let sentence = redactor.tracers(
            "other programs trace or sample this machine: BPF programs of script (process 51) on sched_switch (pay); perf events of my perf (process 7), script (process 51)",
        );

        assert_eq!(
            sentence,
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
    fn public_application_stays_and_a_private_one_of_its_name_does_not() {
        let mut redactor = redactor();

        let ours = redactor.application(application("jack-128", "JACK"));
        let theirs = redactor.application(application("jack-128", "alice told me"));

        assert_eq!(ours, application("jack-128", "JACK"));
        assert_eq!(theirs, application("application-1", "word-1"));
    }

    #[test]
    fn command_line_keeps_options_quantities_and_public_names() {
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
    fn kernel_options_that_affect_latency_stay_with_public_values() {
        let line = "quiet isolcpus=2-3 root=/dev/alice -- quiet alice";

        let redacted = redactor().kernel_options(line);

        assert_eq!(redacted, "quiet isolcpus=2-3 option-1 -- option-2 option-3");
    }

    #[test]
    fn time_stays_without_its_place() {
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
    fn builtin_load_stays_and_a_command_of_its_name_does_not() {
        let load = |name: &str, command: &[&str]| LoadRun {
            name: name.into(),
            command: command.iter().map(ToString::to_string).collect(),
            ..LoadRun::default()
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
    fn bpf_programs_of_laggard_stay() {
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

        let kept: Vec<&str> = cost
            .programs
            .iter()
            .map(|program| program.name.as_str())
            .collect();
        let expected = [
            "flight on_sched_switch",
            "on_irq_entry",
            "function-1",
            "function-2",
        ];
        assert_eq!(kept, expected);
        let names = ["on_irq_entry", "on_sched_switch"].map(String::from);
        assert_eq!(redactor.programs, names.into());
    }
}
