//! Script of the fake probe.

use laggard_model::{Nanos, Route, STAGES, Service, Stage};
use serde::Deserialize;

use crate::probe::ProbeError;

/// Script, usually read from TOML. All times are ns since the start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Time between expiries in ns.
    pub period_ns: u64,
    #[serde(default)]
    pub dither: bool,
    #[serde(default)]
    pub seed: u64,
    #[serde(rename = "line")]
    pub lines: Vec<ScriptLine>,
    /// Spans without any running code. An expiry in a stall is served after it.
    #[serde(default, rename = "stall")]
    pub stalls: Vec<ScriptedSpan>,
    /// Spans with a slow clock: services seem to run before their expiry.
    #[serde(default, rename = "clock_step")]
    pub clock_steps: Vec<ScriptedSpan>,
}

/// One line of a script.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptLine {
    pub service: Service,
    pub route: Route,
    /// Stages and the time since the previous stage in ns, for activations 0, 1, 2, ...; the list
    /// repeats.
    pub steps: Vec<Vec<(Stage, u64)>>,
    /// Time when the line stops being served.
    #[serde(default)]
    pub starved_from_ns: Option<u64>,
}

/// Span of time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedSpan {
    pub at_ns: u64,
    pub length_ns: u64,
}

impl Script {
    /// Parses a script.
    ///
    /// # Errors
    ///
    /// Returns an error with the position if the text is not a script.
    pub fn parse(toml: &str) -> Result<Self, ProbeError> {
        toml::from_str(toml).map_err(|err| ProbeError::Script(format!("invalid script: {err}")))
    }

    pub(super) fn period(&self) -> Nanos {
        Nanos::from_ns(self.period_ns)
    }

    pub(super) fn check(&self) -> Result<(), ProbeError> {
        let wrong = |what: String| Err(ProbeError::Script(what));
        if self.period_ns < 10_000 || self.lines.is_empty() || self.lines.len() > 16 {
            return wrong("a script needs a period_ns of at least 10000 and 1 to 16 lines".into());
        }
        for line in &self.lines {
            let last = line.service.last_stage();
            if line.steps.is_empty() {
                return wrong(format!("line `{}` has no steps", line.service));
            }
            for steps in &line.steps {
                if !steps.is_sorted_by_key(|(stage, _)| stage.index()) {
                    let order: Vec<&str> = STAGES.into_iter().map(Stage::name).collect();
                    return wrong(format!(
                        "line `{}`: the stages are not in their order, which is {}",
                        line.service,
                        order.join(", ")
                    ));
                }
                if steps.last().is_none_or(|(stage, _)| *stage != last) {
                    return wrong(format!(
                        "line `{}`: the last stage must be `{last}`",
                        line.service
                    ));
                }
            }
        }
        Ok(())
    }
}

impl ScriptLine {
    /// Returns whether any activation has this stage.
    pub(super) fn has(&self, wanted: Stage) -> bool {
        let mut steps = self.steps.iter().flatten();
        steps.any(|(stage, _)| *stage == wanted)
    }
}

impl ScriptedSpan {
    /// Returns the end of the span if `since_start` lies in it.
    pub(super) fn end_around(self, since_start: u64) -> Option<u64> {
        let end = self.at_ns + self.length_ns;
        (self.at_ns..end).contains(&since_start).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(steps: &str) -> String {
        format!(
            "period_ns = 1000000\n[[line]]\nservice = \"fifo:90\"\nroute = \"direct\"\nsteps = [[{steps}]]\n"
        )
    }

    #[test]
    fn unknown_stage_is_refused_with_a_list_of_stages() {
        let err = Script::parse(&script(r#"["irq_thred", 5], ["user", 7]"#)).unwrap_err();

        let message = err.to_string();
        assert!(message.contains("unknown variant `irq_thred`"), "{message}");
        for stage in STAGES {
            assert!(
                message.contains(&format!("`{stage}`")),
                "{stage}: {message}"
            );
        }
    }

    #[test]
    fn stages_out_of_order_are_refused_with_the_order() {
        let script = Script::parse(&script(r#"["waking", 5], ["irq", 5], ["user", 7]"#)).unwrap();

        let message = script.check().unwrap_err().to_string();

        assert!(
            message.contains("which is irq, irq_elsewhere, irq_thread, "),
            "{message}"
        );
    }
}
