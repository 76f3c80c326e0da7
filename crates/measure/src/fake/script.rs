//! What the fake probe is to play.

use laggard_model::{Nanos, Route, STAGES, Service, Stage};
use serde::Deserialize;

use crate::probe::ProbeError;

/// A script, usually read from TOML. All times are ns since the start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Time between expiries.
    pub period_ns: u64,
    /// Whether expiries are dithered.
    #[serde(default)]
    pub dither: bool,
    /// Seed of the dither.
    #[serde(default)]
    pub seed: u64,
    /// The lines.
    #[serde(rename = "line")]
    pub lines: Vec<ScriptLine>,
    /// Times in which nothing runs; an expiry in one is served after it.
    #[serde(default, rename = "stall")]
    pub stalls: Vec<ScriptedSpan>,
    /// Times in which the clock of the services is so far behind that they
    /// seem to run before their expiry.
    #[serde(default, rename = "clock_step")]
    pub clock_steps: Vec<ScriptedSpan>,
}

/// One line of a script.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptLine {
    /// The service that runs.
    pub service: Service,
    /// How it is reached.
    pub route: Route,
    /// Stages and the time from the stage before, ns, for activations 0, 1,
    /// 2, ... and from the beginning again.
    pub steps: Vec<Vec<(Stage, u64)>>,
    /// From when on the line is not served any more.
    #[serde(default)]
    pub starved_from_ns: Option<u64>,
}

/// A part of the time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedSpan {
    /// When it begins.
    pub at_ns: u64,
    /// How long it lasts.
    pub length_ns: u64,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// When the text is no script; the error says where.
    pub fn parse(toml: &str) -> Result<Self, ProbeError> {
        toml::from_str(toml)
            .map_err(|err| ProbeError::Script(format!("the script is wrong: {err}")))
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
    /// Whether any activation has this stage.
    pub(super) fn has(&self, wanted: Stage) -> bool {
        let mut steps = self.steps.iter().flatten();
        steps.any(|(stage, _)| *stage == wanted)
    }
}

impl ScriptedSpan {
    /// When it ends if `since_start` lies in it.
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
    fn a_stage_that_there_is_not_is_refused_with_those_that_there_are() {
        let err = Script::parse(&script(r#"["irq_thred", 5], ["user", 7]"#)).unwrap_err();

        let said = err.to_string();
        assert!(said.contains("unknown variant `irq_thred`"), "{said}");
        for stage in STAGES {
            assert!(said.contains(&format!("`{stage}`")), "{stage}: {said}");
        }
    }

    #[test]
    fn stages_out_of_their_order_are_refused_with_the_order() {
        let script = Script::parse(&script(r#"["waking", 5], ["irq", 5], ["user", 7]"#)).unwrap();

        let said = script.check().unwrap_err().to_string();

        assert!(
            said.contains("which is irq, irq_elsewhere, irq_thread, "),
            "{said}"
        );
    }
}
