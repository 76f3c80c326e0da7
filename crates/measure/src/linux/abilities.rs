//! What can be measured here, for `laggard doctor`.
