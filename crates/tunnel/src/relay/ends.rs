//! What a relay has of its peers, and what is left of it when it comes to nothing.

use haul_net::Error;

use super::RelayStream;

/// A target's answer that is not for the client.
#[derive(Debug)]
pub struct RefusedResponse {
    pub(super) ends: RelayEnds,
    pub(super) error: Box<Error>,
}

impl RefusedResponse {
    /// The client, which waits for an answer, and what became of it.
    pub(crate) fn into_parts(self) -> (ClientEnd, Error) {
        (ClientEnd(self.ends), *self.error)
    }
}

/// The client's end of a relay that came to nothing.
#[derive(Debug)]
pub(crate) struct ClientEnd(RelayEnds);

impl ClientEnd {
    pub(crate) fn end(&mut self) -> &mut RelayStream {
        &mut self.0.client
    }
}

/// Both ends. Dropped before both directions have come to theirs, the peers see that it was no end.
#[derive(Debug)]
pub(super) struct RelayEnds {
    pub(super) client: RelayStream,
    pub(super) target: RelayStream,
    /// Whether they have.
    pub(super) is_closed: bool,
}

impl Drop for RelayEnds {
    fn drop(&mut self) {
        if !self.is_closed {
            self.client.reset_on_drop();
            self.target.reset_on_drop();
        }
    }
}
