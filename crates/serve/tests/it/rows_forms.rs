//! Forms of the page, as browsers without a script and `curl -F` send them: each file whole or not there.

use crate::client::{RequestPathway, TestClient, TestResponse, request};
use crate::harness::{TestServer, eventually};

/// A form of these files, with the boundary `zz`.
fn form(files: &[(&str, &str)]) -> String {
    let part = |(name, text): &(&str, &str)| {
        format!(
            "--zz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{text}\r\n"
        )
    };
    files.iter().map(part).collect::<String>() + "--zz--\r\n"
}

fn send(served: &TestServer, road: RequestPathway, path: &str, body: &str) -> TestResponse {
    let mut client = TestClient::on(served, road);
    let kind = ("Content-Type", "multipart/form-data; boundary=zz");
    let length = body.len().to_string();
    client.send(request("POST", path, &[kind, ("Content-Length", &length)]));
    client.send(body);
    client.answer_to("POST")
}

#[test]
fn d3_a_file_ends_where_its_delimiter_does() {
    let served = TestServer::start();
    let head = "--zz\r\nContent-Disposition: form-data; name=\"f\"; filename=\"doc\"\r\n\r\n";
    for road in RequestPathway::FIRST {
        for body in [
            "half\r\n--zzz half\r\n--zz--\r\n",
            "half\r\n--zz",
            "half\r\n--zz-",
            "half",
        ] {
            served.file("doc", "precious");
            for path in ["/", "/?replace=yes"] {
                let answer = send(&served, road, path, &format!("{head}{body}"));
                assert_eq!(answer.status, 400, "{road:?} {body:?}");
            }
            assert_eq!(
                served.holds("doc").unwrap(),
                b"precious",
                "{road:?} {body:?}"
            );
        }
        eventually("nothing is left", || served.temporaries() == 0);
    }
}

#[test]
fn d5_a_form_replaces_what_is_there_if_that_is_asked_for() {
    let served = TestServer::start();
    for road in RequestPathway::FIRST {
        served.file("a", "old");
        for name in ["b", "c"] {
            let _ = std::fs::remove_file(served.root().join(name));
        }
        let files = form(&[("b", "new"), ("a", "new"), ("c", "new")]);
        let answer = send(&served, road, "/", &files);
        assert_eq!(answer.status, 409, "{road:?}");
        let text = answer.text();
        assert!(
            text.contains("  /a\n") && text.contains("stored: 2\n"),
            "{text}"
        );
        assert!(text.contains("replace=yes"), "{text}");
        let held = |name| String::from_utf8(served.holds(name).unwrap()).unwrap();
        assert_eq!([held("a"), held("b"), held("c")], ["old", "new", "new"]);
        assert_eq!(send(&served, road, "/?replace=yes", &files).status, 303);
        assert_eq!(held("a"), "new");
    }
}

#[test]
fn what_became_of_a_form_is_told() {
    let served = TestServer::start();
    for (files, status, said) in [
        (&[][..], 400, "no file was chosen"),
        (&[("", "")], 400, "no file was chosen"),
        (
            &[("one", "1"), ("..", "2"), ("three", "3")],
            400,
            "the file before it was stored",
        ),
    ] {
        let answer = send(&served, RequestPathway::Plain, "/", &form(files));
        assert_eq!(answer.status, status, "{files:?}");
        assert!(answer.text().contains(said), "{}", answer.text());
    }
    assert!(served.holds("one").is_some() && served.holds("three").is_none());
    served.file("folder/x", "");
    let answer = send(
        &served,
        RequestPathway::Plain,
        "/",
        &form(&[("folder", "1")]),
    );
    assert!(
        answer.status >= 400 && answer.text().starts_with("/folder: "),
        "{}",
        answer.text()
    );
}
