//! Errors by kind, and responses in all their forms.

use haul_lab::{OriginResponse, RecordedRequest, RequestMatcher, faults};

use super::*;

type Fault = Box<dyn Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync>;

/// Loads an origin whose requests all meet a fault, with both clients.
async fn run_with(fault: Fault) -> [Measurement; 2] {
    let origin = serve(resource(100_000).rule(RequestMatcher::always(), fault)).await;
    let load = |client| {
        run(LoadPlan {
            client,
            end: LoadEnd::Requests(10),
            ..plan(&origin.url("/f"))
        })
    };
    [load(BOTH_CLIENTS[0]).await, load(BOTH_CLIENTS[1]).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_counted_by_kind_and_are_in_no_time() {
    let raw = |bytes: &'static [u8]| -> Fault {
        Box::new(|_, response| response.raw_bytes = Some(bytes.to_vec()))
    };
    let faults: [(&str, Fault); 12] = [
        ("10 status 503", Box::new(faults::status(503))),
        ("10 status 404", Box::new(faults::status(404))),
        (
            "10 status 302 (Location: https://***@moved.test/f)",
            Box::new(faults::redirect(
                302,
                "https://me:secret@moved.test/f?token=t",
            )),
        ),
        ("10 connection reset", Box::new(faults::reset_connection)),
        ("10 truncated body", Box::new(faults::close_after(50))),
        (
            "10 truncated body",
            Box::new(faults::overstated_length(200_000)),
        ),
        ("10 invalid response", Box::new(faults::endless_head)),
        ("10 invalid response", Box::new(faults::nul_in_header)),
        ("10 invalid response", raw(b"SSH-2.0-OpenSSH\r\n\r\n")),
        (
            "10 invalid response",
            raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        ),
        ("10 connection closed", raw(b"HTTP/1.1 200 OK\r\nConte")),
        ("10 connection closed", raw(b"")),
    ];
    for (expected, fault) in faults {
        for measured in run_with(fault).await {
            assert_eq!(errors(&measured), expected);
            assert_eq!((measured.successes, measured.latency), (0, None));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_end_in_every_way() {
    let faults: [Fault; 6] = [
        Box::new(|_, _| {}),
        Box::new(faults::chunked),
        Box::new(faults::close_delimited),
        Box::new(faults::interim_response(103)),
        Box::new(faults::trickled_head(7)),
        Box::new(faults::http10),
    ];
    for fault in faults {
        for measured in run_with(fault).await {
            assert_eq!(errors(&measured), "");
            assert_eq!((measured.successes, measured.bytes), (10, 1_000_000));
        }
    }
    for measured in run_with(Box::new(faults::status(204))).await {
        assert_eq!((measured.successes, measured.bytes), (10, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_and_an_unknown_name_are_told_apart() {
    let [port] = haul_lab::free_ports();
    for client in BOTH_CLIENTS {
        let refused = LoadPlan {
            client,
            ..plan(&format!("http://127.0.0.1:{port}/"))
        };
        assert_eq!(errors(&run(refused).await), "100 connection refused");
        let unknown = LoadPlan {
            client,
            end: LoadEnd::Requests(1),
            // No server of names is asked for a label of that length.
            ..plan(&format!("http://{}.invalid/", "x".repeat(70)))
        };
        assert_eq!(errors(&run(unknown).await), "1 name resolution");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_cannot_be_run_is_an_error() {
    let fails = async |plan| run_load(plan, CancellationToken::new()).await.unwrap_err();
    let url = "http://127.0.0.1/";
    let none = LoadPlan {
        urls: Vec::new(),
        ..plan(url)
    };
    assert!(matches!(fails(none).await, LoadError::NoUrl));
    let scheme = fails(plan("ftp://user:secret@127.0.0.1/"))
        .await
        .to_string();
    assert!(
        scheme.contains("127.0.0.1") && !scheme.contains("secret"),
        "{scheme}"
    );
}
