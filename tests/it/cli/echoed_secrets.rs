//! Servers, stores and proxies that repeat the secrets of a request in their refusals: nothing that haul prints has them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use super::harness::HaulDirectory;

const SECRET: &str = "SECRET77AB";

/// `me:SECRET77AB`, as Basic sends it.
const BASIC: &str = "bWU6U0VDUkVUNzdBQg==";

/// A server that answers each request with a status, fields and a text in which `{head}` is the request's head.
fn echo_server(status: &'static str, text: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut head, mut chunk) = (Vec::new(), [0; 4096]);
            while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                let read = stream.read(&mut chunk).unwrap();
                head.extend_from_slice(&chunk[..read]);
                if read == 0 {
                    break;
                }
            }
            let head = String::from_utf8_lossy(&head).replace("\r\n", " | ");
            let head = if text.starts_with('<') {
                head.replace('&', "&amp;")
            } else {
                head
            };
            let is_redirected = head.contains("/redirect?");
            let status = if is_redirected {
                "302 Found\r\nLocation: /f"
            } else {
                status
            };
            let (status, body) = (
                status.replace("{head}", &head),
                text.replace("{head}", &head),
            );
            let response = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(response.as_bytes());
            // A body that is not read would reset the connection.
            while stream.read(&mut chunk).is_ok_and(|read| read > 0) {}
        }
    });
    address
}

/// Runs haul and checks that it shows the text of the server, and no secret.
async fn run(haul: &HaulDirectory, args: &[&str], expected: &str) {
    let output = haul.run(args).await;
    assert_ne!(output.code, 0, "{args:?}");
    let shown = format!("{}{}", output.stdout, output.stderr);
    assert!(shown.contains(expected), "{args:?} {output:#?}");
    for secret in [SECRET, BASIC, BASIC.trim_end_matches('=')] {
        assert!(!shown.contains(secret), "{args:?} {output:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_repeat_credentials_are_quoted_without_them() {
    let server = echo_server(
        "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"for {head}\"",
        "{\"error\":\"invalid: {head}\"}",
    );
    let haul = HaulDirectory::new();
    haul.write("f", "x");
    let plain = format!("http://{server}/f.bin");
    let signed = format!("{plain}?X-Amz-Signature={SECRET}");
    let login = format!("me:{SECRET}");
    let in_url = format!("http://{login}@{server}/f.bin");
    let (cookie, key) = (
        format!("Cookie: a=1; sid={SECRET}"),
        format!("X-Api-Key: {SECRET}"),
    );
    let (token, invalid) = (format!("{plain}?token={SECRET}"), "invalid: ");
    for (url, flags) in [
        (&plain, &["--bearer", SECRET][..]),
        (&plain, &["-u", &login]),
        (&plain, &["-H", &cookie]),
        (&plain, &["-H", &key]),
        (&in_url, &[]),
        (&signed, &[]),
        (&token, &[]),
    ] {
        for command in [&["get", "-v"][..], &["get", "--json"]] {
            let args = [command, flags, &["--retries", "0", url]].concat();
            run(
                &haul,
                &args,
                if command[1] == "-v" { invalid } else { "401" },
            )
            .await;
        }
        for command in [&["put"][..], &["put", "--json"]] {
            run(&haul, &[command, flags, &["f", url]].concat(), invalid).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_masked_after_a_redirect_and_in_a_document_of_xml() {
    let haul = HaulDirectory::new();
    haul.write("f", "x");
    let server = echo_server("404 Not Found", "no file for SECRET77AB");
    let url = format!("http://{server}/redirect?token={SECRET}");
    run(&haul, &["get", "-v", &url], "no file for ***").await;
    let xml = "<?xml version=\"1.0\"?>\n<Error><Code>SignatureDoesNotMatch</Code><Message>No match.</Message><SignatureProvided>SECRET77AB</SignatureProvided></Error>";
    let server = echo_server("403 Forbidden", xml);
    let url = format!("http://{server}/f?X-Amz-Signature={SECRET}");
    run(&haul, &["put", "--json", "f", &url], "No match. ***").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f4_stores_that_repeat_a_signature_are_quoted_without_it() {
    let xml =
        "<Error><Code>SignatureDoesNotMatch</Code><Message>No match: {head}</Message></Error>";
    let server = echo_server("403 Forbidden", xml);
    let haul = HaulDirectory::new()
        .with_variable("AWS_ENDPOINT_URL_S3", &format!("http://{server}"))
        .with_variable("AWS_ACCESS_KEY_ID", SECRET)
        .with_variable("AWS_SECRET_ACCESS_KEY", "s3cret")
        .with_variable("AWS_SESSION_TOKEN", "SECRET77ABC");
    haul.write("f", "x");
    for args in [
        &["put", "f", "s3://bucket/f"][..],
        &["put", "--json", "f", "s3://bucket/f"],
        &["ls", "s3://bucket/"],
        &["get", "-v", "s3://bucket/f"],
    ] {
        run(&haul, args, "No match: ").await;
        let output = haul.run(args).await;
        let signature = output.stderr.split("Signature=").nth(1);
        assert!(
            signature.is_none_or(|value| value.starts_with("***")),
            "{output:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_that_repeat_a_login_are_quoted_without_it() {
    let haul = HaulDirectory::new();
    let realm = "407 x\r\nProxy-Authenticate: Basic realm=\"{head}\"";
    for (status, expected) in [
        ("403 Denied for {head}", "403"),
        (realm, "refused the credentials for"),
    ] {
        let proxy = echo_server(status, "");
        let given = format!("http://me:{SECRET}@{proxy}");
        let field = format!("X-Key: {SECRET}");
        let flags = [
            "--proxy-basic",
            "--proxy-header",
            &field,
            "--bearer",
            SECRET,
            "--retries",
            "0",
        ];
        for url in ["https://h.test/f", "http://h.test/f?token=SECRET77AB"] {
            let args = [&["get", "-v", "--proxy", &given, url][..], &flags].concat();
            run(&haul, &args, expected).await;
        }
    }
}
