//! Where the usage pattern of a forecast comes from.

use std::fmt::{self, Display, Formatter};

use serde::{Serialize, Serializer};

/// Where a usage pattern comes from. Serialized in words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UsageSource {
    /// Who asks for the forecast says it.
    Given,
    /// The load that was recorded says it.
    Load,
    /// Nobody does: [`laggard_model::UsagePattern::ALWAYS`].
    Assumed,
}

impl Display for UsageSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given => "as given",
            Self::Load => "the load's own",
            Self::Assumed => "not given: in use all the time",
        })
    }
}

impl Serialize for UsageSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
