//! One file from several places: `--mirror`, and Metalink documents.

use haul_lab::{OriginResource, RequestMatcher, ResourceContent, faults};

use crate::cli::harness::{HaulDirectory, content, file_names, start_origin};

fn large_origin() -> ResourceContent {
    ResourceContent::random(4, 8 << 20)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_comes_from_all_mirrors_and_a_missing_one_does_no_harm() {
    let slow = || {
        OriginResource::new(large_origin())
            .rule(RequestMatcher::always(), faults::body_rate(2 << 20))
    };
    let (one, other) = (start_origin(slow()).await, start_origin(slow()).await);
    let gone = start_origin(OriginResource::new(large_origin())).await;
    let haul = HaulDirectory::new();
    let urls = [one.url("/f.bin"), other.url("/f.bin"), gone.url("/404")];
    let args = [
        &["get", "--mirror", "-o", "f"],
        &urls.each_ref().map(String::as_str)[..],
    ]
    .concat();
    haul.run(&args).await.assert_code(0);
    haul.assert_file("f", &large_origin());
    assert_eq!(haul.listing(), ["f"]);
    assert!(!one.requests().is_empty() && !other.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metalink_document_names_mirrors_size_and_digests() {
    let wrong = start_origin(OriginResource::new(ResourceContent::random(5, 8 << 20))).await;
    let right = start_origin(OriginResource::new(large_origin())).await;
    let document = |sum: &str, size: u64| {
        format!(
            "<?xml version=\"1.0\"?>\n<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"sub/f.iso\">\
             <size>{size}</size><hash type=\"sha-256\">{sum}</hash>\
             <url priority=\"1\">{}</url></file></metalink>",
            right.url("/f.bin")
        )
    };
    let haul = HaulDirectory::new();
    haul.write("f.meta4", document(&large_origin().sha256(), 8 << 20));
    haul.run(&["get", "-i", "f.meta4", "-d", "d"])
        .await
        .assert_code(0);
    haul.assert_file("d/sub/f.iso", &large_origin());
    let other = document(&large_origin().sha256(), 8 << 20)
        .replace(&right.url("/f.bin"), &wrong.url("/f.bin"));
    haul.write("f.meta4", other);
    haul.run(&["get", "-i", "f.meta4", "-d", "e"])
        .await
        .assert_code(3);
    haul.write(
        "f.meta4",
        "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"x\">",
    );
    haul.run(&["get", "-i", "f.meta4"])
        .await
        .assert_code(2)
        .assert_stderr_has("haul: error: -i: f.meta4 cannot be used: ");
}

/// A document of one good file among some that are none.
fn damaged_origin(url: &str) -> String {
    format!(
        "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\n<file name=\"..\"><url>{url}</url></file>\n\
         <file name=\"f\"><url>{url}</url></file>\n<file name=\"g\"><size>x</size><url>{url}</url></file></metalink>"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_an_unusable_file_of_a_document_does_not_stop_the_others() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    haul.write("f.meta4", damaged_origin(&origin.url("/f.bin")));
    let output = haul
        .run(&["get", "-i", "f.meta4", "-d", "d", "--json"])
        .await;
    output
        .assert_code(1)
        .assert_stderr_has("haul: error: line 2 of f.meta4: a file without a usable name\n")
        .assert_stderr_has("haul: error: line 4 of f.meta4: a size that is not a number of bytes\n")
        .assert_stderr_has("1 of 3 files");
    haul.assert_file("d/f", &content());
    assert_eq!(output.stdout.matches("\"class\":\"usage\"").count(), 2);
    // In a batch they are rows.
    let batch = ["get", "-i", "f.meta4", "-d", "e", "--manifest", "m.jsonl"];
    let output = haul.run(&batch).await;
    output
        .assert_code(1)
        .assert_stderr_has("haul: error: line 2 of f.meta4: a file without a usable name\n")
        .assert_stderr_has("1 of 3 files, 2 failed");
    haul.assert_file("e/f", &content());
    let rows = std::fs::read_to_string(haul.path("m.jsonl")).unwrap();
    assert!(
        rows.contains("\"line\":3") && rows.contains("\"line\":4"),
        "{rows}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_is_read_from_a_pipe_and_compressed() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    haul.write("f.meta4", damaged_origin(&origin.url("/f.bin")));
    let bin = env!("CARGO_BIN_EXE_haul");
    for (name, line) in [
        ("a", "cat f.meta4 | BIN get -i - -d a"),
        ("b", "BIN get -i - -d b <f.meta4"),
        ("c", "gzip -c f.meta4 | BIN get -i - -d c"),
        ("d", "gzip -k f.meta4; BIN get -i f.meta4.gz -d d"),
        ("e", "mkfifo pipe; cat f.meta4 >pipe & BIN get -i pipe -d e"),
    ] {
        let output = haul.shell(&line.replace("BIN", bin)).await;
        output
            .assert_code(1)
            .assert_stderr_has(": a file without a usable name\n")
            .assert_stderr_has("1 of 3 files");
        haul.assert_file(&format!("{name}/f"), &content());
        assert_eq!(file_names(&haul.path(name)), ["f"]);
    }
}
