//! Reports over the recordings of many machines. Each is a value with JSON, a schema and text.

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
pub use map::{MAX_MACHINES, MachineMap, MapCell, MappedMachine};
pub(crate) use summary::cells as service_cells;
pub use summary::{SummaryReport, summary};
pub use worst::{Order, WorstHost, WorstReport, worst};

/// Version of the layouts of `--json`.
pub const FLEET_SCHEMA: u32 = 1;
