//! Intermediate stages that are recorded, and the programs that they need.

use laggard_model::{Caveat, CaveatKind, STAGES_ON_THE_WAY, Stage};

/// Intermediate stages that a recording should have.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    /// One bit per stage, at its index.
    asked: u16,
}

/// Returns the bits of `stages`.
fn bits(stages: &[Stage]) -> u16 {
    stages
        .iter()
        .fold(0, |bits, stage| bits | 1 << stage.index())
}

impl Default for Stamps {
    fn default() -> Self {
        Self {
            asked: bits(&STAGES_ON_THE_WAY),
        }
    }
}

impl Stamps {
    /// Selects the stages in `stages`.
    pub fn from_stages(stages: &[Stage]) -> Self {
        Self {
            asked: bits(stages),
        }
    }

    /// Returns whether a recording should have `stage`, if `stage` is intermediate.
    pub fn has(self, stage: Stage) -> bool {
        let always = !bits(&STAGES_ON_THE_WAY);
        (self.asked | always) & (1 << stage.index()) != 0
    }

    /// Returns whether the programs of the timer softirq are needed. On the deferred route they
    /// record the interrupt, too.
    pub fn need_raise(self) -> bool {
        self.has(Stage::Raise) || self.has(Stage::Irq)
    }

    /// Returns whether the program of a timer's callback is needed. On the direct route it
    /// records the interrupt, too.
    pub fn need_expire(self) -> bool {
        self.has(Stage::Expire) || self.has(Stage::Irq)
    }

    /// Returns the warning that names the stages left out on request.
    pub fn caveat(self) -> Option<Caveat> {
        let absent: Vec<&str> = STAGES_ON_THE_WAY
            .into_iter()
            .filter(|&stage| !self.has(stage))
            .map(Stage::name)
            .collect();
        (!absent.is_empty()).then(|| {
            Caveat::new(
                CaveatKind::AbilityAbsent,
                format!("stages left out by --stages: {}", absent.join(", ")),
                "to record all stages, omit --stages; each stage adds a BPF program",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_is_absent_if_not_requested_and_end_stages_are_always_present() {
        let some = Stamps::from_stages(&[Stage::Irq, Stage::Running]);

        let has = STAGES_ON_THE_WAY
            .into_iter()
            .filter(|&stage| some.has(stage));
        assert!(has.eq([Stage::Irq, Stage::Running]));
        assert!(some.has(Stage::User));
        let stamps = Stamps::default();
        assert!(STAGES_ON_THE_WAY.into_iter().all(|stage| stamps.has(stage)));
    }

    /// Each stage needs a program in the kernel that costs time.
    #[test]
    fn program_is_needed_for_its_stage_and_for_the_interrupt_that_it_records() {
        let needs = |stages: &[Stage]| {
            let stamps = Stamps::from_stages(stages);
            (stamps.need_raise(), stamps.need_expire())
        };

        assert_eq!(needs(&[]), (false, false));
        assert_eq!(needs(&[Stage::Waking, Stage::Running]), (false, false));
        assert_eq!(needs(&[Stage::Raise]), (true, false));
        assert_eq!(needs(&[Stage::Expire]), (false, true));
        assert_eq!(needs(&[Stage::Irq]), (true, true));
    }

    #[test]
    fn caveat_names_the_stages_left_out() {
        let but_one: Vec<Stage> = STAGES_ON_THE_WAY
            .into_iter()
            .filter(|&stage| stage != Stage::Waking)
            .collect();

        let caveat = Stamps::from_stages(&but_one).caveat().unwrap();

        assert_eq!(caveat.kind, CaveatKind::AbilityAbsent);
        let what = format!("stages left out by --stages: {}", Stage::Waking.name());
        assert_eq!(caveat.what, what);
        assert!(Stamps::default().caveat().is_none());
    }
}
