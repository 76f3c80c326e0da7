//! CPUs where an application fails more often than on the others.

use std::collections::BTreeMap;

use laggard_analyze::InputError;
use laggard_analyze::qos::{self, Buffering, Observed};
use laggard_model::{Cpu, CpuList, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use super::MissFigures;
use crate::selection::Selection;

/// Probability that equal CPUs are distinguished.
const ERROR: f64 = 1e-3;
/// With fewer clusters of failures no CPU stands out: two of 64 CPUs have the same cluster
/// by chance more often than that.
const MIN_CLUSTERS: f64 = 3.0;

/// CPUs where an application fails more often than chance explains. An application on these CPUs
/// fails at their rate, not at the average rate.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Apart {
    pub cpus: CpuList,
    pub others: usize,
    pub on: MissFigures,
    /// Figures of one of the other CPUs.
    pub elsewhere: MissFigures,
}

impl Selection<'_> {
    /// Finds the CPUs that fail more often with this slack. `together` is the outlook of
    /// all of them.
    pub(super) fn apart(
        &self,
        slack: Nanos,
        together: &qos::Outlook,
        buffering: Buffering,
        confidence: f64,
    ) -> Result<Option<Apart>, InputError> {
        if self.cpus < 2 || together.clusters < MIN_CLUSTERS {
            return Ok(None);
        }
        let observed = self.observed(slack);
        let mut by_cpu: BTreeMap<Cpu, Vec<&Observed>> = BTreeMap::new();
        for ((_, stream), recording) in self.streams.iter().zip(&observed) {
            by_cpu.entry(stream.cpu).or_default().push(recording);
        }
        let outlook = |is_of: &dyn Fn(Cpu) -> bool| {
            let recordings = by_cpu.iter().filter(|(cpu, _)| is_of(**cpu));
            let recordings: Vec<Observed> = recordings
                .flat_map(|(_, recordings)| recordings)
                .map(|observed| (*observed).clone())
                .collect();
            qos::outlook(&recordings, buffering, confidence)
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
        let indices = qos::stand_out(&clusters, &exposures, ERROR)?;
        if indices.is_empty() {
            return Ok(None);
        }
        let worst_cpus: Vec<Cpu> = indices.into_iter().map(|index| cpus[index]).collect();
        let figures = |is_in: bool| {
            let other_cpu = outlook(&|cpu| worst_cpus.contains(&cpu) == is_in)?;
            // The rule of the paper needs the share of all CPUs together.
            Ok::<_, InputError>(MissFigures::from_outlook(&other_cpu, f64::INFINITY))
        };
        Ok(Some(Apart {
            on: figures(true)?,
            elsewhere: figures(false)?,
            others: cpus.len() - worst_cpus.len(),
            cpus: worst_cpus.into_iter().collect(),
        }))
    }
}
