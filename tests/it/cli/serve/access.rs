//! Logins and tokens from flags and variables, and warnings about those that are probably mistakes.

use super::{assert_status, start_server, test_folder, wait_for_address};
use crate::cli::harness::HaulDirectory;

/// `me:pw`
const ME: &str = "Authorization: Basic bWU6cHc=";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_is_required_of_everybody() {
    let haul = test_folder();
    let flags = ["-w", "--auth", "me:pw:rw", "--token", "t0k:ro"];
    let served = start_server(&haul, &flags).await;
    assert!(
        served.startup_lines[0].ends_with("writable, to 1 user, 1 token"),
        "{:?}",
        served.startup_lines
    );
    assert_status(&served.request("GET /a.txt", "").await, 401);
    assert_status(&served.request(&format!("GET /a.txt\n{ME}"), "").await, 200);
    assert_status(
        &served.request(&format!("PUT /b.txt\n{ME}"), "b").await,
        201,
    );
    let bearer = "Authorization: Bearer t0k";
    assert_status(
        &served.request(&format!("GET /a.txt\n{bearer}"), "").await,
        200,
    );
    assert_status(
        &served.request(&format!("PUT /c.txt\n{bearer}"), "c").await,
        403,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_come_from_variables_and_files_too() {
    let haul = test_folder().with_variable("HAUL_AUTH", "me:pw:ro\nyou:pw2:ro:/x");
    let tokens = haul.write("tokens", "# of the build\nabc:ro\n");
    let served = start_server(&haul, &["--token-file", &tokens, "--anonymous", "ro:/pub"]).await;
    let who = "read-only, to 2 users, 1 token, and to everybody (ro:/pub)";
    assert!(
        served.startup_lines[0].ends_with(who),
        "{:?}",
        served.startup_lines
    );
    assert_status(&served.request("GET /a.txt", "").await, 401);
    assert_status(&served.request("GET /pub/none", "").await, 404);
    assert_status(&served.request(&format!("GET /a.txt\n{ME}"), "").await, 200);
    let bearer = "Authorization: Bearer abc";
    assert_status(
        &served.request(&format!("GET /a.txt\n{bearer}"), "").await,
        200,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashed_passwords_are_accepted() {
    // bcrypt of "pw" at its least cost.
    let haul = test_folder();
    let hash = "$2y$04$ezCDaSu3tjg4iLRHhuGM0.dfYXLU4v08t/MnnANSft5qD/iUez4iS";
    let users = haul.write("users", format!("me:{hash}:ro\n"));
    let served = start_server(&haul, &["--auth-file", &users]).await;
    assert_status(&served.request("GET /a.txt", "").await, 401);
    assert_status(&served.request(&format!("GET /a.txt\n{ME}"), "").await, 200);
}

/// The warnings of a start: all of standard error until the server handles signals.
async fn warnings_of(haul: &HaulDirectory, args: &[&str]) -> String {
    let served = wait_for_address(haul.start(args)).await;
    let output = served.stop().await;
    output.assert_code(0);
    output.stderr
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_for_nobody_is_warned_of() {
    let haul = test_folder();
    let empty = haul.write("empty", "# nobody yet\n");
    for (flags, is_warned) in [
        (&["--auth-file", &empty][..], true),
        (&["--token-file", &empty], true),
        (&["--auth-file", &empty, "--anonymous", "ro"], false),
        (&["--auth-file", &empty, "--token", "t:ro"], false),
        (&[], false),
    ] {
        let args = [&["serve", "d", "-l", "127.0.0.1:0"], flags].concat();
        let warnings = warnings_of(&haul, &args).await;
        let has_warning = warnings.contains("nobody has access");
        assert_eq!(has_warning, is_warned, "{flags:?}: {warnings}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn public_access_is_warned_of() {
    let haul = test_folder();
    let open = "can upload and delete files";
    let clear = "passwords and tokens are sent unencrypted";
    for (flags, is_open, is_clear) in [
        (&["-l", "0.0.0.0:0", "-w"][..], true, false),
        (&["-l", "0.0.0.0:0"], false, false),
        (&["-l", "127.0.0.1:0", "-w"], false, false),
        (&["-l", "0.0.0.0:0", "-w", "--auth", "a:b:rw"], false, true),
        (
            &["-l", "0.0.0.0:0", "-w", "--auth", "a:b:rw", "--self-signed"],
            false,
            false,
        ),
        (&["-l", "127.0.0.1:0", "--auth", "a:b:ro"], false, false),
    ] {
        let warnings = warnings_of(&haul, &[&["serve", "d"], flags].concat()).await;
        assert_eq!(warnings.contains(open), is_open, "{flags:?}: {warnings}");
        assert_eq!(warnings.contains(clear), is_clear, "{flags:?}: {warnings}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn world_readable_secrets_are_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let haul = test_folder();
    let tokens = haul.write("tokens", "abc:ro\n");
    for (mode, is_warned) in [(0o644, true), (0o640, false)] {
        std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(mode)).unwrap();
        let args = ["serve", "d", "-l", "127.0.0.1:0", "--token-file", &tokens];
        let warnings = warnings_of(&haul, &args).await;
        let has_warning = warnings.contains("can be read by every user of this machine");
        assert_eq!(has_warning, is_warned, "{mode:o}: {warnings}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_does_not_lead_out_of_a_prefix() {
    let haul = test_folder();
    std::fs::create_dir(haul.path("d/pub")).unwrap();
    std::fs::create_dir(haul.path("d/team")).unwrap();
    haul.write("d/team/f", "theirs");
    std::os::unix::fs::symlink("../team", haul.path("d/pub/folder")).unwrap();
    std::os::unix::fs::symlink("../team/f", haul.path("d/pub/file")).unwrap();
    let rule = ["-w", "--auth", "me:pw:rw:/pub"];
    let served = start_server(&haul, &rule).await;
    for (head, status) in [
        ("GET /pub/file", 404),
        ("GET /pub/folder/f", 404),
        ("GET /pub/folder/", 404),
        ("DELETE /pub/folder/f", 404),
        ("PUT /pub/mine", 201),
    ] {
        assert_status(&served.request(&format!("{head}\n{ME}"), "").await, status);
    }
    let into = served
        .request(&format!("PUT /pub/folder/new\n{ME}"), "")
        .await;
    assert!(!into.starts_with("HTTP/1.1 2"), "{into}");
    assert!(!haul.path("d/team/new").exists());
    assert_eq!(std::fs::read(haul.path("d/team/f")).unwrap(), b"theirs");
    // Nor out of what a link is signed for.
    haul.run(&["sign", "--new-key", "k"]).await.assert_code(0);
    let served = start_server(&haul, &["--sign-key", "k"]).await;
    for (path, status) in [("/pub/file", 404), ("/team/f", 200)] {
        let url = format!("http://{}{path}", served.address);
        let signed = haul.run(&["sign", &url, "--key", "k"]).await;
        let target = signed.stdout.trim_end().split_once(&served.address);
        let answer = served
            .request(&format!("GET {}", target.unwrap().1), "")
            .await;
        assert_status(&answer, status);
        let unsigned = served.request(&format!("GET {path}"), "").await;
        assert_status(&unsigned, 403);
        assert!(
            unsigned.ends_with("this needs a signed link\n"),
            "{unsigned}"
        );
    }
    // Whoever may do everything may follow them.
    let served = start_server(&haul, &["-w", "--auth", "me:pw:rw"]).await;
    let through = served.request(&format!("GET /pub/file\n{ME}"), "").await;
    assert_status(&through, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_that_would_be_served_are_warned_of() {
    let haul = test_folder();
    let warning = "and is served like any other file";
    for (path, is_warned) in [("d/tokens", true), ("tokens", false)] {
        let tokens = haul.write(path, "abc:ro\n");
        let args = ["serve", "d", "-l", "127.0.0.1:0", "--token-file", &tokens];
        let warnings = warnings_of(&haul, &args).await;
        assert_eq!(warnings.contains(warning), is_warned, "{path}: {warnings}");
    }
    let log = haul.path("d/log").display().to_string();
    let args = ["serve", "d", "-l", "127.0.0.1:0", "--access-log", &log];
    assert!(warnings_of(&haul, &args).await.contains(warning));
}
