//! Memory and CPU time of this process.

use laggard_model::Nanos;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// Returns the CPU time of this process since its start: of all threads, including ended threads,
/// and of ended child processes. `None` if the system does not report it.
pub(crate) fn cpu_time() -> Option<Nanos> {
    let whole = |time: TimeVal| {
        let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
        Nanos::from_us(micros.cast_unsigned())
    };
    [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN]
        .into_iter()
        .map(|who| getrusage(who).ok())
        .map(|usage| usage.map(|usage| whole(usage.user_time()) + whole(usage.system_time())))
        .try_fold(Nanos::ZERO, |sum, time| Some(sum + time?))
}

/// Returns the resident size, bytes. `None` if the system does not report it.
pub(crate) fn bytes() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let page = i64::try_from(laggard_files::page_bytes()).ok()?;
    pages_in(&text)?.checked_mul(page)
}

/// Returns the number of resident pages in the text of `/proc/self/statm`.
fn pages_in(text: &str) -> Option<i64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_number_is_the_resident_size() {
        assert_eq!(pages_in("5000 1234 700 1 0 400 0\n"), Some(1234));
        assert_eq!(pages_in(""), None);
        assert!(bytes().unwrap() > 1 << 20);
    }

    #[test]
    fn cpu_time_of_an_ended_thread_stays_counted() {
        let before = cpu_time().unwrap();
        let worked = std::thread::spawn(move || {
            let mut number = 1_u64;
            while cpu_time().unwrap() < before + Nanos::from_ms(20) {
                number = std::hint::black_box(number.wrapping_mul(3));
            }
        });

        worked.join().unwrap();

        assert!(cpu_time().unwrap() >= before + Nanos::from_ms(20));
    }
}
