//! Row A48 on the command line: `--min-rate` and `--max-time`.

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};

use crate::cli::batch::{assert_files, file_content, list_of};
use crate::cli::harness::{HaulDirectory, content, start_origin};

/// A list whose last file drips for ever, behind a redirect too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_a_batch_ends_without_the_files_that_drip_and_says_what_they_are() {
    let endless = || {
        OriginResource::new(ResourceContent::random(9, 1 << 40))
            .rule(RequestMatcher::always(), faults::ignore_range)
            .rule(RequestMatcher::always(), faults::chunked)
            .rule(RequestMatcher::always(), faults::body_rate(1000))
    };
    let mut origin = Origin::builder().resource("/drip", endless()).resource(
        "/moved",
        endless().rule(RequestMatcher::always(), faults::redirect(302, "/drip")),
    );
    for n in 0..20 {
        origin = origin.resource(&format!("/{n}"), OriginResource::new(file_content(n)));
    }
    let origin = origin.start().await;
    let haul = HaulDirectory::new();
    let drips = ["/drip", "/moved"].map(|path| origin.url(path));
    haul.write(
        "list",
        format!("{}{}\n", list_of(&origin, 20), drips.join("\n")),
    );
    let args = [
        "get",
        "-i",
        "list",
        "-d",
        "d",
        "--min-rate",
        "20k:500ms",
        "--json",
        "--manifest",
        "m.jsonl",
    ];
    let output = haul.run(&args).await;
    output
        .assert_code(1)
        .assert_stderr_has("\n  2  too slow: such as ")
        .assert_stderr_has("; --min-rate RATE:TIME sets which downloads are too slow");
    assert_files(&haul, "d", 20);
    let manifest = std::fs::read_to_string(haul.path("m.jsonl")).unwrap();
    for text in [&output.stdout, &manifest] {
        let failed = |line: &&str| line.contains("\"failed\"");
        let rows: Vec<_> = text.lines().filter(failed).collect();
        assert_eq!(rows.len(), 2, "{text}");
        for row in rows {
            let is_right = row.contains("\"network\"")
                && row.contains(" is too slow: ")
                && row.contains("where 20480 B/s is the minimum");
            assert!(is_right, "{row}");
        }
    }
    for path in ["/drip", "/moved"] {
        origin.replace(path, OriginResource::new(file_content(1)));
    }
    let again = haul.run(&args).await;
    again.assert_code(0).assert_stderr_has("2 of 22 files");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_a_download_whose_time_is_over_is_continued_by_the_same_command() {
    let slow =
        OriginResource::new(content()).rule(RequestMatcher::always(), faults::body_rate(200_000));
    let origin = start_origin(slow).await;
    let url = origin.url("/f.bin");
    let (haul, flags) = (HaulDirectory::new(), ["-x", "1", "--max-time", "2s"]);
    let output = haul.get(&url, &flags).await;
    output.assert_code(5).assert_stderr_has(&format!(
        "haul: error: {url} is not complete after 2 s\n\
         hint: --max-time TIME gives each file more time; the same command resumes the download"
    ));
    assert_eq!(haul.listing(), ["f.bin.haul-journal", "f.bin.haul-part"]);
    origin.replace("/f.bin", OriginResource::new(content()));
    let output = haul.get(&url, &flags).await;
    output
        .assert_code(0)
        .assert_stderr_has("of it from an earlier run");
    haul.assert_file("f.bin", &content());
}

/// The reader of standard output takes nothing, and leaves after the limit: the time went on while the write waited, and the message says
/// so, not that the reader has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_standard_output_has_the_limits_too() {
    let big = ResourceContent::random(3, 8 << 20);
    let origin = start_origin(OriginResource::new(big)).await;
    let haul = HaulDirectory::new();
    let url = origin.url("/f.bin");
    let binary = env!("CARGO_BIN_EXE_haul");
    let line = format!(
        "exec 3>&1; {{ {binary} get -o - --max-time 1s {url} 2>err; echo $? >&3; }} | sleep 3"
    );
    let output = haul.shell(&line).await;
    assert_eq!(output.stdout, "5\n", "{output:?}");
    let error = std::fs::read_to_string(haul.path("err")).unwrap();
    assert!(error.contains("is not complete after 1 s"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a48_wrong_limits_and_those_of_uploads_are_refused() {
    let haul = HaulDirectory::new();
    let get = |flag, value| ["get", "http://h.test/f", flag, value];
    for (args, message) in [
        (
            get("--min-rate", "fast"),
            "\"fast\" is not a rate\nhint: write bytes a second, as 500",
        ),
        (
            get("--min-rate", "100:soon"),
            "\"soon\" is not a time\nhint: ",
        ),
        (get("--max-time", "0"), "\"0\" is too short\nhint: "),
        (
            ["sync", ".", "s3://bucket/f/", "--max-time=5s"],
            "--min-rate and --max-time are for downloads",
        ),
    ] {
        haul.run(&args)
            .await
            .assert_code(2)
            .assert_stderr_has(message);
    }
}
