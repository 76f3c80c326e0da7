//! Replaces `made` on systems other than Linux.

use laggard_answer::compare::{CompareReport, Question};

use crate::args::CompareArgs;

/// Refuses to make recordings.
pub(super) fn make(
    _: &CompareArgs,
    _: &Question,
    _: impl FnOnce(&CompareReport) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    anyhow::bail!(
        "--run, --before and --factor sysctl make recordings and need Linux; \
         compare existing recordings: `laggard compare A ... --with B ...`"
    )
}
