//! Ends with TLS: of a proxy, or of the target itself.

use haul_lab::CertificateAuthority;
use haul_net::{
    AlpnOffer, Connector, ConnectorConfig, CredentialScope, Target, TlsOptions, TlsPeer,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;

/// An end that speaks TLS, and the server behind it.
async fn secured() -> (RelayStream, TlsStream<TcpStream>) {
    let authority = CertificateAuthority::new();
    let acceptor = TlsAcceptor::from(authority.issue(&["127.0.0.1"]).server_config(None));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls = TlsOptions {
        cacert: Some(authority.certificate_pem().into_bytes()),
        ..TlsOptions::default()
    };
    let connector = Connector::new(ConnectorConfig::default(), tls).unwrap();
    let target = Target {
        host: "127.0.0.1".into(),
        port: listener.local_addr().unwrap().port(),
    };
    let url = target.to_url().unwrap();
    let dialled = Box::pin(async {
        let reached = connector.connect(&target, &[], &url).await.unwrap();
        let peer = TlsPeer {
            host: &target.host,
            scope: CredentialScope::UserOrigin,
            alpn: AlpnOffer::None,
        };
        connector
            .start_tls(reached, peer, &url)
            .await
            .unwrap()
            .stream
    });
    let accepted = async {
        acceptor
            .accept(listener.accept().await.unwrap().0)
            .await
            .unwrap()
    };
    let (stream, server) = within(LIMIT, async { tokio::join!(dialled, accepted) }).await;
    let (end, early) = RelayStream::from_transport(stream);
    assert!(matches!(end, RelayStream::Tls(_)) && early.is_empty());
    (end, server)
}

#[tokio::test]
async fn e7_half_closes_pass_through_tls() {
    let ((client, mut caller), (target, mut server)) = (end(EndKind::Tcp).await, secured().await);
    let running = RunningRelay::start(client, target);
    say(&mut caller, b"question").await;
    finish(&mut caller).await;
    assert_eq!(heard(&mut server).await, b"question");
    let answer = vec![3; 3 << 20];
    let mut speaking = JoinSet::new();
    let said = answer.clone();
    speaking.spawn(async move {
        say(&mut server, &said).await;
        finish(&mut server).await;
    });
    assert!(heard(&mut caller).await == answer);
    assert_eq!(running.ended().await, RelayOutcome::Closed);
}

#[tokio::test]
async fn e7_a_server_that_is_done_speaking_still_hears_all() {
    let ((client, mut caller), (target, mut server)) = (end(EndKind::Tcp).await, secured().await);
    let running = RunningRelay::start(client, target);
    say(&mut server, b"banner").await;
    finish(&mut server).await;
    assert_eq!(heard(&mut caller).await, b"banner");
    say(&mut caller, &[5; 100_000]).await;
    finish(&mut caller).await;
    assert_eq!(heard(&mut server).await, [5; 100_000]);
    assert_eq!(running.ended().await, RelayOutcome::Closed);
}

#[tokio::test]
async fn small_words_are_not_held_back() {
    let ((client, mut caller), (target, mut server)) = (end(EndKind::Tcp).await, secured().await);
    let _running = RunningRelay::start(client, target);
    for n in 0..50_u8 {
        say(&mut caller, &[n]).await;
        assert_eq!(next(&mut server, 1).await, [n]);
        say(&mut server, &[n, n]).await;
        server.flush().await.unwrap();
        assert_eq!(next(&mut caller, 2).await, [n, n]);
    }
}

#[tokio::test]
async fn e8_a_reset_is_one_below_tls_as_well() {
    let ((client, mut caller), (target, mut server)) = (tcp().await, secured().await);
    let running = RunningRelay::start(RelayStream::Tcp(client), target);
    // What TLS says after its handshake has been read as well: unread, it would be a reset by itself.
    say(&mut server, b"x").await;
    server.flush().await.unwrap();
    assert_eq!(next(&mut caller, 1).await, b"x");
    reset(caller);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!(error(&mut server).await, io::ErrorKind::ConnectionReset);

    let ((client, mut caller), (target, server)) = (tcp().await, secured().await);
    let running = RunningRelay::start(RelayStream::Tcp(client), target);
    reset(server.into_inner().0);
    assert_eq!(
        running.ended().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(error(&mut caller).await, io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn tls_that_was_cut_is_no_end() {
    let ((client, mut caller), (target, mut server)) = (tcp().await, secured().await);
    let running = RunningRelay::start(RelayStream::Tcp(client), target);
    say(&mut server, b"half of").await;
    server.flush().await.unwrap();
    assert_eq!(next(&mut caller, 7).await, b"half of");
    drop(server);
    assert!(matches!(
        running.ended().await,
        RelayOutcome::Broken(RelaySide::Target, _) | RelayOutcome::Reset(RelaySide::Target)
    ));
    assert_eq!(error(&mut caller).await, io::ErrorKind::ConnectionReset);
}
