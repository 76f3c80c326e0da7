//! Measured effect of one of doctor's remedies on a machine.

use laggard_model::{CaveatKind, Host, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{Change, CompareReport, Difference, ServiceComparison};

/// Effect of a remedy on late wakeups, and the machine.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
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
    pub processor: String,
    pub kernel: String,
    /// Build of the kernel.
    pub build: String,
    /// Load during the measurement; empty if an earlier version did not keep it.
    #[serde(default)]
    pub load: String,
    pub changed: Vec<ChangedSeries>,
    /// Services and routes that it did not change.
    pub equal: Vec<(Service, Route)>,
    /// Maximum ratio of rates that counts as equal.
    pub equal_within: f64,
    /// Measured time without the remedy.
    pub without_ns: Nanos,
    pub with_ns: Nanos,
}

/// Change of the rate of late wakeups of a series.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ChangedSeries {
    pub service: Service,
    pub route: Route,
    /// Latency threshold of the counted wakeups.
    pub level_ns: Nanos,
    /// Rate with the remedy divided by the rate without; absent if a side was never late.
    #[serde(default)]
    pub ratio: Option<f64>,
    /// Lower end of its interval.
    pub ratio_low: f64,
    /// Upper end; absent without an upper limit.
    #[serde(default)]
    pub ratio_high: Option<f64>,
}

impl ProvenEffect {
    /// Returns the effect of the remedy of this kind from a comparison of the unchanged machine
    /// with it; `None` if the comparison does not concern a setting.
    pub fn from_report(
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
            changed: changed(report),
            equal: equal(report),
            equal_within: report.equal,
            without_ns: report.first.duration_ns,
            with_ns: report.second.duration_ns,
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

/// Returns the levels of the series that changed.
fn changed(report: &CompareReport) -> Vec<ChangedSeries> {
    let levels = report.services.iter().flat_map(|series| {
        let levels = series.levels.iter();
        let changed = levels.filter(|level| matches!(level.change, Change::Worse | Change::Better));
        changed.map(|level| ChangedSeries {
            service: series.service,
            route: series.route,
            level_ns: level.level_ns,
            ratio: level.ratio,
            ratio_low: level.ratio_low,
            ratio_high: level.ratio_high,
        })
    });
    levels.collect()
}

/// Returns the series with an equal level.
fn equal(report: &CompareReport) -> Vec<(Service, Route)> {
    let is_equal = |series: &&ServiceComparison| {
        let mut levels = series.levels.iter();
        levels.any(|level| level.change == Change::Equivalent)
    };
    let series = report.services.iter().filter(is_equal);
    series
        .map(|series| (series.service, series.route))
        .collect()
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
            changed: Vec::new(),
            equal: Vec::new(),
            equal_within: 1.25,
            without_ns: Nanos::from_secs(120),
            with_ns: Nanos::from_secs(120),
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
    fn a_trial_replaces_only_an_earlier_trial_of_the_same_values() {
        let again = ProvenEffect {
            measured_on: "2026-11-22".into(),
            equal: vec![(Service::Fifo(90), Route::Direct)],
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
