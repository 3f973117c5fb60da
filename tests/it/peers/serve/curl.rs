//! curl: up, down, in part, over each version of HTTP, with conditions.

use haul_lab::CertificateAuthority;

use super::{LARGE, SMALL, ServedFolder};

/// Prints the status after the body.
const STATUS: [&str; 4] = ["-o", "out", "-w", "%{http_code} %{http_version}"];

impl ServedFolder {
    /// The status of a response, whose body is in the file `out`.
    #[track_caller]
    fn status(&self, args: &[&str]) -> String {
        self.curl(&[&STATUS, args].concat())
    }
}

#[test]
fn upload_download_and_delete() {
    let serve = ServedFolder::start(&[]);
    let put = serve.url("deep/er/large");
    // A body of this length curl announces by Expect, and gets 100 Continue.
    assert_eq!(serve.status(&["-T", "large", &put]), "201 1.1");
    serve.assert_upload("deep/er/large", LARGE);
    assert_eq!(serve.status(&["-T", "large", &put]), "204 1.1");
    assert_eq!(serve.status(&[&put]), "200 1.1");
    serve.assert_download("out", LARGE);
    let data = [
        "-X",
        "PUT",
        "--data-binary",
        "@small",
        "-H",
        "Expect: 100-continue",
    ];
    let stderr = serve
        .run("curl", &[&["-sSv"], &data[..], &[&put]].concat())
        .stderr;
    assert!(
        stderr.contains("< HTTP/1.1 100 Continue") && stderr.contains("< HTTP/1.1 204"),
        "{stderr}"
    );
    serve.assert_upload("deep/er/large", SMALL);
    let head = serve.curl(&["-I", &put]).to_lowercase();
    assert!(
        head.contains("content-length: 3000\r\n") && head.contains("etag: \""),
        "{head}"
    );
    assert_eq!(serve.status(&["-X", "DELETE", &put]), "204 1.1");
    assert_eq!(serve.status(&[&put]), "404 1.1");
}

#[test]
fn uploads_of_unknown_length_and_from_a_pipe() {
    let serve = ServedFolder::start(&[]);
    let line = format!(
        "cat large | curl -sS -w '%{{http_code}}' -T - {}",
        serve.url("piped")
    );
    assert_eq!(serve.run("sh", &["-c", &line]).stdout, "201");
    serve.assert_upload("piped", LARGE);
}

#[test]
fn d5_a_refused_upload_is_not_sent() {
    let serve = ServedFolder::start(&["--max-body", "1M"]);
    let refused = |args: &[&str], status: &str| {
        let output = serve.run(
            "curl",
            &[&["-sSv", "-T", "large", "-H", "Expect: 100-continue"], args].concat(),
        );
        assert!(
            output.stderr.contains(&format!("< HTTP/1.1 {status}")),
            "{output:#?}"
        );
        assert!(!output.stderr.contains("100 Continue"), "{output:#?}");
    };
    refused(&[&serve.url("new")], "413");
    refused(&["-C", "5", &serve.url("new")], "400");
    let serve = ServedFolder::start(&[]);
    let refused = |args: &[&str], status: &str| {
        let output = serve.run(
            "curl",
            &[&["-sSv", "-T", "large", "-H", "Expect: 100-continue"], args].concat(),
        );
        assert!(
            output.stderr.contains(&format!("< HTTP/1.1 {status}")),
            "{output:#?}"
        );
    };
    refused(&["-H", "If-None-Match: *", &serve.url("small")], "412");
    serve.assert_upload("small", SMALL);
}

#[test]
fn ranges() {
    let serve = ServedFolder::start(&[]);
    let whole = super::file(LARGE);
    std::fs::write(serve.test_directory("part"), &whole[..1_000_003]).unwrap();
    serve.curl(&["-C", "-", "-o", "part", &serve.url("large")]);
    serve.assert_download("part", LARGE);
    let part = |range| serve.curl(&["-r", range, &serve.url("text.txt")]);
    assert_eq!(
        (part("0-1"), part("-3"), part("4-")),
        ("he".into(), "lo\n".into(), "o\n".into())
    );
    let many = serve.curl(&["-i", "-r", "0-0,2-3", &serve.url("text.txt")]);
    assert!(
        many.contains("206") && many.contains("Content-Range: bytes 2-3/6\r\n\r\nll\r\n"),
        "{many}"
    );
    assert_eq!(
        serve.status(&["-r", "6-", &serve.url("text.txt")]),
        "416 1.1"
    );
}

