//! Faults and refusals, as the fixed label values of metrics.

/// What went wrong with a connection or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionFault {
    /// A TLS handshake took too long.
    TlsTimeout,
    /// A head was not complete in time.
    HeadTimeout,
    /// A body was too slow, or stalled.
    BodyTimeout,
    /// The client did not read the response.
    SendTimeout,
    /// A connection was idle for too long: the usual end of a kept connection, and harmless.
    IdleTimeout,
    /// A request was dropped at shutdown when the grace period was over.
    GraceTimeout,
    TlsHandshake,
    /// The client did not speak HTTP.
    Protocol,
    /// The client went away during a request or its response.
    Aborted,
    /// Reading from or writing to a connection failed otherwise.
    Io,
    /// Reading from or writing to the disk failed.
    Disk,
    /// A file shrank while it was sent.
    ShortFile,
    /// A connection could not be accepted: mostly because descriptors ran out.
    Accept,
    /// A file could not be opened because descriptors ran out.
    Descriptors,
}

impl ConnectionFault {
    /// All faults, in numeric order.
    pub const ALL: [Self; 14] = [
        Self::TlsTimeout,
        Self::HeadTimeout,
        Self::BodyTimeout,
        Self::SendTimeout,
        Self::IdleTimeout,
        Self::GraceTimeout,
        Self::TlsHandshake,
        Self::Protocol,
        Self::Aborted,
        Self::Io,
        Self::Disk,
        Self::ShortFile,
        Self::Accept,
        Self::Descriptors,
    ];

    /// The label value.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TlsTimeout => "tls_timeout",
            Self::HeadTimeout => "head_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::SendTimeout => "send_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::GraceTimeout => "grace_timeout",
            Self::TlsHandshake => "tls_handshake",
            Self::Protocol => "protocol",
            Self::Aborted => "aborted",
            Self::Io => "io",
            Self::Disk => "disk",
            Self::ShortFile => "short_file",
            Self::Accept => "accept",
            Self::Descriptors => "descriptors",
        }
    }
}

/// Why a request's body was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BodyRefusal {
    /// Longer than a body may be.
    TooLarge,
    /// The quota is used up.
    Quota,
    DiskFull,
    /// The digest does not match.
    Digest,
    /// Fewer bytes than declared.
    Short,
}

impl BodyRefusal {
    /// All refusals, in numeric order.
    pub const ALL: [Self; 5] = [
        Self::TooLarge,
        Self::Quota,
        Self::DiskFull,
        Self::Digest,
        Self::Short,
    ];

    /// The label value.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Quota => "quota",
            Self::DiskFull => "disk_full",
            Self::Digest => "digest",
            Self::Short => "short",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_kind_has_its_index_and_a_unique_name() {
        for (index, fault) in ConnectionFault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, index);
        }
        for (index, reason) in BodyRefusal::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
        let names: HashSet<_> = ConnectionFault::ALL
            .into_iter()
            .map(ConnectionFault::name)
            .collect();
        assert_eq!(names.len(), ConnectionFault::ALL.len());
        let names: HashSet<_> = BodyRefusal::ALL
            .into_iter()
            .map(BodyRefusal::name)
            .collect();
        assert_eq!(names.len(), BodyRefusal::ALL.len());
    }
}
