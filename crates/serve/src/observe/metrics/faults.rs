//! What goes wrong, by kinds that an operator would tell apart: the values of labels, and so a fixed few.

/// What went wrong with a connection or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionFault {
    /// A TLS handshake took too long.
    TlsTimeout,
    /// A head did not come whole in time.
    HeadTimeout,
    /// A body came too slowly, or stopped.
    BodyTimeout,
    /// The peer did not take its answer.
    SendTimeout,
    /// Nothing was asked for too long. The usual end of a kept connection, and no harm.
    IdleTimeout,
    /// A running request was cut off at shutdown, when the grace time was over.
    GraceTimeout,
    /// A TLS handshake failed.
    TlsHandshake,
    /// What came was not HTTP.
    Protocol,
    /// The peer went away within a request or its answer.
    Aborted,
    /// Reading from or writing to a connection failed otherwise.
    Io,
    /// Reading from or writing to the disk failed.
    Disk,
    /// A file became shorter while it was sent.
    ShortFile,
    /// A connection could not be accepted: descriptors ran out, mostly.
    Accept,
    /// A file could not be opened, for descriptors ran out.
    Descriptors,
}

impl ConnectionFault {
    /// All of them, in the order of their numbers.
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

    /// As a label's value.
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

/// Why a request's body was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BodyRefusal {
    /// More than one body may have.
    TooLarge,
    /// More than all files may have.
    Quota,
    /// The disk is full.
    DiskFull,
    /// Another digest than its request said.
    Digest,
    /// Fewer bytes than its request said.
    Short,
}

impl BodyRefusal {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::TooLarge,
        Self::Quota,
        Self::DiskFull,
        Self::Digest,
        Self::Short,
    ];

    /// As a label's value.
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
    fn each_kind_stands_at_its_number_and_has_a_name_of_its_own() {
        for (at, fault) in ConnectionFault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, at);
        }
        for (at, why) in BodyRefusal::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, at);
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
