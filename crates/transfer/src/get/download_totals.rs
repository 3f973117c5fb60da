//! The numbers of a download.

/// Numbers for the outcome, added up over all attempts.
#[derive(Debug, Default)]
pub(super) struct DownloadTotals {
    /// Bytes over the wire.
    pub(super) fetched: u64,
    /// Bytes kept from an earlier run.
    pub(super) resumed: u64,
    /// Requests that brought bytes.
    pub(super) segments: u64,
    /// Connections that the control settled on.
    pub(super) connections: usize,
}
