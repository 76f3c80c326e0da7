//! The control group whose processes are watched, as it is asked for.

use std::collections::BTreeSet;

use laggard_measure::linux::{AttachGroup, AttachTarget};

use crate::args::AttachArgs;

/// A control group whose processes come and go.
pub(super) struct FollowedGroup {
    pub(super) group: AttachGroup,
    /// Those that were seen in it. A number that is given again while nobody looks is
    /// taken for the same: who forks from one that is watched is watched anyway.
    known: BTreeSet<u32>,
}

impl FollowedGroup {
    /// Processes that came since the last call.
    pub(super) fn come(&mut self) -> anyhow::Result<Vec<AttachTarget>> {
        let now: BTreeSet<u32> = self.group.processes()?.into_iter().collect();
        let new = now.difference(&self.known).copied();
        let new = new.filter(|&process| process != std::process::id());
        let held = new.map(|process| AttachTarget::found(process, Vec::new()));
        let held: Result<Vec<_>, _> = held.collect();
        let targets = held?.into_iter().flatten().collect();
        self.known = now;
        Ok(targets)
    }
}

pub(super) fn group(args: &AttachArgs) -> anyhow::Result<Option<FollowedGroup>> {
    let group = match (&args.cgroup, &args.unit) {
        (Some(path), _) => AttachGroup::at(path)?,
        (None, Some(name)) => AttachGroup::of_unit(name)?,
        (None, None) => return Ok(None),
    };
    Ok(Some(FollowedGroup {
        group,
        known: BTreeSet::new(),
    }))
}
