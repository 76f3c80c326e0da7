//! Answers over the recordings of many machines: each a value with its JSON, a
//! schema of it, and its text.

mod causes;
mod changed;
mod columns;
mod figures;
mod head;
mod host;
mod map;
mod summary;
mod worst;

pub use causes::{CausesReport, causes};
pub use changed::{ChangedAsked, ChangedReport, changed};
pub use columns::table;
pub use figures::{FleetFigures, Lines};
pub use head::StoreView;
pub(crate) use head::of;
pub use host::{HostReport, host};
pub use map::{MOST_MACHINES, MachineMap, MapCell, MappedMachine};
pub(crate) use summary::cells as service_cells;
pub use summary::{SummaryReport, summary};
pub use worst::{Order, WorstHost, WorstReport, worst};

/// The version of the layouts of `--json`.
pub const FLEET_SCHEMA: u32 = 1;
