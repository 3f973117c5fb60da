//! Requests and the way to the origin: header fields, addresses, proxies, TLS, redirects.

use haul_lab::{Authority, HttpProxy, Origin, Resource, When, breakage};

use crate::cli::harness::{Haul, content, serve};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_fields_are_added_replaced_and_removed() {
    let origin = serve(Resource::new(content())).await;
    let flags = ["-H", "X-One: 1", "-H", "User-Agent: mine", "-H", "Accept:"];
    Haul::new()
        .get(&origin.url("/f.bin"), &flags)
        .await
        .assert_code(0);
    let asked = &origin.asked()[0];
    assert_eq!(
        (
            asked.header("x-one"),
            asked.header("user-agent"),
            asked.header("accept")
        ),
        (Some("1"), Some("mine"), None)
    );
    assert_eq!(asked.header("accept-encoding"), Some("identity"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_get_the_addresses_they_are_told() {
    let origin = serve(Resource::new(content())).await;
    let port = origin.address().port();
    let haul = Haul::new();
    let pin = format!("files.test:{port}:127.0.0.1");
    haul.get(
        &format!("http://files.test:{port}/f.bin"),
        &["--resolve", &pin, "-4"],
    )
    .await
    .assert_code(0);
    assert_eq!(
        origin.asked()[0].header("host"),
        Some(format!("files.test:{port}").as_str())
    );
    haul.get(&origin.url("/f.bin"), &["-6", "-o", "g", "--retries", "0"])
        .await
        .assert_code(5);
    assert_eq!(origin.asked().len(), 1, "IPv4 was used in spite of -6");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_from_flags_and_from_the_environment() {
    // To a proxy a request names the whole URL, which is all that an origin needs to play one.
    let asks = breakage::Login::basic("me", "s3cret").for_proxy();
    let resource = Resource::new(content()).rule(When::always(), asks.rule());
    let builder = Origin::builder().resource("http://files.test/f.bin", resource);
    let proxy = builder
        .resource("/f.bin", Resource::new(content()))
        .start()
        .await;
    let through = proxy.url("").replace("http://", "http://me:s3cret@");
    let url = "http://files.test/f.bin";
    Haul::new()
        .get(url, &["--proxy", &through])
        .await
        .assert_code(0);
    assert_eq!(
        proxy.asked()[1].header("proxy-authorization"),
        Some("Basic bWU6czNjcmV0")
    );
    Haul::new()
        .with("http_proxy", &through)
        .get(url, &[])
        .await
        .assert_code(0);
    Haul::new()
        .with("ALL_PROXY", &through)
        .get(url, &[])
        .await
        .assert_code(0);

    let direct = proxy.url("/f.bin");
    let dead = || Haul::new().with("http_proxy", "http://127.0.0.1:1");
    dead()
        .get(&direct, &["--retries", "0"])
        .await
        .assert_code(5)
        .assert_says("127.0.0.1:1");
    dead().get(&direct, &["--proxy", ""]).await.assert_code(0);
    dead()
        .get(&direct, &["--no-proxy", "127.0.0.0/8"])
        .await
        .assert_code(0);
    dead()
        .with("no_proxy", "127.0.0.1")
        .get(&direct, &[])
        .await
        .assert_code(0);
    let wrong = Haul::new()
        .with("http_proxy", "gopher://me:s3cret@p")
        .get(&direct, &[])
        .await;
    wrong
        .assert_code(2)
        .assert_says("the variable http_proxy")
        .assert_says("hint: --proxy ''");
    assert!(!wrong.stderr.contains("s3cret"), "{wrong:#?}");
}

/// One word that cannot be used costs none of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_host_among_those_without_a_proxy_is_told_of() {
    let origin = serve(Resource::new(content())).await;
    let url = origin.url("/f.bin");
    let dead = || Haul::new().with("http_proxy", "http://127.0.0.1:1");
    let list = "10.0.0.0/99,127.0.0.1";
    let warned = dead().with("no_proxy", list).get(&url, &[]).await;
    warned
        .assert_code(0)
        .assert_says("warning: the variable no_proxy: \"10.0.0.0/99\" is no network");
    let quiet = dead().with("no_proxy", list).get(&url, &["-q"]).await;
    assert_eq!(quiet.assert_code(0).stderr, "");
    let refused = dead().get(&url, &["--no-proxy", list]).await;
    refused
        .assert_code(2)
        .assert_says("--no-proxy: \"10.0.0.0/99\" is no network");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_a_proxy_has_flags_of_its_own() {
    let (proxys, origins) = (Authority::new(), Authority::new());
    let origin = Origin::builder()
        .tls(origins.issue(&["files.test"]).server(None))
        .resource("/f.bin", Resource::new(content()))
        .start()
        .await;
    let proxy = HttpProxy::builder()
        .route("files.test:443", origin.address())
        .tls(proxys.issue(&["127.0.0.1"]).server(None))
        .start()
        .await;
    let haul = Haul::new();
    let (own, other) = (
        haul.write("proxy.pem", proxys.pem()),
        haul.write("origin.pem", origins.pem()),
    );
    let at = proxy.url();
    let get = async |flags: &[&str]| {
        let flags = [&["--proxy", &at, "--retries", "0", "--overwrite"], flags].concat();
        haul.get("https://files.test/f.bin", &flags).await
    };
    let field = ["--proxy-header", "X-Token: s3cret"];
    let trusting = ["--proxy-cacert", &own, "--cacert", &other];
    let ran = get(&[&trusting[..], &field].concat()).await;
    assert!(!ran.assert_code(0).stderr.contains("s3cret"), "{ran:#?}");
    assert_eq!(proxy.asked()[0].header("x-token"), Some("s3cret"));
    assert_eq!(origin.asked()[0].header("x-token"), None);
    get(&["--proxy-insecure", "--cacert", &other])
        .await
        .assert_code(0);
    // Who trusts anybody as an origin does not trust anybody as the proxy, once that has been spoken of.
    get(&["--proxy-cacert", &other, "-k"])
        .await
        .assert_code(5)
        .assert_says("hint: --proxy-cacert FILE");
    get(&["--proxy-cacert", &own])
        .await
        .assert_code(5)
        .assert_says("hint: --cacert FILE");
    let clear = at.replace("https://", "http://");
    haul.get(
        "https://files.test/f.bin",
        &["--proxy", &clear, "--proxy-insecure"],
    )
    .await
    .assert_code(2)
    .assert_says("hint: https://HOST:PORT");
    haul.get(
        "https://files.test/f.bin",
        &["--proxy", "", field[0], field[1]],
    )
    .await
    .assert_code(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_tls_trusts_and_what_it_shows() {
    let authority = Authority::new();
    let haul = Haul::new();
    let ca = haul.write("ca.pem", authority.pem());
    let issued = authority.issue(&["127.0.0.1"]);
    let start = |clients| {
        Origin::builder()
            .tls(issued.server(clients))
            .resource("/f.bin", Resource::new(content()))
            .start()
    };

    let origin = start(None).await;
    haul.get(&origin.url("/f.bin"), &["--cacert", &ca])
        .await
        .assert_code(0);
    haul.assert_file("f.bin", &content());
    let ran = haul
        .get(&origin.url("/f.bin"), &["--insecure", "-o", "g"])
        .await;
    ran.assert_code(0).assert_says("haul: warning: --insecure");
    let trusting = Haul::new().with("SSL_CERT_FILE", &ca);
    trusting
        .get(&origin.url("/f.bin"), &[])
        .await
        .assert_code(0);

    let closed = start(Some(&authority)).await;
    let client = authority.issue(&["client.test"]);
    let (cert, key) = (
        haul.write("cert.pem", &client.certificate),
        haul.write("key.pem", &client.key),
    );
    let flags = ["--cacert", &ca, "-o", "h", "--retries", "0"];
    haul.get(&closed.url("/f.bin"), &flags).await.assert_code(5);
    haul.get(
        &closed.url("/f.bin"),
        &[&flags[..], &["--cert", &cert, "--key", &key]].concat(),
    )
    .await
    .assert_code(0);
    haul.assert_file("h", &content());
    let both = haul.write("both.pem", format!("{}{}", client.key, client.certificate));
    for more in [&["--key", &*both][..], &[]] {
        let flags = ["--cacert", &ca, "-o", "i", "--overwrite", "--cert", &both];
        let flags = [&flags, more].concat();
        haul.get(&closed.url("/f.bin"), &flags).await.assert_code(0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_the_environment_names_must_be_there() {
    let directory = tempfile::tempdir().unwrap();
    for directory in ["", directory.path().to_str().unwrap()] {
        let haul = Haul::new()
            .with("SSL_CERT_FILE", "/nope")
            .with("SSL_CERT_DIR", directory);
        let url = "https://127.0.0.1:1/f";
        haul.get(url, &[])
            .await
            .assert_code(2)
            .assert_says("SSL_CERT_FILE: cannot read /nope: No such file");
        // Nobody asks for it then.
        haul.get(url, &["-k", "--retries", "0"])
            .await
            .assert_code(5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_down_to_http_are_followed_when_allowed() {
    let plain = serve(Resource::new(content())).await;
    let authority = Authority::new();
    let down = breakage::status_with(302, "Location", plain.url("/f.bin"));
    let secure = Origin::builder()
        .tls(authority.issue(&["127.0.0.1"]).server(None))
        .resource(
            "/f.bin",
            Resource::new(content()).rule(When::always(), down),
        )
        .start()
        .await;
    let haul = Haul::new();
    let ca = haul.write("ca.pem", authority.pem());
    let url = secure.url("/f.bin");
    let ran = haul.get(&url, &["--cacert", &ca]).await;
    ran.assert_code(5)
        .assert_says("a redirect from https to http")
        .assert_says("hint: --allow-downgrade");
    assert!(plain.asked().is_empty());
    haul.get(&url, &["--cacert", &ca, "--allow-downgrade"])
        .await
        .assert_code(0);
    haul.assert_file("f.bin", &content());
}
