//! In place of `made`, where nothing is measured.

use laggard_answer::compare::{CompareReport, Question};

use crate::args::CompareArgs;

/// Says what there is instead.
pub(super) fn make(
    _: &CompareArgs,
    _: &Question,
    _: impl FnOnce(&CompareReport) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    anyhow::bail!(
        "--run, --before and --factor sysctl make recordings, for which this program needs Linux; \
         compare those that there are: `laggard compare A ... --with B ...`"
    )
}
