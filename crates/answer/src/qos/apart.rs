//! CPUs on which an application fails more often than on the others.

use std::collections::BTreeMap;

use laggard_analyze::InputError;
use laggard_analyze::qos::{self, Buffering, Observed};
use laggard_model::{Cpu, CpuList};
use schemars::JsonSchema;
use serde::Serialize;

use super::MissFigures;
use crate::selection::Selection;

/// How seldom CPUs that are all alike are told apart.
const ERROR: f64 = 1e-3;
/// Fewer clusters of failures set no CPU apart, however many CPUs there are: two
/// of 64 are on the same by chance more often than that.
const FEWEST: f64 = 3.0;

/// CPUs on which an application fails more often than on the others, beyond what
/// chance explains. Who is run there fails so often; how often on the average CPU
/// does not tell that.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Apart {
    /// These CPUs.
    pub cpus: CpuList,
    /// How many others there are.
    pub others: usize,
    /// How often on one of these.
    pub on: MissFigures,
    /// How often on one of the others.
    pub elsewhere: MissFigures,
}

impl Selection<'_> {
    /// The CPUs that stand out, of those that were `observed` (as the streams of
    /// the selection are), which together are as `all`.
    pub(super) fn apart(
        &self,
        observed: &[Observed],
        all: &qos::Outlook,
        buffering: Buffering,
        confidence: f64,
    ) -> Result<Option<Apart>, InputError> {
        if self.cpus < 2 || all.clusters < FEWEST {
            return Ok(None);
        }
        let mut by_cpu: BTreeMap<Cpu, Vec<&Observed>> = BTreeMap::new();
        for ((_, stream), one) in self.streams.iter().zip(observed) {
            by_cpu.entry(stream.cpu).or_default().push(one);
        }
        let outlook = |is_of: &dyn Fn(Cpu) -> bool| {
            let of = by_cpu.iter().filter(|(cpu, _)| is_of(**cpu));
            let of: Vec<Observed> = of
                .flat_map(|(_, all)| all)
                .map(|one| (*one).clone())
                .collect();
            qos::outlook(&of, buffering, confidence)
        };
        let cpus: Vec<Cpu> = by_cpu.keys().copied().collect();
        let each = cpus.iter().map(|cpu| outlook(&|of| of == *cpu));
        let each: Vec<qos::Outlook> = each.collect::<Result<_, InputError>>()?;
        let clusters: Vec<f64> = each.iter().map(|one| one.clusters).collect();
        let exposures: Vec<f64> = each.iter().map(|one| one.exposure).collect();
        let found = qos::stand_out(&clusters, &exposures, ERROR)?;
        if found.is_empty() {
            return Ok(None);
        }
        let found: Vec<Cpu> = found.into_iter().map(|at| cpus[at]).collect();
        let figures = |is_in: bool| {
            let of = outlook(&|cpu| found.contains(&cpu) == is_in)?;
            // The paper's rule knows the share of all CPUs together only.
            Ok::<_, InputError>(MissFigures::of(&of, f64::INFINITY))
        };
        Ok(Some(Apart {
            on: figures(true)?,
            elsewhere: figures(false)?,
            others: cpus.len() - found.len(),
            cpus: found.into_iter().collect(),
        }))
    }
}
