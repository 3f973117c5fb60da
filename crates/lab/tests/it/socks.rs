//! The SOCKS5 proxy, byte by byte (RFC 1928, RFC 1929).

use haul_lab::{OriginResource, SocksProxy, SocksProxyBuilder, SocksQuirk, SocksTarget};
use tokio::net::TcpStream;

use crate::raw::{ConnectionEnd, RawConnection, content, serve};

/// The reply of success, bound to 127.0.0.1.
const CONSENT: &[u8] = &[5, 0, 0, 1, 127, 0, 0, 1, 0x12, 0x34];

/// A request for `files.test:80`.
const REQUEST: &[u8] = b"\x05\x01\x00\x03\x0afiles.test\x00\x50";

async fn client(builder: SocksProxyBuilder) -> (SocksProxy, RawConnection<TcpStream>) {
    let proxy = builder.start().await;
    let raw = RawConnection::to(proxy.address()).await;
    (proxy, raw)
}

/// Sends bytes, and expects exactly these in return.
async fn exchange(raw: &mut RawConnection<TcpStream>, sent: &[u8], expected: &[u8]) {
    raw.send(sent).await;
    raw.fill(expected.len()).await;
    let found: Vec<u8> = raw
        .buffer
        .drain(..expected.len().min(raw.buffer.len()))
        .collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn names_are_resolved_by_the_proxy() {
    let origin = serve(OriginResource::new(content())).await;
    let (proxy, mut raw) =
        client(SocksProxy::builder().route("files.test:80", origin.address())).await;
    exchange(&mut raw, &[5, 1, 0], &[5, 0]).await;
    exchange(&mut raw, REQUEST, CONSENT).await;
    assert!(raw.exchange("GET /f.bin", &[]).await.body == content().to_vec());
    let requests = proxy.requests();
    assert_eq!(
        requests[0].target,
        Some(SocksTarget::Name("files.test".into(), 80))
    );
    assert_eq!(
        (requests[0].offered_methods.as_slice(), &requests[0].login),
        ([0].as_slice(), &None)
    );
    assert!(proxy.url("socks5h").starts_with("socks5h://127.0.0.1:"));
}

#[tokio::test]
async fn addresses_are_not_changed() {
    let origin = serve(OriginResource::new(content())).await;
    let port = origin.address().port();
    let (proxy, mut raw) = client(SocksProxy::builder().route("[::7]:80", origin.address())).await;
    exchange(&mut raw, &[5, 2, 0, 2], &[5, 0]).await;
    let request = [&[5, 1, 0, 1, 127, 0, 0, 1], &port.to_be_bytes()[..]].concat();
    exchange(&mut raw, &request, CONSENT).await;
    assert!(raw.exchange("GET /f.bin", &[]).await.complete);
    assert_eq!(
        proxy.requests()[0].target,
        Some(SocksTarget::Ip("127.0.0.1".parse().unwrap(), port))
    );

    let mut raw = RawConnection::to(proxy.address()).await;
    exchange(&mut raw, &[5, 1, 0], &[5, 0]).await;
    let request = [&[5, 1, 0, 4][..], &[0; 15], &[7, 0, 80]].concat();
    exchange(&mut raw, &request, CONSENT).await;
    assert_eq!(
        proxy.requests()[1].target,
        Some(SocksTarget::Ip("::7".parse().unwrap(), 80))
    );
}

#[tokio::test]
async fn logins_are_checked() {
    let origin = serve(OriginResource::new(content())).await;
    let builder = SocksProxy::builder()
        .require_login("me", "s3cret")
        .route("files.test:80", origin.address());
    let (proxy, mut raw) = client(builder).await;
    exchange(&mut raw, &[5, 2, 0, 2], &[5, 2]).await;
    exchange(&mut raw, b"\x01\x02me\x06s3cret", &[1, 0]).await;
    exchange(&mut raw, REQUEST, CONSENT).await;
    assert_eq!(
        proxy.requests()[0].login,
        Some(("me".into(), "s3cret".into()))
    );

    let mut wrong = RawConnection::to(proxy.address()).await;
    exchange(&mut wrong, &[5, 1, 2], &[5, 2]).await;
    exchange(&mut wrong, b"\x01\x02me\x05wrong", &[1, 1]).await;
    assert_eq!(wrong.rest().await, (vec![], ConnectionEnd::Closed));
    let mut without = RawConnection::to(proxy.address()).await;
    exchange(&mut without, &[5, 1, 0], &[5, 0xff]).await;
    assert_eq!(without.rest().await, (vec![], ConnectionEnd::Closed));
    assert_eq!(
        proxy
            .requests()
            .iter()
            .filter(|request| request.target.is_some())
            .count(),
        1
    );
}

#[tokio::test]
async fn quirks_depart_from_the_standard() {
    let origin = serve(OriginResource::new(content())).await;
    let odd = |quirk| {
        SocksProxy::builder()
            .route("files.test:80", origin.address())
            .quirk(quirk)
    };
    let v6 = [&[5, 0, 0, 4][..], &[0; 15], &[1, 0x12, 0x34]].concat();
    for (quirk, expected) in [
        (
            SocksQuirk::RefuseWith(2),
            &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0][..],
        ),
        (SocksQuirk::BoundToIpv6, &v6),
        (
            SocksQuirk::BoundToName,
            b"\x05\x00\x00\x03\x0aproxy.test\x12\x34",
        ),
        (SocksQuirk::Trickle, CONSENT),
    ] {
        let (_proxy, mut raw) = client(odd(quirk)).await;
        exchange(&mut raw, &[5, 1, 0], &[5, 0]).await;
        exchange(&mut raw, REQUEST, expected).await;
        if expected[1] == 0 {
            assert!(raw.exchange("GET /f.bin", &[]).await.complete);
        } else {
            assert_eq!(raw.rest().await, (vec![], ConnectionEnd::Closed));
        }
    }
    for (quirk, expected) in [
        (SocksQuirk::AcceptNoMethod, [5, 0xff]),
        (SocksQuirk::WrongVersion, [4, 0]),
    ] {
        let (_proxy, mut raw) = client(odd(quirk)).await;
        exchange(&mut raw, &[5, 1, 0], &expected).await;
    }
    let (_proxy, mut raw) = client(odd(SocksQuirk::CloseOnRequest)).await;
    exchange(&mut raw, &[5, 1, 0], &[5, 0]).await;
    exchange(&mut raw, REQUEST, &[]).await;
    assert_eq!(raw.rest().await, (vec![], ConnectionEnd::Closed));
    let (_proxy, mut raw) = client(odd(SocksQuirk::Silent)).await;
    raw.send([5, 1, 0]).await;
    assert!(raw.is_silent().await);
}

#[tokio::test]
async fn a_banner_follows_the_reply_and_closed_targets_are_refused() {
    let origin = serve(OriginResource::new(content())).await;
    let builder = SocksProxy::builder()
        .route("files.test:80", origin.address())
        .banner(b"SSH-2.0");
    let (proxy, mut raw) = client(builder).await;
    exchange(&mut raw, &[5, 1, 0], &[5, 0]).await;
    raw.send(REQUEST).await;
    raw.fill(1).await;
    assert_eq!(raw.buffer, [CONSENT, b"SSH-2.0"].concat());

    let mut dead = RawConnection::to(proxy.address()).await;
    exchange(&mut dead, &[5, 1, 0], &[5, 0]).await;
    exchange(
        &mut dead,
        &[5, 1, 0, 1, 127, 0, 0, 1, 0, 1],
        &[5, 5, 0, 1, 0, 0, 0, 0, 0, 0],
    )
    .await;
}
