//! Control groups: `attach --cgroup` and `--unit`.

use std::collections::BTreeSet;

use laggard_measure::linux::{AttachGroup, AttachTarget};

use crate::args::AttachArgs;

/// Control group, whose processes may change.
pub(super) struct FollowedGroup {
    pub(super) group: AttachGroup,
    /// Processes at the last look. A process ID that is used again between two looks counts
    /// as the same process; children of watched processes are watched in any case.
    processes: BTreeSet<u32>,
}

impl FollowedGroup {
    /// Returns the processes that are new since the last call.
    pub(super) fn take_new(&mut self) -> anyhow::Result<Vec<AttachTarget>> {
        let now: BTreeSet<u32> = self.group.processes()?.into_iter().collect();
        let new = now.difference(&self.processes).copied();
        let new = new.filter(|&process| process != std::process::id());
        let targets = super::held(new.map(|process| (process, Vec::new())))?;
        self.processes = now;
        Ok(targets)
    }
}

pub(super) fn group(args: &AttachArgs) -> anyhow::Result<Option<FollowedGroup>> {
    let group = match (&args.cgroup, &args.unit) {
        (Some(path), _) => AttachGroup::from_path(path)?,
        (None, Some(name)) => AttachGroup::of_unit(name)?,
        (None, None) => return Ok(None),
    };
    Ok(Some(FollowedGroup {
        group,
        processes: BTreeSet::new(),
    }))
}
