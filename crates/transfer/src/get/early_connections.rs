//! When a download makes its other connections: before its first response says that they are needed, they cost nobody a round trip.

use std::time::Duration;

use haul_plan::is_long_round_trip;

/// What is known of a download before its first response.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstRequestOutlook {
    /// Whether another request may have to follow. None does where the file may be there already, where one range is all that is missing, or
    /// where no part can be asked for.
    pub may_need_others: bool,
    /// Whether the user asks for a number of connections.
    pub has_requested_connections: bool,
    /// Whether the rate of all connections together is limited: one may well reach it.
    pub has_rate_limit: bool,
}

/// When the other connections of a download are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyConnections {
    /// When requests need them.
    WhenNeeded,
    /// Beside that of the first request.
    AtOnce,
    /// When a large response has begun to arrive whose head cannot be read yet.
    WhenLargeResponseBegins,
}

impl EarlyConnections {
    /// Connections that the user asks for open at once. Otherwise a server gets no more connections than a large response is worth.
    #[must_use]
    pub(super) fn new(outlook: FirstRequestOutlook) -> Self {
        match outlook {
            FirstRequestOutlook {
                may_need_others: false,
                ..
            } => Self::WhenNeeded,
            FirstRequestOutlook {
                has_requested_connections: true,
                ..
            } => Self::AtOnce,
            FirstRequestOutlook {
                has_rate_limit: true,
                ..
            } => Self::WhenNeeded,
            _ => Self::WhenLargeResponseBegins,
        }
    }

    /// Whether they are made now that a large response has begun to arrive over a path with this round trip.
    #[must_use]
    pub(super) fn are_made_on_large_response(self, round_trip: Duration) -> bool {
        self == Self::WhenLargeResponseBegins && is_long_round_trip(round_trip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(
        may_need_others: bool,
        has_requested_connections: bool,
        has_rate_limit: bool,
    ) -> EarlyConnections {
        EarlyConnections::new(FirstRequestOutlook {
            may_need_others,
            has_requested_connections,
            has_rate_limit,
        })
    }

    #[test]
    fn a_users_number_is_made_at_once_and_others_when_a_large_response_begins() {
        use EarlyConnections::{AtOnce, WhenLargeResponseBegins, WhenNeeded};

        assert_eq!(decide(true, false, false), WhenLargeResponseBegins);
        assert_eq!(decide(true, false, true), WhenNeeded);
        assert_eq!(decide(true, true, false), AtOnce);
        assert_eq!(decide(true, true, true), AtOnce);
        for (has_requested, has_rate_limit) in [(false, false), (true, false), (true, true)] {
            assert_eq!(decide(false, has_requested, has_rate_limit), WhenNeeded);
        }
    }

    #[test]
    fn over_a_short_path_there_is_no_round_trip_to_win() {
        let (short, long) = (Duration::from_millis(1), Duration::from_millis(30));
        let early = EarlyConnections::WhenLargeResponseBegins;
        assert!(early.are_made_on_large_response(long));
        assert!(!early.are_made_on_large_response(short));
        assert!(!EarlyConnections::AtOnce.are_made_on_large_response(long));
        assert!(!EarlyConnections::WhenNeeded.are_made_on_large_response(long));
    }
}
