//! Spans without activity on any CPU: a stop from outside.

use laggard_model::{Nanos, Span};

/// Returns the spans longer than `min` without a sign in a CPU's `signs` or in any of `others`. All
/// signs are in order of time. Only gaps that end after `from` count.
///
/// The other CPUs need not be silent for the whole gap: a hypervisor stops its CPUs one after the
/// other, and resumes them one after the other.
pub(super) fn common_silences(
    signs: &[Nanos],
    others: &[Vec<Nanos>],
    from: Nanos,
    min: Nanos,
) -> Vec<Span> {
    let gaps = signs.windows(2).map(|two| Span::new(two[0], two[1]));
    let mut still: Vec<Span> = gaps
        .filter(|gap| gap.to_ns >= from && is_longer(gap, min))
        .collect();
    for other in others {
        still = still
            .iter()
            .flat_map(|span| gaps_within(span, other))
            .filter(|gap| is_longer(gap, min))
            .collect();
    }
    still
}

/// Splits `span` at the signs within it.
fn gaps_within(span: &Span, signs: &[Nanos]) -> Vec<Span> {
    let first = signs.partition_point(|&sign| sign <= span.from_ns);
    let end = signs.partition_point(|&sign| sign < span.to_ns).max(first);
    let mut from_ns = span.from_ns;
    let mut gaps = Vec::new();
    for &to_ns in signs[first..end].iter().chain([&span.to_ns]) {
        gaps.push(Span::new(from_ns, to_ns));
        from_ns = to_ns;
    }
    gaps
}

fn is_longer(span: &Span, min: Nanos) -> bool {
    span.to_ns > span.from_ns + min
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Nanos = Nanos::from_ms(3);

    fn ms(times: &[u64]) -> Vec<Nanos> {
        times.iter().map(|&time| Nanos::from_ms(time)).collect()
    }

    fn silences(signs: &[u64], others: &[&[u64]]) -> Vec<(u64, u64)> {
        let others: Vec<Vec<Nanos>> = others.iter().map(|other| ms(other)).collect();
        common_silences(&ms(signs), &others, Nanos::from_ms(5), MIN)
            .iter()
            .map(|span| (span.from_ns.ns() / 1_000_000, span.to_ns.ns() / 1_000_000))
            .collect()
    }

    #[test]
    fn cpus_that_stop_and_resume_at_different_times_are_silent_in_between() {
        let own = [8, 10, 30, 31];

        assert_eq!(silences(&own, &[&[9, 12, 26, 28, 29]]), [(12, 26)]);
        assert_eq!(
            silences(&own, &[&[9, 12, 27], &[11, 20, 33]]),
            [(12, 20), (20, 27)]
        );
    }

    #[test]
    fn cpu_that_is_silent_alone_does_not_count() {
        let own = [8, 10, 30, 31];

        assert_eq!(silences(&own, &[&[12, 15, 18, 21, 24, 27]]), []);
        assert_eq!(silences(&own, &[&[10, 30], &[12, 15, 18, 21, 24, 27]]), []);
    }

    #[test]
    fn gap_that_ended_before_does_not_count() {
        assert_eq!(silences(&[0, 4, 6, 7], &[&[0, 7]]), []);
        assert_eq!(silences(&[0, 5], &[&[]]), [(0, 5)]);
    }
}
