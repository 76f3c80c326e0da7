//! Which stages on the way are asked for, and what that takes.

use laggard_model::{Caveat, CaveatKind, STAGES_ON_THE_WAY, Stage};

/// The stages on the way that a recording is to have.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    /// A bit for each, at its index.
    asked: u16,
}

/// The bits of `stages`.
fn bits(stages: &[Stage]) -> u16 {
    stages
        .iter()
        .fold(0, |bits, stage| bits | 1 << stage.index())
}

impl Default for Stamps {
    /// All of them.
    fn default() -> Self {
        Self {
            asked: bits(&STAGES_ON_THE_WAY),
        }
    }
}

impl Stamps {
    /// Those `asked` for.
    pub fn of(asked: &[Stage]) -> Self {
        Self { asked: bits(asked) }
    }

    /// Whether a recording is to have `stage`, if that is one on the way.
    pub fn has(self, stage: Stage) -> bool {
        let always = !bits(&STAGES_ON_THE_WAY);
        (self.asked | always) & (1 << stage.index()) != 0
    }

    /// Whether the programs of the timer softirq are needed: on the deferred
    /// route they tell the interrupt as well.
    pub fn need_raise(self) -> bool {
        self.has(Stage::Raise) || self.has(Stage::Irq)
    }

    /// Whether the program of a timer's callback is needed: on the direct
    /// route it tells the interrupt as well.
    pub fn need_expire(self) -> bool {
        self.has(Stage::Expire) || self.has(Stage::Irq)
    }

    /// What a recording lacks because it was not asked for.
    pub fn caveat(self) -> Option<Caveat> {
        let absent: Vec<&str> = STAGES_ON_THE_WAY
            .into_iter()
            .filter(|&stage| !self.has(stage))
            .map(Stage::name)
            .collect();
        (!absent.is_empty()).then(|| {
            Caveat::new(
                CaveatKind::AbilityAbsent,
                format!("stages not asked for: {}", absent.join(", ")),
                "without --stages there are all, and each costs the time of a program",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_was_not_asked_for_is_none_and_one_off_the_way_always_is() {
        let some = Stamps::of(&[Stage::Irq, Stage::Running]);

        let has = STAGES_ON_THE_WAY.into_iter().filter(|&one| some.has(one));
        assert!(has.eq([Stage::Irq, Stage::Running]));
        assert!(some.has(Stage::User));
        let all = Stamps::default();
        assert!(STAGES_ON_THE_WAY.into_iter().all(|one| all.has(one)));
    }

    /// Each is a program in the kernel that costs time.
    #[test]
    fn a_program_is_needed_for_its_own_stage_and_for_the_interrupt_it_tells() {
        let needs = |asked: &[Stage]| {
            let stamps = Stamps::of(asked);
            (stamps.need_raise(), stamps.need_expire())
        };

        assert_eq!(needs(&[]), (false, false));
        assert_eq!(needs(&[Stage::Waking, Stage::Running]), (false, false));
        assert_eq!(needs(&[Stage::Raise]), (true, false));
        assert_eq!(needs(&[Stage::Expire]), (false, true));
        assert_eq!(needs(&[Stage::Irq]), (true, true));
    }

    #[test]
    fn what_was_not_asked_for_is_named() {
        let but_one: Vec<Stage> = STAGES_ON_THE_WAY
            .into_iter()
            .filter(|&one| one != Stage::Waking)
            .collect();

        let caveat = Stamps::of(&but_one).caveat().unwrap();

        assert_eq!(caveat.kind, CaveatKind::AbilityAbsent);
        let what = format!("stages not asked for: {}", Stage::Waking.name());
        assert_eq!(caveat.what, what);
        assert!(Stamps::default().caveat().is_none());
    }
}
