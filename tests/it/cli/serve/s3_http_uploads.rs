//! `haul put` of a large file to a plain URL of `haul serve --s3`: it goes in parts, under the rules of plain HTTP.

use haul_lab::within;

use super::{ServeProcess, assert_status, start_server, test_folder, wait_for_address};
use crate::cli::harness::{HaulDirectory, LIMIT, file_names};

/// Users may write everywhere, write to one folder, or read.
const FLAGS: [&str; 10] = [
    "-w",
    "--s3",
    "--s3-key",
    "key:secret",
    "--auth",
    "all:p:rw",
    "--auth",
    "one:p:rw:/bucket/one",
    "--auth",
    "reader:p:ro",
];

async fn start() -> (HaulDirectory, ServeProcess) {
    let haul = test_folder();
    std::fs::create_dir_all(haul.path("d/bucket/one")).unwrap();
    let server = start_server(&haul, &FLAGS).await;
    (haul, server)
}

/// Three parts.
fn large_file(haul: &HaulDirectory) -> Vec<u8> {
    let bytes: Vec<u8> = (0..11_u32 << 20)
        .map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    haul.write("large", &bytes);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_goes_in_parts_under_the_login_of_a_url() {
    let (haul, server) = start().await;
    let bytes = large_file(&haul);
    let put = async |target: &str| {
        let url = format!("http://{}/{target}", server.address);
        let args = ["put", "large", &url, "-u", "one:p", "--part-size", "5M"];
        haul.run(&[&args[..], &["--json"]].concat()).await
    };
    let stored = put("bucket/one/a%20b").await;
    stored.assert_code(0);
    assert!(stored.stdout.contains("-3\\\""), "{stored:#?}");
    let found = std::fs::read(haul.path("d/bucket/one/a b")).unwrap();
    assert!(found == bytes);
    // The words of a refusal are those of the PUT.
    let refused = put("bucket/two").await;
    refused.assert_code(5);
    assert!(refused.stderr.contains("403"), "{refused:#?}");
    assert!(!haul.path("d/bucket/two").exists());
}

/// There is no bucket of that name, or no folder at all: one PUT makes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_outside_of_a_bucket_goes_by_one_put() {
    let (haul, server) = start().await;
    let bytes = large_file(&haul);
    for target in ["new/dir/file", "file"] {
        let url = format!("http://{}/{target}", server.address);
        let args = ["put", "large", &url, "-u", "all:p", "--part-size", "5M"];
        haul.run(&args).await.assert_code(0);
        let found = std::fs::read(haul.path("d").join(target)).unwrap();
        assert!(found == bytes, "{target}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_uploads_have_the_rights_of_plain_http() {
    let (haul, server) = start().await;
    // base64 of USER:p
    let [one, reader] =
        ["b25lOnA=", "cmVhZGVyOnA="].map(|text| format!("\nAuthorization: Basic {text}"));
    let send = async |head: &str| server.request(head, "").await;
    let begun = send(&format!("POST /bucket/one/k?uploads{one}")).await;
    assert_status(&begun, 200);
    let (_, id) = begun.split_once("<UploadId>").unwrap();
    let (id, _) = id.split_once('<').unwrap();
    let copy = "\nx-amz-copy-source: /bucket/secret";
    haul.write("d/bucket/secret", "secret");
    for (status, head) in [
        (401, "POST /bucket/one/k?uploads".to_owned()),
        (403, format!("POST /bucket/one/k?uploads{reader}")),
        (403, format!("POST /bucket/two?uploads{one}")),
        (400, format!("POST /bucket/one/..%2Ftwo?uploads{one}")),
        (401, format!("GET /bucket/one/k?uploadId={id}")),
        (403, format!("GET /bucket/one/k?uploadId={id}{reader}")),
        (
            403,
            format!("PUT /bucket/one/k?partNumber=1&uploadId={id}{reader}"),
        ),
        (
            403,
            format!("PUT /bucket/one/k?partNumber=1&uploadId={id}{one}{copy}"),
        ),
        (403, format!("DELETE /bucket/one/k?uploadId={id}{reader}")),
        // Only uploads in parts: no deletion, and no tags.
        (
            403,
            format!("POST /bucket/one/k?delete&uploadId={id}{reader}"),
        ),
        (403, format!("PUT /bucket/one/k?tagging&uploadId={id}{one}")),
        (200, format!("GET /bucket/one/k?uploadId={id}{one}")),
        (204, format!("DELETE /bucket/one/k?uploadId={id}{one}")),
    ] {
        let response = send(&head).await;
        let start = format!("HTTP/1.1 {status} ");
        assert!(response.starts_with(&start), "{head}: {response}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_files_in_buckets_are_announced_to_take_parts() {
    let (_haul, server) = start().await;
    for (path, is_announced) in [
        ("/bucket/k", true),
        ("/bucket", false),
        ("/bucket/k/", false),
    ] {
        let response = server.request(&format!("OPTIONS {path}"), "").await;
        assert_status(&response, 204);
        let found = response.contains("\r\nhaul-multipart-uploads: 18446744073709551615\r\n");
        assert_eq!(found, is_announced, "{path}: {response}");
    }
}

/// The request would delete the file where the server speaks plain HTTP alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_s3_loses_no_file_to_an_upload_that_is_aborted() {
    let (haul, server) = start().await;
    large_file(&haul);
    let address = server.address.clone();
    let url = format!("http://{address}/bucket/k");
    let args = ["put", "large", &url, "-u", "all:p", "--part-size", "5M"];
    let mut upload = haul.start(&[&args[..], &["--limit-rate", "1M"]].concat());
    let journals = haul.path(".local/state/haul/uploads");
    let is_written = || {
        let mut journals = std::fs::read_dir(&journals).into_iter().flatten();
        journals.any(|journal| {
            let path = journal.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            path.extension().is_some_and(|name| name == "upload") && text.contains("/bucket/k")
        })
    };
    let begun = async {
        while !is_written() {
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, begun).await;
    upload.child.start_kill().unwrap();
    within(LIMIT, upload.child.wait()).await.unwrap();
    server.stop().await;

    haul.write("d/bucket/k", "precious");
    let flags = ["serve", "d", "-w", "--auth", "all:p:rw", "-l", &address];
    let plain = wait_for_address(haul.start(&flags)).await;
    let aborted = haul.run(&[&args[..], &["--abort"]].concat()).await;
    aborted.assert_code(5);
    assert!(aborted.stderr.contains("are left at"), "{aborted:#?}");
    // base64 of all:p
    let login = "\nAuthorization: Basic YWxsOnA=";
    for head in [
        "DELETE /bucket/k?uploadId=x",
        "PUT /bucket/k?partNumber=1&uploadId=x",
        "POST /bucket/k?uploads",
    ] {
        let response = plain.request(&format!("{head}{login}"), "part").await;
        assert_status(&response, 404);
    }
    let kept = std::fs::read_to_string(haul.path("d/bucket/k")).unwrap();
    assert_eq!(kept, "precious");
}

/// Parts count beside the file that they replace, and a PUT replaces it. What is too large at all is refused before it is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_in_parts_goes_by_one_put() {
    let haul = test_folder();
    std::fs::create_dir(haul.path("d/bucket")).unwrap();
    let bytes = large_file(&haul);
    let flags = [&FLAGS[..], &["--quota", "20M", "--max-body", "12M"]].concat();
    let server = start_server(&haul, &flags).await;
    let url = format!("http://{}/bucket/k", server.address);
    let args = ["put", "large", &url, "-u", "all:p", "--part-size", "5M"];
    haul.run(&args).await.assert_code(0);
    haul.write("large", &bytes[1..]);
    haul.run(&args).await.assert_code(0);
    let found = std::fs::read(haul.path("d/bucket/k")).unwrap();
    assert!(found == bytes[1..]);
    assert_eq!(file_names(&haul.path("d/.haul/multipart")), [""; 0]);
    haul.write("large", vec![0; 13 << 20]);
    let refused = haul.run(&args).await;
    refused.assert_code(5);
    assert!(refused.stderr.contains("413"), "{refused:#?}");
}

/// A client of S3 that does not sign may do all that S3 has, where everybody may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_parts_need_no_signature_where_everybody_may_write() {
    let haul = test_folder();
    std::fs::create_dir(haul.path("d/bucket")).unwrap();
    haul.write("d/bucket/a", "text");
    let flags = ["-w", "--s3", "--s3-key", "key:secret", "--anonymous", "rw"];
    let server = start_server(&haul, &flags).await;
    let begun = server.request("POST /bucket/k?uploads", "").await;
    assert_status(&begun, 200);
    let (_, id) = begun.split_once("<UploadId>").unwrap();
    let (id, _) = id.split_once('<').unwrap();
    let head = format!("PUT /bucket/k?partNumber=1&uploadId={id}\nx-amz-copy-source: /bucket/a");
    let copied = server.request(&head, "").await;
    assert_status(&copied, 200);
}
