//! `--stages`, which several commands have.

use laggard_model::{STAGES_ON_THE_WAY, Stage};

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
