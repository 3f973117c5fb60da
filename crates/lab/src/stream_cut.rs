//! How a stream of bytes is broken off.

/// Breaks a stream off after so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamCut {
    /// By a reset: bytes that the peer has not read by then are lost.
    Reset {
        /// After so many bytes.
        after: u64,
    },
    /// By an orderly close.
    Close {
        /// After so many bytes.
        after: u64,
    },
}

impl StreamCut {
    /// After how many bytes.
    pub(crate) fn offset(self) -> u64 {
        match self {
            Self::Reset { after } | Self::Close { after } => after,
        }
    }
}
