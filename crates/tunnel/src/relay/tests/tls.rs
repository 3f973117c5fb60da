//! Streams with TLS: with a proxy, or with the target itself.

use haul_lab::CertificateAuthority;
use haul_net::{
    AlpnOffer, Connector, ConnectorConfig, CredentialScope, Target, TlsOptions, TlsPeer,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;

/// A stream with TLS for a relay, and the server at its far end.
async fn tls_pair() -> (RelayStream, TlsStream<TcpStream>) {
    let authority = CertificateAuthority::new();
    let acceptor = TlsAcceptor::from(authority.issue(&["127.0.0.1"]).server_config(None));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls = TlsOptions {
        cacert: Some(authority.certificate_pem().into_bytes()),
        ..TlsOptions::default()
    };
    let connector = Connector::new(ConnectorConfig::default(), tls).unwrap();
    let address = Target {
        host: "127.0.0.1".into(),
        port: listener.local_addr().unwrap().port(),
    };
    let url = address.to_url().unwrap();
    let connecting = Box::pin(async {
        let reached = connector.connect(&address, &[], &url).await.unwrap();
        let peer = TlsPeer {
            host: &address.host,
            scope: CredentialScope::UserOrigin,
            alpn: AlpnOffer::None,
        };
        connector
            .start_tls(reached, peer, &url)
            .await
            .unwrap()
            .stream
    });
    let accepting = async {
        acceptor
            .accept(listener.accept().await.unwrap().0)
            .await
            .unwrap()
    };
    let (stream, server) = within(LIMIT, async { tokio::join!(connecting, accepting) }).await;
    let (relay_stream, early) = RelayStream::from_transport(stream);
    assert!(matches!(relay_stream, RelayStream::Tls(_)) && early.is_empty());
    (relay_stream, server)
}

#[tokio::test]
async fn e7_half_closes_pass_through_tls() {
    let (client_stream, mut client) = stream_pair(StreamKind::Tcp).await;
    let (target_stream, mut server) = tls_pair().await;
    let running = RunningRelay::start(client_stream, target_stream);
    send(&mut client, b"question").await;
    end_stream(&mut client).await;
    assert_eq!(read_all(&mut server).await, b"question");
    let response = vec![3; 3 << 20];
    let mut sending = JoinSet::new();
    let sent = response.clone();
    sending.spawn(async move {
        send(&mut server, &sent).await;
        end_stream(&mut server).await;
    });
    assert!(read_all(&mut client).await == response);
    assert_eq!(running.outcome().await, RelayOutcome::Closed);
}

#[tokio::test]
async fn e7_a_server_that_has_ended_its_stream_still_receives_everything() {
    let (client_stream, mut client) = stream_pair(StreamKind::Tcp).await;
    let (target_stream, mut server) = tls_pair().await;
    let running = RunningRelay::start(client_stream, target_stream);
    send(&mut server, b"banner").await;
    end_stream(&mut server).await;
    assert_eq!(read_all(&mut client).await, b"banner");
    send(&mut client, &[5; 100_000]).await;
    end_stream(&mut client).await;
    assert_eq!(read_all(&mut server).await, [5; 100_000]);
    assert_eq!(running.outcome().await, RelayOutcome::Closed);
}

#[tokio::test]
async fn a_few_bytes_are_not_held_back() {
    let (client_stream, mut client) = stream_pair(StreamKind::Tcp).await;
    let (target_stream, mut server) = tls_pair().await;
    let _running = RunningRelay::start(client_stream, target_stream);
    for n in 0..50_u8 {
        send(&mut client, &[n]).await;
        assert_eq!(read(&mut server, 1).await, [n]);
        send(&mut server, &[n, n]).await;
        server.flush().await.unwrap();
        assert_eq!(read(&mut client, 2).await, [n, n]);
    }
}

#[tokio::test]
async fn e8_a_reset_below_tls_is_passed_on() {
    let (client_stream, mut client) = tcp_pair().await;
    let (target_stream, mut server) = tls_pair().await;
    let running = RunningRelay::start(RelayStream::Tcp(client_stream), target_stream);
    // What TLS sends after its handshake is read here: unread, it would cause a reset by itself.
    send(&mut server, b"x").await;
    server.flush().await.unwrap();
    assert_eq!(read(&mut client, 1).await, b"x");
    reset(client);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Client)
    );
    assert_eq!(
        read_error(&mut server).await,
        io::ErrorKind::ConnectionReset
    );

    let (client_stream, mut client) = tcp_pair().await;
    let (target_stream, server) = tls_pair().await;
    let running = RunningRelay::start(RelayStream::Tcp(client_stream), target_stream);
    reset(server.into_inner().0);
    assert_eq!(
        running.outcome().await,
        RelayOutcome::Reset(RelaySide::Target)
    );
    assert_eq!(
        read_error(&mut client).await,
        io::ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn tls_that_is_cut_off_is_no_end_of_the_stream() {
    let (client_stream, mut client) = tcp_pair().await;
    let (target_stream, mut server) = tls_pair().await;
    let running = RunningRelay::start(RelayStream::Tcp(client_stream), target_stream);
    send(&mut server, b"half of").await;
    server.flush().await.unwrap();
    assert_eq!(read(&mut client, 7).await, b"half of");
    drop(server);
    assert!(matches!(
        running.outcome().await,
        RelayOutcome::Broken(RelaySide::Target, _) | RelayOutcome::Reset(RelaySide::Target)
    ));
    assert_eq!(
        read_error(&mut client).await,
        io::ErrorKind::ConnectionReset
    );
}
