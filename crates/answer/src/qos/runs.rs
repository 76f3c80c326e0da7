//! The recorded service that would run an application.

use laggard_model::{Route, Service};

/// Finds the series that would run an application: its service, woken directly, or otherwise
/// the nearest recorded thread. An application without a service gets the thread with the
/// highest priority.
pub fn runs(
    asked: Option<Service>,
    lines: impl IntoIterator<Item = (Service, Route)>,
) -> Option<(Service, Route)> {
    let lines: Vec<(Service, Route)> = lines.into_iter().collect();
    let exact = |route: Route| {
        let line = (asked?, route);
        lines.contains(&line).then_some(line)
    };
    let threads = || {
        let direct = |series: &&(Service, Route)| series.0.is_thread() && series.1 == Route::Direct;
        lines.iter().filter(direct).copied()
    };
    let nearest = || match asked {
        Some(Service::Fifo(wanted)) => threads()
            .filter(|thread| !thread.0.is_normal_thread())
            // The less urgent of two equally near services, so that the result is not optimistic.
            .min_by_key(|series| (series.0.urgency().abs_diff(wanted), series.0.urgency())),
        None => threads().max_by_key(|thread| thread.0.urgency()),
        Some(_) => None,
    };
    let normal = || match asked {
        Some(Service::Fifo(_)) => threads().next(),
        _ => None,
    };
    exact(Route::Direct)
        .or_else(|| exact(Route::Deferred))
        .or_else(nearest)
        .or_else(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn application_runs_as_its_service_or_the_nearest() {
        let fifo = |priority| (Service::Fifo(priority), Route::Direct);
        let other = (Service::Other, Route::Direct);
        let series = [
            (Service::Irq, Route::Direct),
            fifo(90),
            fifo(50),
            other,
            (Service::Fifo(95), Route::Deferred),
            (Service::Worker, Route::Deferred),
        ];

        for (asked, lines, expected) in [
            (None, &series[..], Some(fifo(90))),
            (Some(Service::Fifo(50)), &series, Some(fifo(50))),
            (Some(Service::Fifo(80)), &series, Some(fifo(90))),
            (Some(Service::Fifo(70)), &series, Some(fifo(50))),
            (Some(Service::Other), &series, Some(other)),
            (Some(Service::Worker), &series, Some(series[5])),
            (Some(Service::Softirq), &series, None),
            (Some(Service::Other), &series[..3], None),
            // Without rights there are normal threads only.
            (None, &[other], Some(other)),
            (Some(Service::Fifo(90)), &[other], Some(other)),
            (None, &series[..1], None),
        ] {
            assert_eq!(runs(asked, lines.to_vec()), expected, "for {asked:?}");
        }
    }
}
