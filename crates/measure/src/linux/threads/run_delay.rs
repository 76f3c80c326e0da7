//! Time that measuring threads wait for a CPU, from `/proc/TID/schedstat`. Every user may read it,
//! so it replaces the stage `running` if the kernel refuses performance events.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use laggard_model::{Nanos, RunDelay};

/// Size of a buffer for three numbers.
const BYTES: usize = 80;

/// Reader of the delays of the threads that are the service of a line.
#[derive(Debug, Default)]
pub(super) struct RunDelays {
    threads: Vec<DelayedThread>,
}

#[derive(Debug)]
struct DelayedThread {
    /// Place of its line.
    line: usize,
    schedstat: File,
    /// Values at the start of the measurement.
    start: RunDelay,
    /// Latest values. The file is gone when the thread has ended.
    latest: RunDelay,
}

impl RunDelays {
    /// Opens the files of these threads of this process, with the places of their lines. Threads
    /// whose file is missing are left out.
    pub(super) fn open(threads: impl Iterator<Item = (usize, u32)>) -> Self {
        let threads = threads.filter_map(|(line, tid)| {
            let schedstat = File::open(format!("/proc/self/task/{tid}/schedstat")).ok()?;
            let start = read(&schedstat)?;
            Some(DelayedThread {
                line,
                schedstat,
                start,
                latest: start,
            })
        });
        Self {
            threads: threads.collect(),
        }
    }

    /// Discards the delays until now.
    pub(super) fn restart(&mut self) {
        self.update();
        for thread in &mut self.threads {
            thread.start = thread.latest;
        }
    }

    pub(super) fn update(&mut self) {
        for thread in &mut self.threads {
            if let Some(now) = read(&thread.schedstat) {
                thread.latest = now;
            }
        }
    }

    /// Returns the delays of each line since the start.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, RunDelay)> {
        self.threads.iter().map(|thread| {
            let (start, latest) = (thread.start, thread.latest);
            let delay = RunDelay {
                total_ns: latest.total_ns.saturating_sub(start.total_ns),
                switch_ins: latest.switch_ins.saturating_sub(start.switch_ins),
            };
            (thread.line, delay)
        })
    }
}

/// Returns whether the kernel counts the delays. This thread was switched in at least once.
pub(in super::super) fn is_counted() -> bool {
    let schedstat = File::open("/proc/thread-self/schedstat");
    let delay = schedstat.ok().and_then(|file| read(&file));
    delay.is_some_and(|delay| delay.switch_ins > 0)
}

fn read(schedstat: &File) -> Option<RunDelay> {
    let mut bytes = [0; BYTES];
    let length = schedstat.read_at(&mut bytes, 0).ok()?;
    parse(&String::from_utf8_lossy(&bytes[..length]))
}

/// Parses the time on a CPU, the time of waiting for one, and the number of switch-ins.
fn parse(schedstat: &str) -> Option<RunDelay> {
    let mut numbers = schedstat.split_ascii_whitespace().skip(1);
    Some(RunDelay {
        total_ns: Nanos::from_ns(numbers.next()?.parse().ok()?),
        switch_ins: numbers.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_has_the_delay_and_the_switch_ins() {
        let expected = RunDelay {
            total_ns: Nanos::from_ns(88_012),
            switch_ins: 17,
        };

        assert_eq!(parse("1520310 88012 17\n"), Some(expected));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn delays_count_from_the_start_and_remain_after_the_thread_has_ended() {
        const SLEEPS: u64 = 20;
        let (tid_sender, tid) = std::sync::mpsc::channel();
        let (done, ended) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: without arguments; cannot fail.
            let tid = unsafe { libc::gettid() };
            tid_sender.send(tid.cast_unsigned()).unwrap();
            for _ in 0..SLEEPS {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            done.send(()).unwrap();
            // The sender is dropped.
            let _ = wait.recv();
        });
        let mut delays = RunDelays::open([(3, tid.recv().unwrap())].into_iter());
        if delays.threads.is_empty() {
            return println!("skipped: this kernel does not count scheduling delays");
        }

        ended.recv().unwrap();
        delays.update();
        drop(go);
        thread.join().unwrap();
        delays.update();
        let (line, delay) = delays.rows().next().unwrap();

        assert_eq!(line, 3);
        assert!(delay.switch_ins >= SLEEPS / 2, "{delay:?}");
        delays.restart();
        assert_eq!(delays.rows().next().unwrap().1, RunDelay::default());
    }
}
