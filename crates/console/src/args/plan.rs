//! Arguments that choose the backend and the stages.

use laggard_model::{STAGES_ON_THE_WAY, Stage};
use laggard_session::ProbeChoice;

/// Backend of the measurement.
#[derive(Clone, Debug)]
pub struct BackendArg(pub ProbeChoice);

/// Intermediate stages.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StagesArg(pub Vec<Stage>);

impl std::str::FromStr for StagesArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let stage = |name: &str| {
            STAGES_ON_THE_WAY
                .into_iter()
                .find(|stage| stage.name() == name)
                .ok_or_else(|| {
                    let names = STAGES_ON_THE_WAY.map(Stage::name).join(", ");
                    format!("unknown stage `{name}`; use `none` or some of {names}")
                })
        };
        text.split(',')
            .map(stage)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl std::str::FromStr for BackendArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("fake:")) {
            ("best", _) => Ok(Self(ProbeChoice::Best)),
            ("bpf", _) => Ok(Self(ProbeChoice::Bpf)),
            ("perf", _) => Ok(Self(ProbeChoice::Perf)),
            ("user", _) => Ok(Self(ProbeChoice::User)),
            (_, Some(script)) => Ok(Self(ProbeChoice::Script(script.into()))),
            _ => Err(
                "use best, bpf, perf (tracepoints), user (no BPF, no root) or fake:SCRIPT.toml"
                    .into(),
            ),
        }
    }
}
