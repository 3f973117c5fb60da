//! One file from several places: `--mirror`, and Metalink documents.

use haul_lab::{Content, Resource, When, breakage};

use crate::cli::harness::{Haul, serve};

fn big() -> Content {
    Content::random(4, 8 << 20)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_comes_from_all_its_mirrors_and_one_that_is_gone_does_no_harm() {
    let slow = || Resource::new(big()).rule(When::always(), breakage::drip(2 << 20));
    let (one, other) = (serve(slow()).await, serve(slow()).await);
    let gone = serve(Resource::new(big())).await;
    let haul = Haul::new();
    let urls = [one.url("/f.bin"), other.url("/f.bin"), gone.url("/404")];
    let args = [
        &["get", "--mirror", "-o", "f"],
        &urls.each_ref().map(String::as_str)[..],
    ]
    .concat();
    haul.run(&args).await.assert_code(0);
    haul.assert_file("f", &big());
    assert_eq!(haul.listing(), ["f"]);
    assert!(!one.asked().is_empty() && !other.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metalink_document_names_places_and_what_the_file_must_be() {
    let wrong = serve(Resource::new(Content::random(5, 8 << 20))).await;
    let right = serve(Resource::new(big())).await;
    let document = |sum: &str, size: u64| {
        format!(
            "<?xml version=\"1.0\"?>\n<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"sub/f.iso\">\
             <size>{size}</size><hash type=\"sha-256\">{sum}</hash>\
             <url priority=\"1\">{}</url></file></metalink>",
            right.url("/f.bin")
        )
    };
    let haul = Haul::new();
    haul.write("f.meta4", document(&big().sha256(), 8 << 20));
    haul.run(&["get", "-i", "f.meta4", "-d", "d"])
        .await
        .assert_code(0);
    haul.assert_file("d/sub/f.iso", &big());
    let other =
        document(&big().sha256(), 8 << 20).replace(&right.url("/f.bin"), &wrong.url("/f.bin"));
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
        .assert_says("haul: error: -i: f.meta4 cannot be used: ");
}
