//! Sentences of the live views.

use laggard_answer::live::{LateActivation, LatePart};
use laggard_model::Nanos;

use super::cause;

/// Causes of a late wakeup that are listed separately.
const MAX_CAUSES: usize = 4;
/// A cause with less than this part of the latency is not listed separately.
const MIN_PART: u64 = 20;

/// Lists the causes of a late wakeup, the longest first. Small ones are added up.
pub(crate) fn causes(late: &LateActivation, write: impl Fn(Nanos) -> String) -> String {
    if late.causes.is_empty() {
        return "cause unknown".into();
    }
    let small = late.latency.ns() / MIN_PART;
    let is_listed =
        |(at, part): &(usize, &LatePart)| *at == 0 || (*at < MAX_CAUSES && part.time.ns() >= small);
    let describe = |part: &LatePart| {
        let name = cause::name(&part.cause, &[]);
        format!("{} {name}", write(part.time))
    };
    let listed = late.causes.iter().enumerate().take_while(is_listed).count();
    let (large, others) = late.causes.split_at(listed);
    let mut parts: Vec<String> = large.iter().map(describe).collect();
    match others {
        [] => {}
        [part] => parts.push(describe(part)),
        others => {
            let time = others.iter().fold(Nanos::ZERO, |sum, part| sum + part.time);
            parts.push(format!("{} {} other causes", write(time), others.len()));
        }
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use laggard_model::{CauseClass, Cpu, Line, NamedCause, Route, Service};

    use super::*;

    #[test]
    fn small_causes_are_added_up() {
        let part = |us, class, who: Option<&str>| LatePart {
            time: Nanos::from_us(us),
            cause: NamedCause::new(class, who),
            without_place: NamedCause::new(class, None),
        };
        let mut late = LateActivation {
            at: Nanos::ZERO,
            line: Line::new(Cpu(0), Service::Fifo(90), Route::Direct),
            name: "SCHED_FIFO 90".into(),
            cpu: Cpu(0),
            latency: Nanos::from_us(1_000),
            censored: false,
            stages: Vec::new(),
            number: None,
            causes: vec![
                part(700, CauseClass::Stolen, None),
                part(240, CauseClass::Softirq, Some("NET_RX")),
                part(40, CauseClass::Interrupt, Some("irq work")),
                part(20, CauseClass::ContextSwitch, None),
            ],
        };

        assert_eq!(
            causes(&late, |time| time.to_string()),
            "700us hypervisor steal; 240us softirq: NET_RX; 60us 2 other causes"
        );
        late.causes.clear();
        assert_eq!(causes(&late, |time| time.to_string()), "cause unknown");
    }
}
