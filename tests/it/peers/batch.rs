//! Batches from nginx: many small files, large ones among them, over TLS, one list in every form.

use std::fmt::Write as _;

use haul_lab::ResourceContent;

use super::nginx::Nginx;
use crate::cli::harness::{HaulDirectory, file_names};

/// Small files.
const FILES: u64 = 400;

fn small_file(n: u64) -> ResourceContent {
    ResourceContent::random(n, 1000 + 37 * n)
}

async fn start_origin() -> Nginx {
    let nginx = Nginx::start().await;
    (0..FILES).for_each(|n| nginx.serve(&n.to_string(), &small_file(n)));
    nginx
}

#[track_caller]
fn assert_files(haul: &HaulDirectory, directory: &str) {
    (0..FILES).for_each(|n| haul.assert_file(&format!("{directory}/{n}"), &small_file(n)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_large_files_among_small_ones() {
    let (nginx, haul) = (start_origin().await, HaulDirectory::new());
    let large = ResourceContent::random(1, 48 << 20);
    nginx.serve("large", &large);
    let mut list = format!("{}\n", nginx.url("slow/large"));
    (0..FILES).for_each(|n| writeln!(list, "{}", nginx.url(&n.to_string())).unwrap());
    haul.write("list", list);
    let output = haul
        .run(&["get", "-i", "list", "-d", "d", "--json", "-q"])
        .await;
    // Small files finish while the large one, on limited connections, is downloaded.
    let mut rows = output.assert_code(0).stdout.lines();
    let before = rows.position(|row| row.contains("\"path\":\"d/large\""));
    assert!(
        before.is_some_and(|before| before as u64 >= FILES / 2),
        "{before:?}"
    );
    assert_files(&haul, "d");
    haul.assert_file("d/large", &large);
    assert_eq!(file_names(&haul.path("d")).len(), 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_in_every_format_over_tls() {
    let (nginx, haul) = (start_origin().await, HaulDirectory::new());
    let ca = nginx.ca();
    let mut lists = [
        String::new(),
        String::new(),
        "path,url,sha256,size\n".to_owned(),
        "url\tpath\n".to_owned(),
        String::new(),
    ];
    for n in 0..FILES {
        let (url, sum, size) = (
            nginx.tls_url(&n.to_string()),
            small_file(n).sha256(),
            small_file(n).length(),
        );
        let lines = [
            url.clone(),
            format!("{url}\n  out=sub/{n}\n  checksum=sha-256={sum}"),
            format!("sub/{n},{url},{sum},{size}"),
            format!("{url}\tsub/{n}"),
            format!(r#"{{"url": "{url}", "path": "sub/{n}", "sha256": "{sum}"}}"#),
        ];
        for (list, line) in lists.iter_mut().zip(lines) {
            writeln!(list, "{line}").unwrap();
        }
    }
    for (number, list) in lists.iter().enumerate() {
        haul.write("list", list);
        let directory = number.to_string();
        let args = [
            "get",
            "-i",
            "list",
            "-d",
            &directory,
            "--cacert",
            ca.to_str().unwrap(),
        ];
        haul.run(&args)
            .await
            .assert_code(0)
            .assert_stderr_has("400 of 400 files");
        let files = if number == 0 {
            directory
        } else {
            format!("{number}/sub")
        };
        assert_files(&haul, &files);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_digest_or_size_in_a_list_is_a_failure_and_no_file() {
    let (nginx, haul) = (start_origin().await, HaulDirectory::new());
    let (url, sum) = (|n: u64| nginx.url(&n.to_string()), small_file(1).sha256());
    let list = format!(
        "url,path,sha256,size\n{},right,{sum},1037\n{},digest,{sum},\n{},size,,5\n",
        url(1),
        url(2),
        url(3)
    );
    haul.write("list", list);
    haul.run(&["get", "-i", "list"])
        .await
        .assert_code(1)
        .assert_stderr_has("it has 1111 bytes, and the list says 5")
        .assert_stderr_has("wrong checksum");
    assert_eq!(
        haul.listing(),
        ["digest.haul-bad-checksum", "list", "right"]
    );
}
