//! Upload forms, as browsers without scripts and `curl -F` send them: each file is stored
//! completely or not at all.

use crate::client::{TestClient, TestResponse, TestTransport, request_head};
use crate::harness::{TestServer, wait_until};

/// A form with these files and the boundary `zz`.
fn form(files: &[(&str, &str)]) -> String {
    let part = |(name, text): &(&str, &str)| {
        format!(
            "--zz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{text}\r\n"
        )
    };
    files.iter().map(part).collect::<String>() + "--zz--\r\n"
}

fn send(server: &TestServer, transport: TestTransport, path: &str, body: &str) -> TestResponse {
    let mut client = TestClient::connect(server, transport);
    let kind = ("Content-Type", "multipart/form-data; boundary=zz");
    let length = body.len().to_string();
    client.send(request_head(
        "POST",
        path,
        &[kind, ("Content-Length", &length)],
    ));
    client.send(body);
    client.read_response_to("POST")
}

#[test]
fn d3_a_form_file_ends_at_its_delimiter() {
    let server = TestServer::start();
    let head = "--zz\r\nContent-Disposition: form-data; name=\"f\"; filename=\"doc\"\r\n\r\n";
    for transport in TestTransport::HTTP1 {
        for body in [
            "half\r\n--zzz half\r\n--zz--\r\n",
            "half\r\n--zz",
            "half\r\n--zz-",
            "half",
        ] {
            server.write_file("doc", "precious");
            for path in ["/", "/?replace=yes"] {
                let response = send(&server, transport, path, &format!("{head}{body}"));
                assert_eq!(response.status, 400, "{transport:?} {body:?}");
            }
            assert_eq!(
                server.read_file("doc").unwrap(),
                b"precious",
                "{transport:?} {body:?}"
            );
        }
        wait_until("the temporary files are removed", || {
            server.temporary_files() == 0
        });
    }
}

#[test]
fn d5_a_form_replaces_existing_files_only_on_request() {
    let server = TestServer::start();
    for transport in TestTransport::HTTP1 {
        server.write_file("a", "old");
        for name in ["b", "c"] {
            let _ = std::fs::remove_file(server.root().join(name));
        }
        let files = form(&[("b", "new"), ("a", "new"), ("c", "new")]);
        let response = send(&server, transport, "/", &files);
        assert_eq!(response.status, 409, "{transport:?}");
        let text = response.text();
        assert!(
            text.contains("  /a\n") && text.contains("stored: 2\n"),
            "{text}"
        );
        assert!(text.contains("replace=yes"), "{text}");
        let content_of = |name| String::from_utf8(server.read_file(name).unwrap()).unwrap();
        assert_eq!(
            [content_of("a"), content_of("b"), content_of("c")],
            ["old", "new", "new"]
        );
        assert_eq!(
            send(&server, transport, "/?replace=yes", &files).status,
            303
        );
        assert_eq!(content_of("a"), "new");
    }
}

#[test]
fn the_response_to_a_form_names_the_stored_files() {
    let server = TestServer::start();
    for (files, status, received) in [
        (&[][..], 400, "no file was chosen"),
        (&[("", "")], 400, "no file was chosen"),
        (
            &[("one", "1"), ("..", "2"), ("three", "3")],
            400,
            "the file before it was stored",
        ),
    ] {
        let response = send(&server, TestTransport::Plain, "/", &form(files));
        assert_eq!(response.status, status, "{files:?}");
        assert!(response.text().contains(received), "{}", response.text());
    }
    assert!(server.read_file("one").is_some() && server.read_file("three").is_none());
    server.write_file("folder/x", "");
    let response = send(
        &server,
        TestTransport::Plain,
        "/",
        &form(&[("folder", "1")]),
    );
    assert!(
        response.status >= 400 && response.text().starts_with("/folder: "),
        "{}",
        response.text()
    );
}
