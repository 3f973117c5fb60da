//! How many connections a process may have at one time: as many as were asked for, or as its open files have room for.
//!
//! What needs descriptors is counted at its most: both ends of each connection, the pipes of those that move much, listeners, and the
//! connections that stand ready. Where that leaves room for few, it is told at the start and not first when somebody is turned away.

use haul_tunnel::relay::MAX_PIPE_DESCRIPTORS;

/// Connections at one time, if the system has room for so many.
const CONNECTIONS: usize = 65_536;

/// Fewer than these are told of: a browser alone may want as many.
const FEW: usize = 256;

/// Descriptors of the process itself: standard streams, the runtime's, logs, the admin endpoint, names that are looked up.
const OTHER_FILES: u64 = 32;

/// Descriptors that a listener has: `localhost` and every interface may be two sockets.
const FILES_OF_LISTENER: u64 = 2;

/// Descriptors that a connection needs.
const FILES_EACH: u64 = 2;

/// Descriptors of the pipes that one connection may have: two for each direction.
const PIPES_EACH: u64 = 4;

/// What needs descriptors besides the connections of clients.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DescriptorNeeds {
    /// Where is listened.
    pub(super) listeners: usize,
    /// Connections that stand ready.
    pub(super) ready: usize,
}

/// Connections at one time, and who says so.
#[derive(Debug, Clone, Copy, Eq)]
pub(crate) enum ConnectionCap {
    /// So many were asked for, or nobody asked and there is room for the usual number.
    Connections {
        /// How many.
        most: usize,
        /// Whether somebody asked.
        is_asked: bool,
    },
    /// There is no room for more.
    Room {
        /// How many.
        most: usize,
        /// Files that may be open.
        files: u64,
    },
}

impl ConnectionCap {
    /// As was asked for, or as there is room for.
    pub(super) fn of(asked: Option<usize>, besides: DescriptorNeeds, allowed: Option<u64>) -> Self {
        let usual = Self::Connections {
            most: asked.unwrap_or(CONNECTIONS),
            is_asked: asked.is_some(),
        };
        match allowed {
            Some(files) if asked.is_none() && besides.needed(CONNECTIONS) > files => Self::Room {
                most: besides.room(files),
                files,
            },
            _ => usual,
        }
    }

    /// How many.
    pub(crate) fn connections(self) -> usize {
        match self {
            Self::Connections { most, .. } | Self::Room { most, .. } => most,
        }
    }

    /// What is to be told where there is no room for any.
    pub(crate) fn shortage(self) -> Option<String> {
        match self {
            Self::Room { most: 0, files } => Some(format!(
                "there is no room for a connection: the system allows {files} open files (ulimit -n)"
            )),
            _ => None,
        }
    }

    /// Who allows no more, as the log tells whom it turned away.
    pub(crate) fn by(self) -> String {
        match self {
            Self::Connections { is_asked: true, .. } => "--max-connections".to_owned(),
            Self::Connections { .. } => "the default of --max-connections".to_owned(),
            Self::Room { files, .. } => format!("ulimit -n ({files} open files)"),
        }
    }

    /// What whoever started it should know: there is room for few, or not for as many as there may be. That is so where too many were
    /// asked for, and where what stands beside them has grown since they were counted.
    pub(super) fn warning(self, besides: DescriptorNeeds, allowed: Option<u64>) -> Option<String> {
        const REMEDY: &str = "ulimit -n N, or LimitNOFILE=N of a systemd unit, allows more";
        let needed = besides.needed(self.connections());
        match (self, allowed.filter(|allowed| *allowed < needed)) {
            (Self::Room { most, files }, None) if most < FEW => Some(format!(
                "there is room for {most} connection{} at one time, since the system allows {files} open files: {REMEDY}",
                if most == 1 { "" } else { "s" }
            )),
            (most, Some(files)) => Some(format!(
                "{} connections at one time may need {needed} open files, and the system allows {files}: {REMEDY}",
                most.connections()
            )),
            _ => None,
        }
    }
}

impl PartialEq for ConnectionCap {
    /// What was asked for is the same; how much room there is where nobody asked is not anybody's setting.
    fn eq(&self, other: &Self) -> bool {
        let asked = |most: &Self| match *most {
            Self::Connections {
                most,
                is_asked: true,
            } => Some(most),
            _ => None,
        };
        asked(self) == asked(other)
    }
}

impl DescriptorNeeds {
    /// Descriptors that all of it has, without clients.
    fn files(self) -> u64 {
        let listeners = count(self.listeners).saturating_mul(FILES_OF_LISTENER);
        OTHER_FILES
            .saturating_add(listeners)
            .saturating_add(count(self.ready))
    }

