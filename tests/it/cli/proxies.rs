//! Proxies of `haul get`: flags and variables that name them, hosts that bypass them, TLS to them.

use haul_lab::{CertificateAuthority, HttpProxy, Origin, OriginResource, RequestMatcher, faults};

use crate::cli::harness::{HaulDirectory, content, start_origin};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_from_flags_and_from_the_environment() {
    // A request to a proxy names the whole URL, so an origin with a resource of that URL can serve as the proxy.
    let required_login = faults::RequiredLogin::basic("me", "s3cret").for_proxy();
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::always(), required_login.rule());
    let builder = Origin::builder().resource("http://files.test/f.bin", resource);
    let proxy = builder
        .resource("/f.bin", OriginResource::new(content()))
        .start()
        .await;
    let through = proxy.url("").replace("http://", "http://me:s3cret@");
    let url = "http://files.test/f.bin";
    HaulDirectory::new()
        .get(url, &["--proxy", &through])
        .await
        .assert_code(0);
    assert_eq!(
        proxy.requests()[1].header("proxy-authorization"),
        Some("Basic bWU6czNjcmV0")
    );
    HaulDirectory::new()
        .with_variable("http_proxy", &through)
        .get(url, &[])
        .await
        .assert_code(0);
    HaulDirectory::new()
        .with_variable("ALL_PROXY", &through)
        .get(url, &[])
        .await
        .assert_code(0);

    let direct = proxy.url("/f.bin");
    let dead = || HaulDirectory::new().with_variable("http_proxy", "http://127.0.0.1:1");
    dead()
        .get(&direct, &["--retries", "0"])
        .await
        .assert_code(5)
        .assert_stderr_has("127.0.0.1:1");
    dead().get(&direct, &["--proxy", ""]).await.assert_code(0);
    dead()
        .get(&direct, &["--no-proxy", "127.0.0.0/8"])
        .await
        .assert_code(0);
    dead()
        .with_variable("no_proxy", "127.0.0.1")
        .get(&direct, &[])
        .await
        .assert_code(0);
    let wrong = HaulDirectory::new()
        .with_variable("http_proxy", "gopher://me:s3cret@p")
        .get(&direct, &[])
        .await;
    wrong
        .assert_code(2)
        .assert_stderr_has("the variable http_proxy")
        .assert_stderr_has("hint: use another proxy with --proxy URL");
    assert!(!wrong.stderr.contains("s3cret"), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_proxy_holds_for_the_flag_too_and_a_flag_replaces_it() {
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    let dead = ["--proxy", "http://127.0.0.1:1", "--retries", "0"];
    let spared = || HaulDirectory::new().with_variable("no_proxy", "127.0.0.1");
    spared().get(&url, &dead).await.assert_code(0);
    let flags = [&dead[..], &["--no-proxy", "a.test"]].concat();
    spared().get(&url, &flags).await.assert_code(5);
    HaulDirectory::new().get(&url, &dead).await.assert_code(5);
}

/// The variable is for other programs too: its errors matter only for URLs that use the proxy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_proxy_variable_does_no_harm_when_not_needed() {
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    for (name, text) in [("https_proxy", "corp"), ("HTTPS_PROXY", "ftp://p:1")] {
        let output = HaulDirectory::new()
            .with_variable(name, text)
            .get(&url, &[])
            .await;
        assert_eq!(
            output.assert_code(0).stderr.lines().count(),
            1,
            "{output:#?}"
        );
    }
    let corp = || HaulDirectory::new().with_variable("all_proxy", "corp");
    corp()
        .with_variable("no_proxy", "*")
        .get(&url, &[])
        .await
        .assert_code(0);
    corp()
        .get(&url, &["--no-proxy", "127.0.0.1"])
        .await
        .assert_code(0);
    corp()
        .with_variable("http_proxy", "")
        .get(&url, &[])
        .await
        .assert_code(0);
    for flags in [
        &[][..],
        &["--no-proxy", "h.test"],
        &["--proxy-header", "X: y"],
    ] {
        let wrong = corp().get(&url, flags).await;
        wrong
            .assert_code(2)
            .assert_stderr_has("the variable all_proxy cannot be used: the port is missing");
    }
    // A redirect leads to it as well.
    let away = faults::status_with_header(302, "Location", "https://files.test/f".into());
    let away =
        start_origin(OriginResource::new(content()).rule(RequestMatcher::always(), away)).await;
    let haul = HaulDirectory::new().with_variable("https_proxy", "corp");
    let output = haul.get(&away.url("/f.bin"), &[]).await;
    output
        .assert_code(2)
        .assert_stderr_has("the variable https_proxy");
}

