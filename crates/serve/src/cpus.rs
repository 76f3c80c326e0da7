//! CPUs that go offline and come online while they are measured.

use laggard_measure::linux;
use laggard_model::CpuList;

/// Detects that other CPUs must be measured than at the start of the current piece.
///
/// The kernel moves the threads of a CPU that goes offline to another CPU and does not move them
/// back. A piece therefore ends with the first change. Otherwise the figures of a CPU would come
/// from another CPU, or be missing.
#[derive(Debug)]
pub(crate) struct CpuWatch<M = OwnMachine> {
    machine: M,
    /// CPUs that the user named; `None` means all CPUs that this process may use.
    wanted: Option<CpuList>,
    /// CPUs to measure, at the start of the piece.
    measured: CpuList,
    /// Online CPUs at the last check.
    online: CpuList,
}

/// Source of the state of CPUs.
pub(crate) trait CpuMachine {
    /// Returns the CPUs that are online now.
    fn online(&self) -> CpuList;
    /// Returns the CPUs that this process may use now. Slower than [`CpuMachine::online`].
    fn usable(&self) -> CpuList;
}

/// Machine that this program runs on.
#[derive(Debug)]
pub(crate) struct OwnMachine;

impl CpuMachine for OwnMachine {
    fn online(&self) -> CpuList {
        linux::online_cpus()
    }

    fn usable(&self) -> CpuList {
        linux::usual_cpus()
    }
}

impl<M: CpuMachine> CpuWatch<M> {
    /// Starts to watch `machine`, before a piece is prepared.
    pub(crate) fn new(machine: M, wanted: Option<CpuList>) -> Self {
        // In this order, the next check detects a change between the two calls.
        let online = machine.online();
        let measured = measurable(&machine, wanted.as_ref());
        Self {
            machine,
            wanted,
            measured,
            online,
        }
    }

    /// Returns the CPUs to measure, at the start of the piece.
    pub(crate) const fn measured(&self) -> &CpuList {
        &self.measured
    }

    /// Returns true if a CPU of this piece went offline, or if the set of CPUs to measure has
    /// changed.
    pub(crate) fn has_changed(&mut self) -> bool {
        let online = self.machine.online();
        if online == self.online {
            return false;
        }
        self.online = online;
        let mut measured = self.measured.as_slice().iter();
        measured.any(|&cpu| !self.online.contains(cpu))
            || measurable(&self.machine, self.wanted.as_ref()) != self.measured
    }
}

fn measurable(machine: &impl CpuMachine, wanted: Option<&CpuList>) -> CpuList {
    let usable = machine.usable();
    match wanted {
        Some(wanted) => {
            let cpus = wanted.as_slice().iter().copied();
            cpus.filter(|&cpu| usable.contains(cpu)).collect()
        }
        None => usable,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Machine whose CPUs a test switches: online CPUs and usable CPUs.
    struct SwitchedMachine<'a>(&'a RefCell<(CpuList, CpuList)>);

    impl CpuMachine for SwitchedMachine<'_> {
        fn online(&self) -> CpuList {
            self.0.borrow().0.clone()
        }

        fn usable(&self) -> CpuList {
            self.0.borrow().1.clone()
        }
    }

    /// Checks after each state (online CPUs and usable CPUs). The first state is the state at the
    /// start of the piece. Returns, per check, true if the piece must end.
    fn looks(wanted: Option<&str>, states: &[(&str, &str)]) -> Vec<bool> {
        let list = |text: &str| -> CpuList { text.parse().unwrap() };
        let state = |index: usize| (list(states[index].0), list(states[index].1));
        let machine = RefCell::new(state(0));
        let mut watch = CpuWatch::new(SwitchedMachine(&machine), wanted.map(list));
        let look = |index| {
            *machine.borrow_mut() = state(index);
            watch.has_changed()
        };
        (0..states.len()).map(look).collect()
    }

    #[test]
    fn piece_ends_when_its_cpus_change() {
        // A CPU goes offline; it comes online; it was offline at the start.
        assert_eq!(looks(None, &[("0-1", "0-1"), ("0", "0")]), [false, true]);
        assert_eq!(looks(None, &[("0", "0"), ("0-1", "0-1")]), [false, true]);
        let named = Some("0-1");
        assert_eq!(looks(named, &[("0", "0"), ("0-1", "0-1")]), [false, true]);
        // The CPU is back when its absence is examined, but its threads run elsewhere.
        assert_eq!(looks(None, &[("0-1", "0-1"), ("0", "0-1")]), [false, true]);
        // A CPU that this process may not use, or that the user did not name.
        assert_eq!(looks(None, &[("0-1", "0"), ("0-2", "0")]), [false, false]);
        let named = Some("1");
        assert_eq!(looks(named, &[("0-2", "0-2"), ("1", "1")]), [false, false]);
        // The only CPU that the user named: other CPUs are not measured instead.
        assert_eq!(looks(named, &[("0-1", "0-1"), ("0", "0")]), [false, true]);
    }

    #[test]
    fn unchanged_cpus_do_not_end_a_piece() {
        let states = [("0-3", "0-1"); 5];

        assert_eq!(looks(None, &states), [false; 5]);
        assert_eq!(looks(Some("7"), &states), [false; 5]);
    }
}
