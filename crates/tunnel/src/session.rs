//! One client's connection from its first byte to its last.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use haul_net::Target;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::active_connections::ActiveConnection;
use crate::config::ListenerKind;
use crate::connection_log::ConnectionLog;
use crate::http_listener;
use crate::log_record::TunnelOutcome;
use crate::relay::{EarlyBytes, RelayOutcome, RelayStream, RelayedBytes, SocketErrors, relay};
use crate::socks_listener;
use crate::upstream::{StreamPurpose, Upstream, UpstreamConnectError};

/// How long a SOCKS client may take to name its target.
const SOCKS_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves one client to the end, and returns the outcome. `draining` is cancelled when a client that could send further requests is to be
/// closed after the current one.
pub(crate) async fn serve(
    mut client: RelayStream,
    connection: &Arc<ActiveConnection>,
    log: &Arc<ConnectionLog>,
    draining: CancellationToken,
) -> TunnelOutcome {
    let config = &connection.config;
    // Futures that end soon are boxed: the relay lives for hours, and its task must be small. It has 2 KB; with these futures inside it
    // had 6 KB, and ten thousand idle connections took twice the memory.
    let (target, from_client, is_socks) = match &config.kind {
        ListenerKind::Forward(target) => (target.clone(), Bytes::new(), false),
        ListenerKind::Socks => {
            let accepting = Box::pin(socks_listener::accept(&mut client));
            match timeout(SOCKS_TIMEOUT, accepting).await {
                Ok(Ok(request)) => (request.target, request.early, true),
                Ok(Err(error)) => return TunnelOutcome::BadRequest(error.to_string()),
                Err(_) => return TunnelOutcome::Silent,
            }
        }
        ListenerKind::Http => {
            return Box::pin(http_listener::serve(client, connection, log, draining)).await;
        }
    };
    drop(draining);
    connection.set_target(&target);
    let connecting = Box::pin(config.connect(&target));
    let reached = tokio::select! {
        biased;
        reached = connecting => reached,
        () = client_leaves(&mut client, !from_client.is_empty()) => return TunnelOutcome::ClientLeft,
    };
    let reached = match reached {
        Ok(reached) => reached,
        Err(error) => {
            if is_socks {
                Box::pin(socks_listener::reply_unreached(&mut client, &error)).await;
            }
            return TunnelOutcome::Unreached(error);
        }
    };
    connection.set_via(&reached.via);
    if is_socks && socks_listener::reply_connected(&mut client).await.is_err() {
        return TunnelOutcome::ClientLeft;
    }
    let early = EarlyBytes {
        from_client,
        from_target: reached.early,
    };
    let (bytes, idle) = (connection.bytes(), config.timeouts.idle);
    let relayed = relay(client, reached.stream, early, bytes, idle).await;
    relayed.into()
}

/// Waits until a client leaves that is not connected yet: it ends its stream before it has sent a byte, or resets it. A client that has
/// sent something may have nothing more to send and wait for the target's response, so the end of its stream says nothing.
async fn client_leaves(client: &mut RelayStream, has_sent: bool) {
    let (reader, _writer) = client.split();
    let Some(socket) = reader.socket() else {
        return std::future::pending().await;
    };
    if has_sent || matches!(socket.peek().await, Ok(1..)) {
        SocketErrors::new(Some(socket)).await;
    }
}

/// Joins a client that is no listener's, as standard input and output are, to a target.
///
/// # Errors
/// When the target was not reached.
pub(crate) async fn relay_to_target(
    client: RelayStream,
    target: &Target,
    upstream: &Upstream,
    idle: Option<Duration>,
) -> Result<RelayOutcome, UpstreamConnectError> {
    let reached = upstream.connect(target, StreamPurpose::Tunnel).await?;
    let (stream, from_target) = RelayStream::from_transport(reached.stream);
    let early = EarlyBytes {
        from_target,
        ..EarlyBytes::default()
    };
    Ok(relay(client, stream, early, &RelayedBytes::default(), idle).await)
}
