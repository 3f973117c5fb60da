//! Mirrors that an origin announces: `Link` headers, and the Metalink documents that they link to (RFC 6249).

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_net::Secret;
use haul_transfer::{ErrorClass, GetError};
use sha2::{Digest, Sha256};

use crate::harness::{JobCase, content, serve};
use crate::mirrors::rate_limited;

fn case() -> JobCase {
    let mut case = JobCase::new();
    case.options.mirror_links = true;
    case
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A Metalink document that describes the file, with this mirror URL.
fn metalink(mirror_url: &str) -> String {
    metalink_of(&content(), mirror_url)
}

/// A Metalink document that describes this content.
fn metalink_of(content: &ResourceContent, mirror_url: &str) -> String {
    let bytes = content.to_vec();
    let pieces: String = bytes
        .chunks(200_000)
        .map(|piece| format!("<hash>{}</hash>", hex(&Sha256::digest(piece))))
        .collect();
    format!(
        "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"f.bin\"><size>{}</size>\
         <hash type=\"sha-256\">{}</hash><pieces length=\"200000\" type=\"sha-256\">{pieces}</pieces>\
         <url>{mirror_url}</url></file></metalink>",
        bytes.len(),
        content.sha256()
    )
}

/// The document without the digests of pieces.
fn without_pieces(document: &str) -> String {
    let (before, pieces) = document.split_once("<pieces").unwrap();
    before.to_owned() + pieces.split_once("</pieces>").unwrap().1
}

/// An origin whose file links to a Metalink document.
async fn origin_with_metalink(resource: OriginResource, document: String) -> Origin {
    let link = "</f.meta4>; rel=describedby; type=\"application/metalink4+xml\"";
    Origin::builder()
        .resource("/f.bin", resource.header("Link", link))
        .resource(
            "/f.meta4",
            OriginResource::new(ResourceContent::fixed(document)),
        )
        .rate_per_connection(1 << 20)
        .start()
        .await
}

fn duplicate_link(origin: &Origin) -> String {
    format!("<{}>; rel=duplicate; pri=1", origin.url("/f.bin"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_with_the_same_etag_delivers_a_part() {
    let mirror = rate_limited(OriginResource::new(content())).await;
    let resource = OriginResource::new(content()).header("Link", &duplicate_link(&mirror));
    let (case, origin) = (case(), rate_limited(resource).await);
    case.get(&origin.url("/f.bin")).await.outcome();
    assert!(mirror.bytes_sent() > 0 && origin.bytes_sent() > 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirrors_are_not_requested_if_the_user_turned_them_off() {
    let mirror = rate_limited(OriginResource::new(content())).await;
    let resource = OriginResource::new(content()).header("Link", &duplicate_link(&mirror));
    let (case, origin) = (JobCase::new(), rate_limited(resource).await);
    case.get(&origin.url("/f.bin")).await.outcome();
    assert_eq!(mirror.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unverifiable_duplicate_delivers_no_byte() {
    // Another ETag and no digest, but by chance the same length.
    let other = ResourceContent::random(4, content().length());
    let mirror = serve(OriginResource::without_validator(other).etag("\"v2\"")).await;
    let resource = OriginResource::new(content()).header("Link", &duplicate_link(&mirror));
    let (case, origin) = (case(), rate_limited(resource).await);
    let run = case.get(&origin.url("/f.bin")).await;
    run.outcome();
    assert!(run.has_warning("nothing shows that it has the same version"));
    case.assert_file(&content());
    // Without a digest or validator to compare, no mirror is requested.
    let dated =
        OriginResource::without_validator(content()).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    let origin = rate_limited(dated.header("Link", &duplicate_link(&mirror))).await;
    let (before, case) = (mirror.requests().len(), self::case());
    case.get(&origin.url("/f.bin")).await.outcome();
    assert_eq!(mirror.requests().len(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metalink_document_provides_mirrors_and_piece_digests() {
    let mirror = rate_limited(OriginResource::without_validator(content()).etag("\"other\"")).await;
    let resource = OriginResource::new(content());
    let (case, origin) = (
        case(),
        origin_with_metalink(resource, metalink(&mirror.url("/f.bin"))).await,
    );
    case.get(&origin.url("/f.bin")).await.outcome();
    assert!(mirror.bytes_sent() > 0);
    case.assert_file(&content());
    // The piece digests detect a mirror with another file.
    let bad = rate_limited(OriginResource::new(ResourceContent::random(
        9,
        content().length(),
    )))
    .await;
    let (case, origin) = (
        self::case(),
        origin_with_metalink(OriginResource::new(content()), metalink(&bad.url("/f.bin"))).await,
    );
    let run = case.get(&origin.url("/f.bin")).await;
    run.outcome();
    assert!(run.has_warning("do not match their digest"));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_or_missing_metalink_document_is_ignored() {
    let longer = format!(
        "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"f\"><size>{}</size></file></metalink>",
        content().length() + 1
    );
    for document in ["junk".to_owned(), longer] {
        let (case, origin) = (
            case(),
            origin_with_metalink(OriginResource::new(content()), document).await,
        );
        case.get(&origin.url("/f.bin")).await.outcome();
        case.assert_file(&content());
    }
    let gone = OriginResource::new(content()).rule(RequestMatcher::always(), |_, reply| {
        reply.set_header(
            "Link",
            "</gone>; rel=describedby; type=\"application/metalink4+xml\"",
        )
    });
    let (case, origin) = (case(), serve(gone).await);
    case.get(&origin.url("/f.bin")).await.outcome();
    assert_eq!(
        origin
            .requests()
            .iter()
            .filter(|request| request.path() == "/gone")
            .count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_not_sent_to_mirrors_that_an_origin_announces() {
    let mirror = rate_limited(OriginResource::new(content())).await;
    let resource = OriginResource::new(content())
        .header("Link", &duplicate_link(&mirror))
        .rule(
            RequestMatcher::always(),
            faults::require_bearer_token("s3cret"),
        );
    let (mut case, origin) = (case(), rate_limited(resource).await);
    case.client.credentials.bearer = Some(Secret::new("s3cret".into()));
    let run = case.get(&origin.url("/f.bin")).await;
    run.outcome();
    assert!(mirror.bytes_sent() > 0);
    assert!(
        mirror
            .requests()
            .iter()
            .all(|request| request.header("authorization").is_none())
    );
}

/// Three origins: one over TLS, a mirror without TLS and a mirror over TLS; and a case that trusts their certificates.
async fn tls_and_plain_origins(
    resource: impl Fn(&Origin, &Origin) -> [OriginResource; 2],
) -> (JobCase, [Origin; 3]) {
    let authority = haul_lab::CertificateAuthority::new();
    let issued = authority.issue(&["127.0.0.1"]);
    // An attacker on the network path may send other bytes with the same ETag.
    let other = ResourceContent::random(4, content().length());
    let plain = rate_limited(OriginResource::without_validator(other).etag("\"same\"")).await;
    let secure = Origin::builder()
        .resource(
            "/f.bin",
            OriginResource::without_validator(content()).etag("\"same\""),
        )
        .tls(issued.server_config(None))
        .rate_per_connection(1 << 20)
        .start()
        .await;
    let [file, document] = resource(&plain, &secure);
    let origin = Origin::builder()
        .resource("/f.bin", file)
        .resource("/f.meta4", document)
        .tls(issued.server_config(None))
        .rate_per_connection(1 << 20)
        .start()
        .await;
    let mut case = case();
    case.client.tls.cacert = Some(authority.certificate_pem().into_bytes());
    (case, [origin, plain, secure])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_origins_cannot_announce_http_mirrors() {
    let link = |url: &str| format!("<{url}>; rel=describedby; type=\"application/metalink4+xml\"");
    // A mirror in a Link header, a mirror in a document, and a document over HTTP.
    for variant in 0..3 {
        let (case, [origin, plain, secure]) = tls_and_plain_origins(|plain, secure| {
            let file = OriginResource::without_validator(content()).etag("\"same\"");
            let links = match variant {
                0 => format!("{}, {}", duplicate_link(plain), duplicate_link(secure)),
                1 => link("/f.meta4"),
                _ => link(&plain.url("/f.bin")),
            };
            let mirror_urls = format!("{}</url><url>{}", plain.url("/f.bin"), secure.url("/f.bin"));
            let document = OriginResource::new(ResourceContent::fixed(metalink(&mirror_urls)));
            [file.header("Link", &links), document]
        })
        .await;
        case.get(&origin.url("/f.bin")).await.outcome();
        case.assert_file(&content());
        assert_eq!(plain.requests().len(), 0, "{variant}");
        assert_eq!(secure.bytes_sent() > 0, variant < 2, "{variant}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_origins_can_announce_http_mirrors_if_the_user_allows_it() {
    let (mut case, [origin, plain, _]) = tls_and_plain_origins(|plain, _| {
        let file = OriginResource::without_validator(content()).etag("\"same\"");
        let document = OriginResource::new(ResourceContent::fixed(""));
        [file.header("Link", &duplicate_link(plain)), document]
    })
    .await;
    plain.replace(
        "/f.bin",
        OriginResource::without_validator(content()).etag("\"same\""),
    );
    case.client.redirects.allow_downgrade = true;
    case.get(&origin.url("/f.bin")).await.outcome();
    assert!(plain.bytes_sent() > 0);
    case.assert_file(&content());
}

/// An older version of the file of the same length, which some mirrors still have.
fn older() -> ResourceContent {
    ResourceContent::random(9, content().length())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metalink_document_of_an_older_version_is_ignored() {
    // With digests of pieces, and with the digest of the whole file only.
    for pieces in [true, false] {
        let mirror = rate_limited(OriginResource::without_validator(older()).etag("\"old\"")).await;
        let mut stale = metalink_of(&older(), &mirror.url("/f.bin"));
        if !pieces {
            stale = without_pieces(&stale);
        }
        let (case, origin) = (
            case(),
            origin_with_metalink(OriginResource::new(content()), stale).await,
        );
        let run = case.get(&origin.url("/f.bin")).await;
        run.outcome();
        assert!(run.has_warning("describes another version"), "{pieces}");
        assert_eq!(run.outcome().final_url.as_str(), origin.url("/f.bin"));
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metalink_document_that_contradicts_the_user_is_not_used() {
    let mirror = rate_limited(OriginResource::without_validator(older()).etag("\"old\"")).await;
    let stale = metalink_of(&older(), &mirror.url("/f.bin"));
    let (mut case, origin) = (
        case(),
        origin_with_metalink(OriginResource::new(content()), stale).await,
    );
    case.checksums = vec![crate::mirrors::sha256()];
    case.get(&origin.url("/f.bin")).await.outcome();
    assert_eq!(mirror.requests().len(), 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metalink_document_has_a_size_limit() {
    for large in [true, false] {
        let mirror =
            rate_limited(OriginResource::without_validator(content()).etag("\"other\"")).await;
        let padding = if large { 1 << 20 } else { 1 << 19 };
        let document = metalink(&mirror.url("/f.bin")) + &" ".repeat(padding);
        let (case, origin) = (
            case(),
            origin_with_metalink(OriginResource::new(content()), document).await,
        );
        case.get(&origin.url("/f.bin")).await.outcome();
        assert_eq!(mirror.requests().is_empty(), large);
        case.assert_file(&content());
    }
}

/// Fetching the document counts towards the connection limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metalink_document_is_not_fetched_beyond_the_limit_of_its_host() {
    let mut case = case();
    case.options.connections = haul_transfer::ConnectionCount::Fixed(1);
    let document = metalink("http://127.0.0.1:9/f.bin");
    let origin = origin_with_metalink(OriginResource::new(content()), document).await;
    case.get(&origin.url("/f.bin")).await.outcome();
    let open = origin
        .requests()
        .iter()
        .map(|request| request.open_connections)
        .max();
    assert_eq!(open, Some(1));
    case.assert_file(&content());
}

/// The origin is gone after its first response, and only a mirror that it announced is left, with other bytes than the document says.
/// Without the document nothing would verify that mirror: the job fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_announced_mirror_is_not_trusted_without_the_document_that_named_it() {
    for (pieces, ranges) in [(true, 10_000), (false, 10_000), (false, 9)] {
        // After nine ranges, which are the whole file, the mirror answers every request with the whole file.
        let other = OriginResource::without_validator(older())
            .etag("\"old\"")
            .rule(RequestMatcher::after_first(ranges), faults::ignore_range);
        let mirror = serve(other).await;
        let mut document = metalink(&mirror.url("/f.bin"));
        if !pieces {
            document = without_pieces(&document);
        }
        let gone_later = OriginResource::new(content())
            .rule(RequestMatcher::after_first(1), faults::status(404));
        let (case, origin) = (case(), origin_with_metalink(gone_later, document).await);
        let run = case.get(&origin.url("/f.bin")).await;
        let error = run.error();
        assert_eq!(error.class(), ErrorClass::Verification, "{error}");
        assert_eq!(
            matches!(error, GetError::AllSourcesFailed { .. }),
            pieces,
            "{error}"
        );
        assert!(!run.has_warning("describes another version"));
        assert!(!case.path().exists());
    }
}
