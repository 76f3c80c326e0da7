//! Structures that the driver `wdmlat.sys` and this program share:
//! `windows/driver/include/wdmlat.h`.

/// Version of the interface.
pub(super) const VERSION: u32 = 1;

/// Returns `WDMLAT_CODE`: a device of type 0x22, buffered.
const fn code(function: u32, access: u32) -> u32 {
    0x22 << 16 | access << 14 | function << 2
}

/// Input: none; output: a [`DriverInfo`].
pub(super) const GET_INFO: u32 = code(0x800, 1);
/// Input: a [`DriverConfig`]; output: none.
pub(super) const SET_CONFIG: u32 = code(0x801, 2);

/// `KeSetTimer`, relative.
pub(super) const SOURCE_TIMER: u32 = 0;
/// `ExSetTimer` of high resolution.
pub(super) const SOURCE_HIGH_RES: u32 = 1;
pub(super) const DPC_ORDINARY: u32 = 0;
pub(super) const IMPORTANCE_MEDIUM: u32 = 1;
pub(super) const FOLLOWER_THREAD: u32 = 0;
pub(super) const FOLLOWER_NONE: u32 = 2;
pub(super) const ANY_CPU: u32 = u32::MAX;
/// Ability in `wdmlat_info`: [`SOURCE_HIGH_RES`].
pub(super) const CAN_HIGH_RES: u32 = 1;

/// Minimum and maximum time from a read to its expiry, in units of 100 ns.
pub(super) const MIN_MAX_DELAY: (u64, u64) = (1_000, 10_000_000);

/// Configuration of reads: `wdmlat_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct DriverConfig {
    pub(super) delay_100ns: u64,
    pub(super) source: u32,
    pub(super) dpc: u32,
    pub(super) importance: u32,
    pub(super) cpu: u32,
    pub(super) follower: u32,
    pub(super) priority: u32,
}

/// Result of a read: `wdmlat_sample`. Times are times of the performance counter.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct DriverSample {
    pub(super) tsc: [u64; 3],
    pub(super) read_qpc: i64,
    pub(super) dpc_qpc: i64,
    pub(super) follower_qpc: i64,
    pub(super) sequence: u64,
    pub(super) delay_100ns: u64,
    pub(super) read_cpu: u32,
    pub(super) dpc_cpu: u32,
    pub(super) follower_cpu: u32,
    pub(super) source: u8,
    pub(super) dpc: u8,
    pub(super) follower: u8,
    pub(super) priority: u8,
}

/// Information about the driver: `wdmlat_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct DriverInfo {
    pub(super) version: u32,
    pub(super) abilities: u32,
    pub(super) cpus: u32,
    pub(super) resolution_100ns: u32,
    pub(super) qpc_per_s: u64,
    pub(super) config: DriverConfig,
    pub(super) armed: u64,
    pub(super) served: u64,
    pub(super) cancelled: u64,
    pub(super) busy: u64,
}

/// Sizes as in the header.
const _: () = assert!(
    size_of::<DriverConfig>() == 32
        && size_of::<DriverSample>() == 80
        && size_of::<DriverInfo>() == 88
);
