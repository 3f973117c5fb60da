//! Mirrors that an origin names by itself: Link fields, and the Metalink document they lead to (RFC 6249).

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use haul_net::Secret;
use sha2::{Digest, Sha256};

use crate::harness::{JobCase, content, serve};
use crate::mirrors::paced;

fn case() -> JobCase {
    let mut case = JobCase::new();
    case.options.mirror_links = true;
    case
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A document about the right file, with this place.
fn document(place: &str) -> String {
    document_of(&content(), place)
}

/// One about this file.
fn document_of(content: &ResourceContent, place: &str) -> String {
    let bytes = content.to_vec();
    let pieces: String = bytes
        .chunks(200_000)
        .map(|piece| format!("<hash>{}</hash>", hex(&Sha256::digest(piece))))
        .collect();
    format!(
        "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"f.bin\"><size>{}</size>\
         <hash type=\"sha-256\">{}</hash><pieces length=\"200000\" type=\"sha-256\">{pieces}</pieces>\
         <url>{place}</url></file></metalink>",
        bytes.len(),
        content.sha256()
    )
}

/// An origin that leads to a document beside its file.
async fn describing(resource: OriginResource, document: String) -> Origin {
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

fn duplicate(origin: &Origin) -> String {
    format!("<{}>; rel=duplicate; pri=1", origin.url("/f.bin"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_with_the_same_tag_shares_the_work() {
    let mirror = paced(OriginResource::new(content())).await;
    let resource = OriginResource::new(content()).header("Link", &duplicate(&mirror));
    let (case, origin) = (case(), paced(resource).await);
    case.get(&origin.url("/f.bin")).await.outcome();
    assert!(mirror.bytes_sent() > 0 && origin.bytes_sent() > 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirrors_are_not_requested_if_the_user_turned_them_off() {
    let mirror = paced(OriginResource::new(content())).await;
    let resource = OriginResource::new(content()).header("Link", &duplicate(&mirror));
    let (case, origin) = (JobCase::new(), paced(resource).await);
    case.get(&origin.url("/f.bin")).await.outcome();
    assert_eq!(mirror.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unverifiable_duplicate_delivers_no_byte() {
    // Another tag, no digest; and the same length, as it happens.
    let other = ResourceContent::random(4, content().length());
    let mirror = serve(OriginResource::without_validator(other).etag("\"v2\"")).await;
    let resource = OriginResource::new(content()).header("Link", &duplicate(&mirror));
    let (case, origin) = (case(), paced(resource).await);
    let ran = case.get(&origin.url("/f.bin")).await;
    ran.outcome();
    assert!(ran.warned("nothing shows that it has the same version"));
    case.assert_file(&content());
    // Without a digest or validator to compare, no mirror is requested.
    let dated =
        OriginResource::without_validator(content()).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    let origin = paced(dated.header("Link", &duplicate(&mirror))).await;
    let (before, case) = (mirror.requests().len(), self::case());
    case.get(&origin.url("/f.bin")).await.outcome();
    assert_eq!(mirror.requests().len(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_gives_mirrors_and_digests_of_pieces() {
    let mirror = paced(OriginResource::without_validator(content()).etag("\"other\"")).await;
    let resource = OriginResource::new(content());
    let (case, origin) = (
        case(),
        describing(resource, document(&mirror.url("/f.bin"))).await,
    );
    case.get(&origin.url("/f.bin")).await.outcome();
    assert!(mirror.bytes_sent() > 0);
    case.assert_file(&content());
    // A mirror with another file is found out.
    let bad = paced(OriginResource::new(ResourceContent::random(
        9,
        content().length(),
    )))
    .await;
    let (case, origin) = (
        self::case(),
        describing(OriginResource::new(content()), document(&bad.url("/f.bin"))).await,
    );
    let ran = case.get(&origin.url("/f.bin")).await;
    ran.outcome();
    assert!(ran.warned("do not match their digest"));
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_useless_metalink_document_is_no_error() {
    let longer = format!(
        "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"f\"><size>{}</size></file></metalink>",
        content().length() + 1
    );
    for document in ["junk".to_owned(), longer] {
        let (case, origin) = (
            case(),
            describing(OriginResource::new(content()), document).await,
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
async fn a_login_is_not_sent_to_mirrors_that_an_origin_names() {
    let mirror = paced(OriginResource::new(content())).await;
    let resource = OriginResource::new(content())
        .header("Link", &duplicate(&mirror))
        .rule(
            RequestMatcher::always(),
            faults::require_bearer_token("s3cret"),
        );
    let (mut case, origin) = (case(), paced(resource).await);
    case.client.credentials.bearer = Some(Secret::new("s3cret".into()));
    let ran = case.get(&origin.url("/f.bin")).await;
    ran.outcome();
    assert!(mirror.bytes_sent() > 0);
    assert!(
        mirror
            .requests()
            .iter()
            .all(|request| request.header("authorization").is_none())
    );
}

/// An origin over TLS, one without and one with, and a case that believes the first and the last.
async fn origins(
    resource: impl Fn(&Origin, &Origin) -> [OriginResource; 2],
) -> (JobCase, [Origin; 3]) {
    let authority = haul_lab::CertificateAuthority::new();
    let issued = authority.issue(&["127.0.0.1"]);
    // Whoever is on the way may give other bytes under the same tag.
    let other = ResourceContent::random(4, content().length());
    let plain = paced(OriginResource::without_validator(other).etag("\"same\"")).await;
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
async fn https_sources_do_not_lead_to_http_mirrors() {
    let link = |url: &str| format!("<{url}>; rel=describedby; type=\"application/metalink4+xml\"");
    // By a field, by a document, and to a document.
    for way in 0..3 {
        let (case, [origin, plain, secure]) = origins(|plain, secure| {
            let file = OriginResource::without_validator(content()).etag("\"same\"");
            let links = match way {
                0 => format!("{}, {}", duplicate(plain), duplicate(secure)),
                1 => link("/f.meta4"),
                _ => link(&plain.url("/f.bin")),
            };
            let places = format!("{}</url><url>{}", plain.url("/f.bin"), secure.url("/f.bin"));
            let document = OriginResource::new(ResourceContent::fixed(document(&places)));
            [file.header("Link", &links), document]
        })
        .await;
        case.get(&origin.url("/f.bin")).await.outcome();
        case.assert_file(&content());
        assert_eq!(plain.requests().len(), 0, "{way}");
        assert_eq!(secure.bytes_sent() > 0, way < 2, "{way}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_sources_lead_to_http_mirrors_if_the_user_allows_it() {
    let (mut case, [origin, plain, _]) = origins(|plain, _| {
        let file = OriginResource::without_validator(content()).etag("\"same\"");
        let document = OriginResource::new(ResourceContent::fixed(""));
        [file.header("Link", &duplicate(plain)), document]
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

/// What was there before the new version: the same length, and mirrors that still have it.
fn older() -> ResourceContent {
    ResourceContent::random(9, content().length())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_of_an_older_version_does_not_overrule_the_origin() {
    let hash = |document: &str| document.split_once("<pieces").unwrap().0.to_owned();
    let url = |document: &str| document.split_once("</pieces>").unwrap().1.to_owned();
    // By digests of pieces, and by that of the whole alone.
    for pieces in [true, false] {
        let mirror = paced(OriginResource::without_validator(older()).etag("\"old\"")).await;
        let mut stale = document_of(&older(), &mirror.url("/f.bin"));
        if !pieces {
            stale = hash(&stale) + &url(&stale);
        }
        let (case, origin) = (
            case(),
            describing(OriginResource::new(content()), stale).await,
        );
        let ran = case.get(&origin.url("/f.bin")).await;
        ran.outcome();
        assert!(ran.warned("is not about the version it has"), "{pieces}");
        assert_eq!(ran.outcome().final_url.as_str(), origin.url("/f.bin"));
        case.assert_file(&content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metalink_document_that_contradicts_the_user_is_not_used() {
    let mirror = paced(OriginResource::without_validator(older()).etag("\"old\"")).await;
    let stale = document_of(&older(), &mirror.url("/f.bin"));
    let (mut case, origin) = (
        case(),
        describing(OriginResource::new(content()), stale).await,
    );
    case.checksums = vec![crate::mirrors::sha256()];
    case.get(&origin.url("/f.bin")).await.outcome();
    assert_eq!(mirror.requests().len(), 0);
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metalink_document_has_a_size_limit() {
    for large in [true, false] {
        let mirror = paced(OriginResource::without_validator(content()).etag("\"other\"")).await;
        let padding = if large { 1 << 20 } else { 1 << 19 };
        let document = document(&mirror.url("/f.bin")) + &" ".repeat(padding);
        let (case, origin) = (
            case(),
            describing(OriginResource::new(content()), document).await,
        );
        case.get(&origin.url("/f.bin")).await.outcome();
        assert_eq!(mirror.requests().is_empty(), large);
        case.assert_file(&content());
    }
}

/// A document takes a connection as everything does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metalink_document_is_not_fetched_beyond_the_limit_of_its_host() {
    let mut case = case();
    case.options.connections = haul_transfer::ConnectionCount::Fixed(1);
    let document = document("http://127.0.0.1:9/f.bin");
    let origin = describing(OriginResource::new(content()), document).await;
    case.get(&origin.url("/f.bin")).await.outcome();
    let open = origin
        .requests()
        .iter()
        .map(|request| request.open_connections)
        .max();
    assert_eq!(open, Some(1));
    case.assert_file(&content());
}
