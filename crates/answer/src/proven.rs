//! Measured effect of one of doctor's remedies on a machine.

use laggard_model::name::line_name;
use laggard_model::text::{Unit, listed, span};
use laggard_model::{CaveatKind, Host, LoadLabel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{Change, CompareReport, Difference};

/// Effect of a remedy on late wakeups, and the machine.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ProvenEffect {
    /// Warning that the remedy concerns.
    pub kind: CaveatKind,
    /// Setting that it changes, in the notation of sysctl(8).
    pub setting: String,
    /// Value without the remedy, the reference of the effect.
    pub without: String,
    /// Value with the remedy.
    pub with: String,
    /// Date of the measurement, such as `2026-11-20`.
    pub measured_on: String,
    /// Host name.
    pub node: String,
    /// Processor of the machine.
    pub processor: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Build of the kernel.
    pub build: String,
    /// Load during the measurement; empty if an earlier version did not keep it.
    #[serde(default)]
    pub load: String,
    /// Effect, in words.
    pub effect: String,
    /// Measurement method, in words.
    pub measured_by: String,
}

impl ProvenEffect {
    /// Returns the effect of the remedy of this kind from a comparison of the unchanged machine
    /// with it; `None` if the comparison does not concern a setting.
    pub fn of(
        report: &CompareReport,
        kind: CaveatKind,
        host: &Host,
        measured_on: String,
    ) -> Option<Self> {
        let Difference {
            what,
            first,
            second,
        } = report.changed.clone()?;
        Some(Self {
            kind,
            setting: what,
            without: first.join(" / "),
            with: second.join(" / "),
            measured_on,
            node: host.node.clone(),
            processor: host.processor.model.clone(),
            kernel: host.kernel.clone(),
            build: host.build.clone(),
            load: report.first.load.as_str().into(),
            effect: effect(report),
            measured_by: measured_by(report),
        })
    }

    /// Returns true if it was measured on `host` with the present kernel.
    pub fn is_of(&self, host: &Host) -> bool {
        let here = [&host.node, &host.processor.model, &host.kernel, &host.build];
        [&self.node, &self.processor, &self.kernel, &self.build] == here
    }

    /// Returns true if it repeats the trial of `other`: the same machine and the same load.
    pub fn replaces(&self, other: &Self) -> bool {
        let trial = |effect: &Self| {
            let words = [&effect.setting, &effect.without, &effect.with, &effect.load];
            let host = [
                &effect.node,
                &effect.processor,
                &effect.kernel,
                &effect.build,
            ];
            (words.map(String::clone), host.map(String::clone))
        };
        trial(self) == trial(other)
    }
}

/// Writes a ratio of rates with its interval, or with one limit if a side was never late.
fn times(ratio: Option<f64>, low: f64, high: Option<f64>) -> String {
    let factor = |value: f64| match value {
        10.0.. => format!("{value:.0}"),
        1.0..10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    match (ratio, high) {
        (Some(ratio), Some(high)) if ratio > 0.0 => {
            let [ratio, low, high] = [ratio, low, high].map(factor);
            format!("{ratio} times as often ({low} to {high})")
        }
        (Some(_), Some(high)) => format!("at most {} times as often", factor(high)),
        _ => format!("more than {} times as often", factor(low)),
    }
}

/// Describes the effect on each series.
fn effect(report: &CompareReport) -> String {
    let levels = || {
        let services = report.services.iter();
        services.flat_map(|service| service.levels.iter().map(move |level| (service, level)))
    };
    let changed: Vec<String> = levels()
        .filter(|(_, level)| matches!(level.change, Change::Worse | Change::Better))
        .map(|(one, level)| {
            format!(
                "with it {} is later than {} {}",
                line_name(one.service, one.route),
                Unit::Auto.write_nanos(level.level_ns),
                times(level.ratio, level.ratio_low, level.ratio_high)
            )
        })
        .collect();
    let mut equal: Vec<String> = levels()
        .filter(|(_, level)| level.change == Change::Equivalent)
        .map(|(one, _)| line_name(one.service, one.route))
        .collect();
    equal.dedup();
    let mut parts = changed;
    if !equal.is_empty() {
        let times = report.equal;
        parts.push(format!("equal within {times} times: {}", listed(&equal)));
    }
    if parts.is_empty() {
        "no difference was found, which is no proof that there is none".into()
    } else {
        parts.join("; ")
    }
}

fn measured_by(report: &CompareReport) -> String {
    let load = if report.first.load == LoadLabel::none() {
        "no load of ours".into()
    } else {
        format!("load {}", report.first.load.as_str())
    };
    let [without, with] = [&report.first, &report.second].map(|side| span(side.duration_ns));
    format!("{without} without and {with} with it, {load}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect() -> ProvenEffect {
        let text = |text: &str| text.to_owned();
        ProvenEffect {
            kind: CaveatKind::Swap,
            setting: text("vm.swappiness"),
            without: text("60"),
            with: text("10"),
            measured_on: text("2026-11-20"),
            node: text("carrel"),
            processor: text("Fast 9000"),
            kernel: text("6.12.9"),
            build: text("#1 SMP PREEMPT_DYNAMIC"),
            load: text("compile"),
            effect: text("no difference was found"),
            measured_by: text("2 min without and with it"),
        }
    }

    fn host() -> Host {
        let effect = effect();
        let mut host = Host {
            node: effect.node,
            kernel: effect.kernel,
            build: effect.build,
            ..Host::default()
        };
        host.processor.model = effect.processor;
        host
    }

    #[test]
    fn an_effect_holds_on_the_same_machine_with_the_same_kernel_only() {
        let changes: [fn(&mut Host); 4] = [
            |host| host.node = "other".into(),
            |host| host.processor.model = "Slow 1".into(),
            |host| host.kernel = "6.12.10".into(),
            |host| host.build = "#2 SMP PREEMPT_RT".into(),
        ];

        assert!(effect().is_of(&host()));
        for change in changes {
            let mut other = host();
            change(&mut other);
            assert!(!effect().is_of(&other), "{other:?}");
        }
    }

    #[test]
    fn a_trial_replaces_the_one_before_of_the_same_values_and_no_other() {
        let again = ProvenEffect {
            measured_on: "2026-11-22".into(),
            effect: "with it fifo:90 is later".into(),
            ..effect()
        };
        let other = ProvenEffect {
            with: "1".into(),
            ..again.clone()
        };
        let under_another_load = ProvenEffect {
            load: "fileio".into(),
            ..again.clone()
        };

        assert!(again.replaces(&effect()));
        assert!(!other.replaces(&effect()));
        assert!(!under_another_load.replaces(&effect()));
    }
}
