//! Memory and CPU time of this process.

use laggard_model::Nanos;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::{SysconfVar, sysconf};

/// CPU time of this process since it began: of all its threads, also of those that have
/// ended, and of child processes that have ended. `None` if the system does not report it.
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

/// Resident size now, bytes. `None` where the system does not tell.
pub(crate) fn bytes() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    pages_in(&text)?.checked_mul(page)
}

/// Resident pages in the text of `/proc/self/statm`.
fn pages_in(text: &str) -> Option<i64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_what_is_resident() {
        assert_eq!(pages_in("5000 1234 700 1 0 400 0\n"), Some(1234));
        assert_eq!(pages_in(""), None);
        assert!(bytes().unwrap() > 1 << 20);
    }

    #[test]
    fn cpu_time_of_a_thread_that_has_ended_stays() {
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