#[test]
fn conditions() {
    let serve = ServedFolder::start(&[]);
    let url = serve.url("text.txt");
    assert_eq!(serve.status(&["--etag-save", "tag", &url]), "200 1.1");
    assert_eq!(serve.status(&["--etag-compare", "tag", &url]), "304 1.1");
    serve.curl(&["-R", "-o", "kept", &url]);
    assert_eq!(serve.status(&["-z", "kept", &url]), "304 1.1");
    assert_eq!(serve.status(&["-z", "2001-01-01", &url]), "200 1.1");
    serve.status(&["-T", "small", &url]);
    assert_eq!(serve.status(&["--etag-compare", "tag", &url]), "200 1.1");
    // It takes bytes that are compressed, and gets them as they are.
    serve.curl(&["--compressed", "-o", "plain", &url]);
    serve.assert_download("plain", SMALL);
}

#[test]
fn http2_by_prior_knowledge_and_over_tls() {
    let authority = CertificateAuthority::new();
    let files = authority.issue(&["127.0.0.1"]).write_files().unwrap();
    let (certificate, key) = (
        files.certificate.to_str().unwrap(),
        files.key.to_str().unwrap(),
    );
    let serve = ServedFolder::start(&["--cert", certificate, "--key", key]);
    std::fs::write(serve.test_directory("ca.pem"), authority.certificate_pem()).unwrap();
    let secure = serve.url("large").replace("http:", "https:");
    let plain = ServedFolder::start(&[]);
    let both = |serve: &ServedFolder, flags: &[&str], url: &str, version: &str| {
        assert_eq!(
            serve.status(&[flags, &[url]].concat()),
            format!("200 {version}")
        );
        serve.assert_download("out", LARGE);
        let up = url.replace("large", "up");
        assert_eq!(
            serve.status(&[flags, &["-T", "large", &up]].concat()),
            format!("201 {version}")
        );
        serve.assert_upload("up", LARGE);
        assert_eq!(
            serve.status(&[flags, &["-X", "DELETE", &up]].concat()),
            format!("204 {version}")
        );
    };
    both(
        &plain,
        &["--http2-prior-knowledge"],
        &plain.url("large"),
        "2",
    );
    both(&serve, &["--cacert", "ca.pem", "--http2"], &secure, "2");
    both(&serve, &["--cacert", "ca.pem", "--http1.1"], &secure, "1.1");
    both(
        &serve,
        &["--cacert", "ca.pem", "--tls-max", "1.2"],
        &secure,
        "2",
    );
    // Who does not know the authority does not go on.
    assert!(!serve.try_run("curl", &["-sS", &secure]).0);
}

#[test]
fn many_requests_at_once() {
    let serve = ServedFolder::start(&[]);
    let urls = serve.url("large?[1-12]");
    serve.curl(&[
        "-Z",
        "--no-progress-meter",
        "--parallel-max",
        "6",
        "-o",
        "got#1",
        &urls,
    ]);
    (1..=12).for_each(|n| serve.assert_download(&format!("got{n}"), LARGE));
    let urls = serve.url("put[1-12]");
    serve.curl(&["-Z", "--no-progress-meter", "-T", "large", &urls]);
    (1..=12).for_each(|n| serve.assert_upload(&format!("put{n}"), LARGE));
}

#[test]
fn the_upload_form_of_the_page() {
    let serve = ServedFolder::start(&[]);
    let form = [
        "-F",
        "file=@large",
        "-F",
        "file=@small;filename=two words.bin",
    ];
    assert_eq!(
        serve.status(&[&form[..], &[&serve.url("folder/")]].concat()),
        "303 1.1"
    );
    serve.assert_upload("folder/large", LARGE);
    serve.assert_upload("folder/two words.bin", SMALL);
}