    /// Descriptors with so many connections.
    fn needed(self, connections: usize) -> u64 {
        let connections = count(connections);
        let pipes = connections
            .saturating_mul(PIPES_EACH)
            .min(MAX_PIPE_DESCRIPTORS);
        let ends = connections.saturating_mul(FILES_EACH);
        self.files().saturating_add(ends).saturating_add(pipes)
    }

    /// The most connections that need no more than `allowed`.
    fn room(self, allowed: u64) -> usize {
        let left = allowed.saturating_sub(self.files());
        let with_all_pipes = left.saturating_sub(MAX_PIPE_DESCRIPTORS) / FILES_EACH;
        let with_own_pipes = left / (FILES_EACH + PIPES_EACH);
        usize::try_from(with_all_pipes.max(with_own_pipes)).unwrap_or(usize::MAX)
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: DescriptorNeeds = DescriptorNeeds {
        listeners: 1,
        ready: 0,
    };

    fn unasked(allowed: Option<u64>) -> ConnectionCap {
        ConnectionCap::of(None, ONE, allowed)
    }

    #[test]
    fn connections_leave_room_for_the_rest() {
        assert_eq!(unasked(None).connections(), CONNECTIONS);
        assert_eq!(unasked(Some(1 << 30)).connections(), CONNECTIONS);
        assert_eq!(unasked(Some(20)).connections(), 0);
        // 1024 without 34 of its own, and 256 of pipes; 64 without 34.
        #[cfg(target_os = "linux")]
        {
            assert_eq!(unasked(Some(1024)).connections(), 367);
            assert_eq!(unasked(Some(64)).connections(), 5);
        }
        let warm = DescriptorNeeds { ready: 100, ..ONE };
        let room = ConnectionCap::of(None, warm, Some(1024)).connections();
        assert_eq!(room, unasked(Some(924)).connections());
    }

    #[test]
    fn there_is_room_for_as_many_as_there_is_room_for_and_for_no_more() {
        for besides in [
            DescriptorNeeds::default(),
            ONE,
            DescriptorNeeds { ready: 33, ..ONE },
        ] {
            for allowed in 100..2000 {
                let room = besides.room(allowed);
                assert!(besides.needed(room) <= allowed, "{allowed}");
                assert!(besides.needed(room + 1) > allowed, "{allowed}");
            }
        }
    }

    #[test]
    fn little_room_is_told_of_with_the_way_out() {
        let told = |allowed| unasked(Some(allowed)).warning(ONE, Some(allowed));
        let few = told(64).unwrap();
        for words in ["64 open files", "ulimit -n", "LimitNOFILE="] {
            assert!(few.contains(words), "{few}");
        }
        assert_eq!(told(4096), None);
        assert_eq!(unasked(None).warning(ONE, None), None);
        assert_eq!(unasked(Some(64)).by(), "ulimit -n (64 open files)");
    }

    #[test]
    fn more_than_there_is_room_for_is_told() {
        let asked = |most, allowed| {
            let most = ConnectionCap::of(Some(most), ONE, allowed);
            (most.connections(), most.warning(ONE, allowed))
        };
        let room = ONE.room(1024);
        assert_eq!(asked(room, Some(1024)), (room, None));
        assert_eq!(asked(room, None), (room, None));
        let (most, told) = asked(room + 1, Some(1024));
        assert_eq!(most, room + 1);
        let told = told.unwrap();
        assert!(told.contains("1026") || told.contains("1025"), "{told}");
        assert!(told.contains("1024"), "{told}");
        // Few that were asked for are what was asked for.
        assert_eq!(asked(1, Some(64)), (1, None));
    }

    #[test]
    fn what_grows_beside_them_takes_their_room() {
        let grown = DescriptorNeeds { ready: 100, ..ONE };
        for most in [unasked(Some(1024)), unasked(Some(140_000))] {
            let allowed = ONE.needed(most.connections());
            assert_eq!(most.warning(ONE, Some(allowed)), None);
            let told = most.warning(grown, Some(allowed)).unwrap();
            let says = format!("{} connections at one time may", most.connections());
            assert!(told.starts_with(&says), "{told}");
        }
    }

    #[test]
    fn the_flag_is_named_as_it_was_or_was_not_given() {
        assert_eq!(
            ConnectionCap::of(Some(7), ONE, None).by(),
            "--max-connections"
        );
        assert_eq!(unasked(None).by(), "the default of --max-connections");
    }

    #[test]
    fn other_room_is_no_other_setting() {
        assert_eq!(unasked(Some(64)), unasked(None));
        assert_ne!(
            unasked(None),
            ConnectionCap::of(Some(CONNECTIONS), ONE, None)
        );
        assert_ne!(
            ConnectionCap::of(Some(1), ONE, None),
            ConnectionCap::of(Some(2), ONE, None)
        );
    }
}
