//! Conversion of the arguments of `record` and `top` to a plan.

use laggard_record::{Access, Destination};
use laggard_session::{LoadChoice, Plan};

use super::RecordArgs;

impl From<&RecordArgs> for Plan {
    fn from(args: &RecordArgs) -> Self {
        let has_command = !args.command.is_empty();
        let default = Self::default();
        Self {
            probe: args.backend.clone(),
            cpus: args.cpus.clone(),
            services: args.services.clone(),
            optional: if args.skip_unavailable {
                args.services.clone().unwrap_or_default()
            } else {
                Vec::new()
            },
            period: args.period.unwrap_or(default.period),
            dither: !args.no_dither,
            drive: args.source.clone(),
            stages: args.stages.as_ref().map(|stages| stages.0.clone()),
            hold_cpu_awake: args.hold_cpu_awake,
            duration: args.duration.or((!has_command).then_some(Self::DURATION)),
            load: match &args.load {
                Some(name) => LoadChoice::Named(name.clone()),
                None if has_command => LoadChoice::Command(args.command.clone()),
                None => LoadChoice::None,
            },
            load_cpus: args.load_cpus.clone(),
            load_user: args.load_user,
            recording: args.output.clone().map(Destination::from),
            access: if args.share {
                Access::Shared
            } else {
                Access::Private
            },
            keep: args.keep,
            threshold: args.threshold,
            episodes: args.episodes,
            max_episodes_per_minute: args.max_episodes_per_minute,
            stack_rate: args.stack_rate,
            handlers: args.handlers || !args.functions.is_empty(),
            functions: args.functions.clone(),
            ..default
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use laggard_model::Nanos;

    use super::*;
    use crate::args::{Args, Command, MeasureCommand};

    fn plan_of(words: &[&str]) -> Plan {
        let words = ["laggard", "record"].iter().chain(words);
        match Args::try_parse_from(words).unwrap().command {
            Some(Command::Measure(MeasureCommand::Record(args))) => Plan::from(&args.record),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn record_without_options_is_the_default_plan() {
        assert_eq!(plan_of(&[]), Plan::default());
    }

    #[test]
    fn command_ends_the_recording_unless_a_duration_is_given() {
        let command = LoadChoice::Command(vec!["make".into(), "-j8".into()]);

        let plan = plan_of(&["--", "make", "-j8"]);
        let limited = plan_of(&["--duration=5s", "--", "make", "-j8"]);

        assert_eq!((plan.duration, &plan.load), (None, &command));
        assert_eq!(limited.duration, Some(Nanos::from_secs(5)));
        assert_eq!(limited.load, command);
    }
}
