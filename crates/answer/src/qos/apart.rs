//! CPUs on which an application fails more often than on the others.

use std::collections::BTreeMap;

use laggard_analyze::InputError;
use laggard_analyze::qos::{self, Buffering, Observed};
use laggard_model::{Cpu, CpuList};
use schemars::JsonSchema;
use serde::Serialize;

use super::MissFigures;
use crate::selection::Selection;

/// Probability that equal CPUs are distinguished.
const ERROR: f64 = 1e-3;
/// With fewer clusters of failures no CPU stands out: two of 64 CPUs have the same cluster
/// by chance more often than that.
const MIN_CLUSTERS: f64 = 3.0;

/// CPUs on which an application fails more often than chance explains. An application on
/// these CPUs fails at their rate, not at the average rate.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Apart {
    /// The CPUs.
    pub cpus: CpuList,
    /// Number of the other CPUs.
    pub others: usize,
    /// Figures of one of the CPUs.
    pub on: MissFigures,
    /// Figures of one of the other CPUs.
    pub elsewhere: MissFigures,
}

impl Selection<'_> {
    /// Finds the CPUs that fail more often. `observed` has one entry per stream of the
    /// selection, and `together` is the outlook of all of them.
    pub(super) fn apart(
        &self,
        observed: &[Observed],
        together: &qos::Outlook,
        buffering: Buffering,
        confidence: f64,
    ) -> Result<Option<Apart>, InputError> {
        if self.cpus < 2 || together.clusters < MIN_CLUSTERS {
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
                .map(|observed| (*observed).clone())
                .collect();
            qos::outlook(&of, buffering, confidence)
        };
        let cpus: Vec<Cpu> = by_cpu.keys().copied().collect();
        let each = cpus
            .iter()
            .map(|cpu| outlook(&|other_cpu| other_cpu == *cpu));
        let each: Vec<qos::Outlook> = each.collect::<Result<_, InputError>>()?;
        let clusters: Vec<f64> = each
            .iter()
            .map(|outlook_of_cpu| outlook_of_cpu.clusters)
            .collect();
        let exposures: Vec<f64> = each
            .iter()
            .map(|outlook_of_cpu| outlook_of_cpu.exposure)
            .collect();
        let found = qos::stand_out(&clusters, &exposures, ERROR)?;
        if found.is_empty() {
            return Ok(None);
        }
        let found: Vec<Cpu> = found.into_iter().map(|at| cpus[at]).collect();
        let figures = |is_in: bool| {
            let other_cpu = outlook(&|cpu| found.contains(&cpu) == is_in)?;
            // The rule of the paper needs the share of all CPUs together.
            Ok::<_, InputError>(MissFigures::from_outlook(&other_cpu, f64::INFINITY))
        };
        Ok(Some(Apart {
            on: figures(true)?,
            elsewhere: figures(false)?,
            others: cpus.len() - found.len(),
            cpus: found.into_iter().collect(),
        }))
    }
}
