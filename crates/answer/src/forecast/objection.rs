//! Reasons against a return level.

use laggard_analyze::forecast::{CauseRefusal, Reason};
use schemars::JsonSchema;
use serde::Serialize;

use crate::causes::{CauseSet, KnownCauses, MissingTraces};

/// Reason against a return level.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Objection {
    #[serde(flatten)]
    pub reason: Reason,
    /// Scope of a reason against a level that is computed cause by cause; absent if the
    /// reason is against a level of all peaks together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_cause: Option<ObjectionScope>,
}

/// Scope of a reason against a level that is computed cause by cause.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct ObjectionScope {
    /// Causes whose peaks lack a level; absent if the reason concerns all causes.
    pub source: Option<CauseSet>,
    /// Reason why causes are unknown, if longer traces would make them known.
    pub missing_traces: Option<MissingTraces>,
}

impl Objection {
    pub(super) const fn new(reason: Reason) -> Self {
        Self {
            reason,
            by_cause: None,
        }
    }

    pub(super) fn by_cause(refusal: &CauseRefusal, causes: &KnownCauses) -> Self {
        let is_unknown = matches!(refusal.reason, Reason::CausesUnknown { .. });
        let missing_traces = match refusal.source {
            None if is_unknown => causes.missing_traces(),
            None | Some(_) => None,
        };
        Self {
            reason: refusal.reason,
            by_cause: Some(ObjectionScope {
                source: refusal.source.map(|source| causes.set(source)),
                missing_traces,
            }),
        }
    }
}
