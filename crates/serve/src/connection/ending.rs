//! The end of a connection.
//!
//! A body that nobody wanted is still being sent when the answer goes out. Closing then would make the peer's system throw the answer
//! away, so the connection *lingers*: it says that nothing more will come, and what comes is read and dropped for a while.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::drive::ServerConnection;
use super::late;
use super::transport::ServerTransport;
use super::wire::CountedIo;

/// How long what comes after an answer is read and dropped.
const LINGER: Duration = Duration::from_secs(5);

/// The same when the server ends.
pub(super) const LAST: Duration = Duration::from_millis(500);

impl ServerConnection {
    /// Ends a connection whose peer took too long, and says so.
    pub(super) async fn leave_late<S: ServerTransport>(
        &self,
        mut wire: CountedIo<S>,
    ) -> io::Result<()> {
        late::say(&mut wire).await?;
        self.leave(wire, false).await
    }

    /// Ends a connection so that its last answer arrives, also when there may be more to come.
    pub(super) async fn leave<S: ServerTransport>(
        &self,
        mut wire: CountedIo<S>,
        may_have_more: bool,
    ) -> io::Result<()> {
        // What comes from here on is nobody's, and is not to be kept.
        self.line.watch().stop();
        let until = tokio::time::Instant::now() + LINGER;
        // Of a plain socket, closing says as much in one call less.
        if may_have_more || S::HAS_FAREWELL {
            // A last word may find no room on its way.
            tokio::time::timeout_at(until, wire.shutdown()).await??;
        }
        if !may_have_more {
            return Ok(());
        }
        let mut buffer = vec![0; 16 << 10];
        let drained = async {
            while wire.read(&mut buffer).await? > 0 {}
            Ok(())
        };
        let server_ends = async {
            self.stop.cancelled().await;
            tokio::time::sleep(LAST).await;
        };
        tokio::select! {
            drained = drained => drained,
            () = tokio::time::sleep_until(until) => Ok(()),
            () = server_ends => Ok(()),
        }
    }
}
