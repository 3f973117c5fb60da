//! `haul sign`: URLs on standard output, keys that are nobody else's.

use std::os::unix::fs::PermissionsExt as _;

use super::{assert_status, start_server, test_folder};
use crate::cli::harness::HaulDirectory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_url_gives_access_to_its_path_alone() {
    let haul = test_folder();
    let made = haul.run(&["sign", "--new-key", "k"]).await;
    made.assert_code(0).assert_stderr_has("haul: created k");
    assert_eq!(made.stdout, "");
    let mode = haul.path("k").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let served = start_server(&haul, &["-w", "--sign-key", "k"]).await;
    assert!(served.startup_lines[0].ends_with("to signed URLs"));
    let url = format!("http://{}/a.txt", served.address);
    let signed = haul.run(&["sign", &url, "--key", "k"]).await;
    signed.assert_code(0);
    assert_eq!(
        (signed.stderr.as_str(), signed.stdout.lines().count()),
        ("", 1)
    );
    haul.run(&["get", &url, "-o", "1"]).await.assert_code(5);
    let signed = signed.stdout.trim_end();
    haul.run(&["get", signed, "-o", "2"]).await.assert_code(0);
    assert_eq!(std::fs::read(haul.path("2")).unwrap(), b"hello");
    // It is for reading, and for nothing else.
    let target = signed.split_once(&served.address).unwrap().1;
    assert_status(&served.request(&format!("PUT {target}"), "x").await, 403);
    let flags = ["--key", "k", "--method", "put", "--expires", "7d"];
    let put = haul.run(&[&["sign", &url][..], &flags].concat()).await;
    put.assert_code(0);
    let target = put.stdout.trim_end().split_once(&served.address).unwrap().1;
    assert_status(&served.request(&format!("PUT {target}"), "x").await, 204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_not_overwritten_and_no_two_are_the_same() {
    let haul = HaulDirectory::new();
    for name in ["a", "b"] {
        haul.run(&["sign", "--new-key", name]).await.assert_code(0);
    }
    let read = |name: &str| std::fs::read(haul.path(name)).unwrap();
    let (a, b) = (read("a"), read("b"));
    assert!(a != b && a.len() == 65);
    let output = haul.run(&["sign", "--new-key", "a"]).await;
    output.assert_code(4).assert_stderr_has("hint: a new key");
    assert_eq!(read("a"), a);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_may_go_to_standard_output() {
    let haul = HaulDirectory::new();
    let made = haul.run(&["sign", "--new-key", "-"]).await;
    made.assert_code(0);
    assert_eq!((made.stderr.as_str(), made.stdout.len()), ("", 65));
    assert!(!haul.path("-").exists());
    haul.write("k", &made.stdout);
    let signed = haul.run(&["sign", "http://h/a", "--key", "k"]).await;
    signed.assert_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_that_cannot_be_signed_are_refused() {
    let haul = HaulDirectory::new();
    haul.write("short", "0123456789");
    haul.write("long", "0123456789abcdef");
    let url = "https://files.example/a.txt";
    let mut outputs = Vec::new();
    for args in [
        &[][..],
        &[url],
        &[url, "--key", "none"],
        &[url, "--key", "short"],
        &["files.example/a.txt", "--key", "long"],
        &["ftp://files.example/a.txt", "--key", "long"],
        &[url, "--key", "."],
        &["https://files.example/a%2fb", "--key", "long"],
        &[url, "--key", "long", "--method", "POST"],
        &[url, "--key", "long", "--expires", "soon"],
        &[url, "--key", "long", "--expires", "500ms"],
        &[url, "--key", "long", "--expires", "999999d"],
        &[url, "--new-key", "new"],
    ] {
        let output = haul.run(&[&["sign"], args].concat()).await;
        output.assert_code(2);
        assert_eq!(output.stdout, "");
        outputs.push(format!(
            "{}\n{}",
            args.join(" "),
            output.stderr_text(&haul, None)
        ));
    }
    insta::assert_snapshot!("sign-refused", outputs.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_world_readable_key_is_warned_of_and_used() {
    let haul = HaulDirectory::new();
    let key = haul.write("k", "0123456789abcdef");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = haul.run(&["sign", "http://h/a", "--key", "k"]).await;
    output
        .assert_code(0)
        .assert_stderr_has("warning: k can be read by every user");
    assert!(output.stdout.starts_with("http://h/a?haul-expires="));
}