/// One word that cannot be used costs none of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_host_in_no_proxy_is_warned_of() {
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    let dead = || HaulDirectory::new().with_variable("http_proxy", "http://127.0.0.1:1");
    let list = "10.0.0.0/99,127.0.0.1";
    let warned = dead().with_variable("no_proxy", list).get(&url, &[]).await;
    warned
        .assert_code(0)
        .assert_stderr_has("warning: the variable no_proxy: \"10.0.0.0/99\" is not a network");
    let upper = dead().with_variable("NO_PROXY", list).get(&url, &[]).await;
    upper.assert_stderr_has("warning: the variable NO_PROXY: ");
    // What other programs take costs no warning.
    let common = dead().with_variable("no_proxy", "192.168.*,a.test:80,127.*");
    let output = common.get(&url, &[]).await;
    assert_eq!(
        output.assert_code(0).stderr.lines().count(),
        1,
        "{output:#?}"
    );
    let quiet = dead()
        .with_variable("no_proxy", list)
        .get(&url, &["-q"])
        .await;
    assert_eq!(quiet.assert_code(0).stderr, "");
    let refused = dead().get(&url, &["--no-proxy", list]).await;
    refused
        .assert_code(2)
        .assert_stderr_has("--no-proxy: \"10.0.0.0/99\" is not a network");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_a_proxy_has_flags_of_its_own() {
    let (proxys, origins) = (CertificateAuthority::new(), CertificateAuthority::new());
    let origin = Origin::builder()
        .tls(origins.issue(&["files.test"]).server_config(None))
        .resource("/f.bin", OriginResource::new(content()))
        .start()
        .await;
    let proxy = HttpProxy::builder()
        .route("files.test:443", origin.address())
        .tls(proxys.issue(&["127.0.0.1"]).server_config(None))
        .start()
        .await;
    let haul = HaulDirectory::new();
    let (own, other) = (
        haul.write("proxy.pem", proxys.certificate_pem()),
        haul.write("origin.pem", origins.certificate_pem()),
    );
    let at = proxy.url();
    let get = async |flags: &[&str]| {
        let flags = [&["--proxy", &at, "--retries", "0", "--overwrite"], flags].concat();
        haul.get("https://files.test/f.bin", &flags).await
    };
    let field = ["--proxy-header", "X-Token: s3cret"];
    let trusting = ["--proxy-cacert", &own, "--cacert", &other];
    let output = get(&[&trusting[..], &field].concat()).await;
    assert!(
        !output.assert_code(0).stderr.contains("s3cret"),
        "{output:#?}"
    );
    assert_eq!(proxy.requests()[0].header("x-token"), Some("s3cret"));
    assert_eq!(origin.requests()[0].header("x-token"), None);
    get(&["--proxy-insecure", "--cacert", &other])
        .await
        .assert_code(0);
    // Who trusts anybody as an origin does not trust anybody as the proxy, once that has been spoken of.
    get(&["--proxy-cacert", &other, "-k"])
        .await
        .assert_code(5)
        .assert_stderr_has("hint: trust your own authority with --proxy-cacert FILE");
    get(&["--proxy-cacert", &own])
        .await
        .assert_code(5)
        .assert_stderr_has(
            "hint: trust your own authority or a self-signed certificate with --cacert FILE",
        );
    let clear = at.replace("https://", "http://");
    haul.get(
        "https://files.test/f.bin",
        &["--proxy", &clear, "--proxy-insecure"],
    )
    .await
    .assert_code(2)
    .assert_stderr_has("hint: write a proxy over TLS as https://HOST:PORT");
    haul.get(
        "https://files.test/f.bin",
        &["--proxy", "", field[0], field[1]],
    )
    .await
    .assert_code(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_get_logs_in_to_a_proxy_as_tunnel_does() {
    let required = faults::RequiredLogin::basic("me", "s3cret");
    let origin = start_origin(OriginResource::new(content())).await;
    let proxy = HttpProxy::builder().require_login(required).start().await;
    let address = proxy.address().to_string();
    let url = origin.url("/f.bin");
    let haul = || {
        let haul = HaulDirectory::new();
        haul.write("password", "s3cret\n");
        haul.write("both", "me:s3cret\n");
        haul
    };
    let at_me = format!("http://me@{address}");
    for flags in [
        &["-p", &address, "-U", "me:s3cret"][..],
        &["--proxy", &address, "--proxy-user", "me:s3cret"],
        &[
            "-p",
            &address,
            "-U",
            "me",
            "--proxy-password-file",
            "password",
        ],
        &["-p", &address, "--proxy-password-file", "both"],
        &["-p", &at_me, "--proxy-password-file", "password"],
    ] {
        let output = haul().get(&url, flags).await;
        output.assert_code(0);
        assert!(!output.stderr.contains("s3cret"), "{output:#?}");
    }
    let variable = || haul().with_variable("HAUL_PROXY_USER", "me:s3cret");
    variable().get(&url, &["-p", &address]).await.assert_code(0);
    // The variables of proxies have logins in the same ways.
    variable()
        .with_variable("http_proxy", &address)
        .get(&url, &[])
        .await
        .assert_code(0);
    // A flag goes before the variable.
    let wrong = ["-p", &address, "-U", "me:wrong", "--retries", "0"];
    variable()
        .get(&url, &wrong)
        .await
        .assert_code(5)
        .assert_stderr_has("refused the credentials");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_a_proxy_refuses_no_credentials_that_nobody_gave() {
    let required = faults::RequiredLogin::basic("me", "s3cret");
    let origin = start_origin(OriginResource::new(content())).await;
    let proxy = HttpProxy::builder().require_login(required).start().await;
    let url = origin.url("/f.bin");
    let haul = HaulDirectory::new();
    let at_me = format!("http://me@{}", proxy.address());
    let output = haul.get(&url, &["-p", &at_me, "--retries", "0"]).await;
    output
        .assert_code(5)
        .assert_stderr_has("requires credentials")
        .assert_stderr_has("log in with -U USER");
    assert!(!output.stderr.contains("refused"), "{output:#?}");
    // -U prompts, and there is no terminal here.
    haul.get(&url, &["-p", &at_me.replace("me@", ""), "-U", "me"])
        .await
        .assert_code(2)
        .assert_stderr_has("there is no terminal")
        .assert_stderr_has("--proxy-password-file FILE");
    haul.get(&url, &["-p", "", "-U", "me:s3cret"])
        .await
        .assert_code(2)
        .assert_stderr_has("there is no proxy to log in to");
    // The variable is for proxies; without one it is not even read.
    HaulDirectory::new()
        .with_variable("HAUL_PROXY_USER", "")
        .get(&url, &["-p", ""])
        .await
        .assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_a_proxy_that_never_asks_gets_the_login_in_absolute_form_and_with_connect() {
    let certificate = CertificateAuthority::new().issue(&["127.0.0.1"]);
    let builder = Origin::builder().resource("/f.bin", OriginResource::new(content()));
    let tls_origin = builder.tls(certificate.server_config(None)).start().await;
    let origin = start_origin(OriginResource::new(content())).await;
    let required = faults::RequiredLogin::basic("me", "s3cret").for_proxy();
    let refused = required.refused_by(faults::status(403));
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), refused)
        .start()
        .await;
    let address = proxy.address().to_string();
    let flags = ["-p", &address, "--retries", "0", "-k"];
    for url in [origin.url("/f.bin"), tls_origin.url("/f.bin")] {
        let haul = HaulDirectory::new().with_variable("HAUL_PROXY_USER", "me:s3cret");
        let refusals = || {
            let requests = proxy.requests().into_iter();
            requests.filter(|request| request.status == 403).count()
        };
        let before = refusals();
        haul.get(&url, &flags).await.assert_code(0);
        assert_eq!(refusals(), before + 1, "{url}");
        let at_once = [&flags[..], &["--proxy-basic", "-o", "2"]].concat();
        haul.get(&url, &at_once).await.assert_code(0);
        assert_eq!(refusals(), before + 1, "{url}");
    }
    let wrong = [&flags[..], &["-U", "me:wrong"]].concat();
    let output = HaulDirectory::new()
        .get(&tls_origin.url("/f.bin"), &wrong)
        .await;
    output
        .assert_code(5)
        .assert_stderr_has("it never asked for a login, and haul sent it by Basic")
        .assert_stderr_has("hint: check the user name and password of the proxy");
    assert!(!output.stderr.contains("wrong"), "{output:#?}");
    HaulDirectory::new()
        .get(&origin.url("/f.bin"), &["-p", "", "--proxy-basic"])
        .await
        .assert_code(2)
        .assert_stderr_has("there is no proxy to log in to");
}
