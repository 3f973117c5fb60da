//! Files after a download: names, resumption, replacement, segments, checksums.

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults, within};

use crate::cli::harness::{HaulDirectory, LIMIT, content, start_origin};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_goes_to_the_given_path() {
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    let haul = HaulDirectory::new();
    for (flags, path) in [
        (&[][..], "f.bin"),
        (&["-o", "other"], "other"),
        (&["-d", "new/dir"], "new/dir/f.bin"),
        (&["-o", "made/for/it"], "made/for/it"),
        (&["-o", "name", "-d", "new"], "new/name"),
    ] {
        let output = haul.get(&url, flags).await;
        output.assert_code(0).assert_stderr_has(path);
        assert_eq!(output.stdout, "");
        haul.assert_file(path, &content());
    }
    assert_eq!(haul.listing(), ["f.bin", "made", "new", "other"]);
}

/// Nothing is downloaded that could not get its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_ends_as_a_directorys_is_refused_before_the_first_request() {
    let origin = start_origin(OriginResource::new(ResourceContent::random(1, 1000))).await;
    let haul = HaulDirectory::new();
    for name in ["new/", "new/.", "./"] {
        let output = haul.run(&["get", &origin.url("/f.bin"), "-o", name]).await;
        output
            .assert_code(4)
            .assert_stderr_has("is a directory")
            .assert_stderr_has("-d");
        assert_eq!(
            (origin.requests().len(), haul.listing()),
            (0, vec![]),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_origin_may_name_the_file_but_not_its_directory() {
    let named = OriginResource::new(content()).header(
        "Content-Disposition",
        "attachment; filename=\"../../real.iso\"",
    );
    let origin = start_origin(named).await;
    let haul = HaulDirectory::new();
    haul.get(&origin.url("/f.bin"), &["-d", "d"])
        .await
        .assert_code(0)
        .assert_stderr_has("d/real.iso  1.0 MiB in");
    haul.assert_file("d/real.iso", &content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_output_is_the_file_and_nothing_else() {
    let small = ResourceContent::fixed("a file\n");
    let origin = start_origin(OriginResource::new(small)).await;
    let haul = HaulDirectory::new();
    let output = haul
        .get(
            &origin.url("/f.bin"),
            &["-o", "-", "--checksum", "md5", "-v"],
        )
        .await;
    output.assert_code(0);
    assert_eq!(output.stdout, "a file\n");
    output
        .assert_stderr_has("b3e656f8b0828a31f3ed396a1c868786  -")
        .assert_stderr_has("-  7 B in")
        .assert_stderr_has("1 connection, as standard output takes bytes in order");
    assert!(haul.listing().is_empty());
    let output = haul
        .get(&origin.url("/f.bin"), &["-o", "-", "-x", "4"])
        .await;
    output
        .assert_code(0)
        .assert_stderr_has("warning: -x 4 has no effect");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_gets_text_and_no_binary_data() {
    let builder = Origin::builder()
        .resource(
            "/text",
            OriginResource::new(ResourceContent::fixed("a file\n")),
        )
        .resource(
            "/binary",
            OriginResource::new(ResourceContent::fixed("\x7fELF\0")),
        );
    let origin = builder.start().await;
    let haul = HaulDirectory::new();
    for (path, after, shown) in [
        ("/text", "", "a file"),
        ("/text", "", "code 0"),
        (
            "/binary",
            "",
            "the file is binary and standard output is a terminal",
        ),
        (
            "/binary",
            "",
            "hint: -o FILE writes to a file; | cat shows it anyway",
        ),
        ("/binary", "", "code 4"),
        ("/binary", "| cat", "ELF"),
        ("/binary", "| cat", "code 0"),
    ] {
        let url = origin.url(path);
        let command = env!("CARGO_BIN_EXE_haul");
        let line = format!("{command} get -o - {url} {after}; echo code $?");
        let output = haul.terminal_command(&line).output();
        let output = within(LIMIT, output).await.unwrap();
        let screen = String::from_utf8_lossy(&output.stdout).into_owned();
        // Colours are between the words.
        let screen = anstream::adapter::strip_str(&screen).to_string();
        assert!(screen.contains(shown), "{path} {after}: {screen}");
        assert_eq!(screen.contains("ELF"), after == "| cat", "{screen}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_urls_go_on_at_once_over_shared_connections() {
    let mut builder = Origin::builder();
    for n in 0..40u64 {
        builder = builder.resource(
            &format!("/f{n}"),
            OriginResource::new(ResourceContent::random(n, 50_000)),
        );
    }
    let origin = builder.start().await;
    let urls: Vec<String> = (0..40).map(|n| origin.url(&format!("/f{n}"))).collect();
    let haul = HaulDirectory::new();
    let args: Vec<&str> = std::iter::once("get")
        .chain(urls.iter().map(String::as_str))
        .collect();
    haul.run(&args).await.assert_code(0);
    for n in 0..40u64 {
        haul.assert_file(&format!("f{n}"), &ResourceContent::random(n, 50_000));
    }
    assert_eq!(
        origin.requests().len(),
        40,
        "a small file takes one request"
    );
    assert!(
        origin.connection_count() < 40,
        "{} connections",
        origin.connection_count()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_existing_file_is_kept_overwritten_or_updated() {
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    let haul = HaulDirectory::new();
    haul.write("f.bin", "old");
    haul.get(&url, &["-o", "f.bin"])
        .await
        .assert_code(4)
        .assert_stderr_has("exists already")
        .assert_stderr_has("--overwrite");
    assert!(origin.requests().is_empty(), "no request is needed");
    haul.get(&url, &["--overwrite"]).await.assert_code(0);
    haul.assert_file("f.bin", &content());
    haul.get(&url, &["--update"])
        .await
        .assert_code(0)
        .assert_stderr_has("f.bin  not modified");
    let newer = ResourceContent::random(6, 70_000);
    origin.replace("/f.bin", OriginResource::new(newer.clone()).etag("\"v2\""));
    haul.get(&url, &["--update"]).await.assert_code(0);
    haul.assert_file("f.bin", &newer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_command_resumes_a_failed_download() {
    let big = ResourceContent::random(2, 8 << 20);
    let breaks = OriginResource::new(big.clone())
        .rule(RequestMatcher::always(), faults::stall_after(3 << 20));
    let origin = start_origin(breaks).await;
    let flags = ["-x", "1", "--retries", "0", "--stall-timeout", "1500ms"];
    let haul = HaulDirectory::new();
    haul.get(&origin.url("/f.bin"), &flags)
        .await
        .assert_code(5)
        .assert_stderr_has("the same command resumes the download");
    assert_eq!(haul.listing(), ["f.bin.haul-journal", "f.bin.haul-part"]);
    origin.replace("/f.bin", OriginResource::new(big.clone()));
    let output = haul.get(&origin.url("/f.bin"), &flags).await;
    output
        .assert_code(0)
        .assert_stderr_has("of it from an earlier run");
    haul.assert_file("f.bin", &big);
    assert_eq!(haul.listing(), ["f.bin"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_resume_neither_uses_nor_leaves_a_partial_file() {
    let big = ResourceContent::random(2, 8 << 20);
    let breaks = OriginResource::new(big.clone())
        .rule(RequestMatcher::always(), faults::stall_after(3 << 20));
    let origin = start_origin(breaks).await;
    let flags = [
        "-x",
        "1",
        "--retries",
        "0",
        "--stall-timeout",
        "1500ms",
        "--no-resume",
    ];
    let haul = HaulDirectory::new();
    haul.get(&origin.url("/f.bin"), &flags).await.assert_code(5);
    assert!(
        !haul.path("f.bin.haul-journal").exists() && !haul.path("f.bin").exists(),
        "{:?}",
        haul.listing()
    );
    origin.replace("/f.bin", OriginResource::new(big.clone()));
    let output = haul.get(&origin.url("/f.bin"), &flags).await;
    output.assert_code(0);
    assert!(!output.stderr.contains("earlier run"), "{output:#?}");
    haul.assert_file("f.bin", &big);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_and_connections_follow_the_flags() {
    let big = ResourceContent::random(3, 4 << 20);
    let slow =
        OriginResource::new(big.clone()).rule(RequestMatcher::always(), faults::body_rate(4 << 20));
    let origin = start_origin(slow).await;
    let haul = HaulDirectory::new();
    let output = haul
        .get(
            &origin.url("/f.bin"),
            &["-x", "3", "--segment-size", "512k", "-v"],
        )
        .await;
    output
        .assert_code(0)
        .assert_stderr_has("3 connections")
        .assert_stderr_has("segment 0-524287  ")
        .assert_stderr_has("512.0 KiB  ");
    haul.assert_file("f.bin", &big);
    assert_eq!(origin.connection_count(), 3);
    let lengths = origin
        .requests()
        .iter()
        .filter_map(|request| request.range(4 << 20))
        .map(|r| r.end - r.start)
        .max();
    assert_eq!(lengths, Some(512 << 10));
    let origin = start_origin(OriginResource::new(big.clone())).await;
    haul.get(
        &origin.url("/f.bin"),
        &["-o", "g", "--min-segment-size", "4M"],
    )
    .await
    .assert_code(0);
    haul.assert_file("g", &big);
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rate_is_limited_over_all_connections() {
    let big = ResourceContent::random(3, 2 << 20);
    let origin = start_origin(OriginResource::new(big.clone())).await;
    let haul = HaulDirectory::new();
    let begun = tokio::time::Instant::now();
    haul.get(
        &origin.url("/f.bin"),
        &["-x", "4", "--segment-size", "256k", "--limit-rate", "1M"],
    )
    .await
    .assert_code(0);
    let seconds = begun.elapsed().as_secs_f64();
    haul.assert_file("f.bin", &big);
    assert!(
        (1.0..6.0).contains(&seconds),
        "{seconds} s for 2 MiB at 1 MiB/s"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checksums_are_verified_and_printed_for_the_sum_tools() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let sha256 = content().sha256();
    let given = format!("sha256:{sha256}");
    let output = haul
        .get(&origin.url("/f.bin"), &["--checksum", &given, "-o", "g"])
        .await;
    output.assert_code(0);
    assert_eq!(output.stdout, "", "an expected digest is not printed");
    let flags = ["sha256", "blake3", "crc32c"].map(|name| ["--checksum", name]);
    let flags = [flags.as_flattened(), &["--checksum", &given]].concat();
    let output = haul.get(&origin.url("/f.bin"), &flags).await;
    output.assert_code(0);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(
        (lines.len(), lines[0]),
        (3, format!("{sha256}  f.bin").as_str())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unrequested_content_codings_are_decoded_with_the_flag() {
    // "coded\n" by gzip.
    let coded: &[u8] = &[
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 0xff, 0x4b, 0xce, 0x4f, 0x49, 0x4d, 0xe1, 2, 0, 0xe9,
        0x12, 0xdc, 0x3f, 6, 0, 0, 0,
    ];
    let gzip =
        OriginResource::new(ResourceContent::fixed(coded)).header("Content-Encoding", "gzip");
    let origin = start_origin(gzip.rule(RequestMatcher::always(), faults::ignore_range)).await;
    let haul = HaulDirectory::new();
    haul.get(&origin.url("/f.bin"), &["-o", "sent"])
        .await
        .assert_code(0)
        .assert_stderr_has("--decode");
    assert_eq!(std::fs::read(haul.path("sent")).unwrap(), coded);
    haul.get(&origin.url("/f.bin"), &["-o", "plain", "--decode"])
        .await
        .assert_code(0);
    assert_eq!(std::fs::read(haul.path("plain")).unwrap(), b"coded\n");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_too_long_is_refused_before_any_request() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    for (long, more) in [(256, None), (300, Some("--overwrite"))] {
        let name = "n".repeat(long);
        let url = origin.url("/f.bin");
        let flags: Vec<&str> = ["-o", &name].into_iter().chain(more).collect();
        let output = haul.get(&url, &flags).await;
        output
            .assert_code(4)
            .assert_stderr_has("nnn is too long for its file system")
            .assert_stderr_has("hint: choose another name");
        assert!(origin.requests().is_empty() && haul.listing().is_empty());
    }
    // The partial file and the journal have short names of their own, so the longest name works.
    let name = "n".repeat(255);
    let url = origin.url("/f.bin");
    haul.get(&url, &["-o", &name]).await.assert_code(0);
    assert_eq!(haul.listing(), [name]);
}

/// `-o /dev/stdout` writes to standard output, also if that is a regular file: no other file is created.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_dev_stdout_is_standard_output() {
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    for flags in [&["-q"][..], &["-q", "--overwrite"]] {
        let haul = HaulDirectory::new();
        let args = [&["get", &url, "-o", "/dev/stdout"], flags].concat();
        haul.run_redirected(">f", &args).await.assert_code(0);
        haul.assert_file("f", &content());
        assert_eq!(haul.listing(), ["f"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checksum_is_found_in_a_list_or_given_bare() {
    let small = ResourceContent::fixed("a file\n");
    let origin = start_origin(OriginResource::new(small.clone())).await;
    let url = origin.url("/f.bin");
    let haul = HaulDirectory::new();
    let right = "b3e656f8b0828a31f3ed396a1c868786";
    let wrong = "0".repeat(64);
    let list = haul.write("SUMS", format!("{wrong}  g.bin\n{right} *f.bin\n"));
    haul.get(&url, &["--checksum", &format!("@{list}")])
        .await
        .assert_code(0);
    haul.get(&url, &["--checksum", right, "-o", "bare"])
        .await
        .assert_code(0);
    haul.assert_file("bare", &small);
    haul.get(&url, &["--checksum", &wrong, "-o", "other"])
        .await
        .assert_code(3)
        .assert_stderr_has(&wrong);
    let other = &wrong[..32];
    let both = haul.write("BOTH", format!("{other}  x/f.bin\n{right} *y/f.bin\n"));
    let both = format!("@{both}");
    haul.get(&url, &["--checksum", &both, "-o", "unclear"])
        .await
        .assert_code(2)
        .assert_stderr_has("has several checksums of f.bin");
    let none = haul.write("NONE", format!("{right}  g.bin\n"));
    haul.get(&url, &["--checksum", &format!("@{none}"), "-o", "unlisted"])
        .await
        .assert_code(2)
        .assert_stderr_has("has no checksum of f.bin");
    assert!(!haul.path("unlisted").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f37_the_path_of_the_url_finds_the_digest_in_a_list() {
    let small = ResourceContent::fixed("a file\n");
    let origin = Origin::builder()
        .resource("/pub/x%20y/boot.gz", OriginResource::new(small.clone()))
        .resource("/latest", OriginResource::new(small.clone()))
        .start()
        .await;
    let (url, latest) = (origin.url("/pub/x%20y/boot.gz"), origin.url("/latest"));
    let haul = HaulDirectory::new();
    let right = "b3e656f8b0828a31f3ed396a1c868786";
    let wrong = "0".repeat(32);
    let list = haul.write(
        "SUMS",
        format!("{wrong}  ./gtk/boot.gz\n{wrong}  boot.gz\n{right}  ./x y/boot.gz\r\n{wrong}  latest.gz\n"),
    );
    let list = format!("@{list}");
    haul.get(&url, &["--checksum", &list]).await.assert_code(0);
    haul.assert_file("boot.gz", &small);
    // A name that the list does not have: the one that the file gets counts, with its folder.
    haul.get(&latest, &["--checksum", &list, "-o", "x y/boot.gz"])
        .await
        .assert_code(0);
    haul.get(&latest, &["--checksum", &list, "-o", "x/boot.gz"])
        .await
        .assert_code(3);
    let openssl = haul.write("boot.md5", format!("MD5(/build/boot.gz)= {right}\n"));
    let lone = haul.write("lone.md5", format!("\u{feff}{}\r\n", right.to_uppercase()));
    let large = haul.write("large", vec![b'a'; (16 << 20) + 1]);
    for list in [openssl, lone] {
        haul.get(
            &url,
            &[
                "--checksum",
                &format!("@{list}"),
                "-o",
                "again",
                "--overwrite",
            ],
        )
        .await
        .assert_code(0);
    }
    haul.get(&url, &["--checksum", &format!("@{large}"), "-o", "other"])
        .await
        .assert_code(2)
        .assert_stderr_has("the list is larger than 16 MiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_on_the_size_of_files_is_a_local_error() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let url = origin.url("/f.bin");
    let binary = env!("CARGO_BIN_EXE_haul");
    // In units of 512 or 1024 bytes: half of the file or less.
    let output = haul
        .shell(&format!("ulimit -f 512; exec {binary} get {url}"))
        .await;
    output.assert_code(4).assert_stderr_has("ulimit -f");
    assert!(!haul.path("f.bin").exists());
}
