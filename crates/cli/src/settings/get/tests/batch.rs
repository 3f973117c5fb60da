//! What makes a batch, and the effect of its flags.

use clap::Parser as _;
use haul_transfer::batch::{ErrorLimit, HostRequestLimit, RequestRate};
use haul_transfer::{DownloadJob, PathLayout};

use super::super::*;
use crate::args::{CliArgs, CliCommand};

fn resolve(words: &[&str]) -> Result<GetSettings, SettingError> {
    let command = ["haul", "get"].iter().chain(words);
    let CliCommand::Get(args) = CliArgs::try_parse_from(command).unwrap().command else {
        unreachable!()
    };
    GetSettings::resolve(&args)
}

fn batch(words: &[&str]) -> BatchWorkload {
    match resolve(words).unwrap().task {
        GetTask::Batch(many) => *many,
        GetTask::Single(few) => panic!("{few:?}"),
    }
}

fn urls(words: &[&str]) -> Vec<String> {
    match resolve(words).unwrap().task {
        GetTask::Batch(many) => many
            .sources
            .map(|entry| entry.unwrap().url.into())
            .collect(),
        GetTask::Single(few) => few.jobs.into_iter().map(|job| job.url.into()).collect(),
    }
}

fn error_of(words: &[&str]) -> String {
    let error = resolve(words).unwrap_err();
    let hint = error.hint().map_or_else(String::new, str::to_owned);
    format!("{} / {hint}", crate::message::chain_text(&error))
}

fn is_batch(words: &[&str]) -> bool {
    matches!(resolve(words).unwrap().task, GetTask::Batch(_))
}

#[test]
fn lists_many_urls_and_flags_of_batches_make_a_batch() {
    let list_file = tempfile::NamedTempFile::new().unwrap();
    let list = list_file.path().to_str().unwrap();
    assert!(is_batch(&["-i", list]) && is_batch(&["-i", "-"]));
    assert!(is_batch(&["http://h/f", "-i", list]));
    assert!(!is_batch(&["http://h/f"]) && !is_batch(&["http://h/f", "http://h/g"]));
    assert!(!is_batch(&["http://h/[1-16]"]) && is_batch(&["http://h/[1-17]"]));
    assert!(is_batch(&["http://h/[1-9]", "http://h/{a,b,c,d}[1-2]"]));
    for flags in [
        &["-j", "3"][..],
        &["--max-connections-total", "3"],
        &["--rate-per-host", "0.5"],
        &["--layout", "name"],
        &["--output-template", "{name}"],
        &["--tar", "t.tar"],
        &["--manifest", "m.csv"],
        &["--expect-type", "image/*"],
        &["--min-size", "1k"],
        &["--max-size", "1k"],
        &["--max-errors", "5%"],
        &["--on-error", "continue"],
        &["--http2"],
    ] {
        assert!(is_batch(&[&["http://h/f"], flags].concat()), "{flags:?}");
    }
}

#[test]
fn globs_expand_as_in_curl() {
    assert_eq!(
        urls(&["http://{a,b}.h/[09-10]"]),
        [
            "http://a.h/09",
            "http://a.h/10",
            "http://b.h/09",
            "http://b.h/10"
        ]
    );
    assert_eq!(urls(&["http://[::1]:80/f"]), ["http://[::1]/f"]);
    assert_eq!(urls(&["-g", "http://h/f[1]"]), ["http://h/f[1]"]);
    assert_eq!(urls(&["http://h/[1-20]"]).len(), 20);
    assert_eq!(
        error_of(&["http://me:s3cret@h/[1-"]),
        "http://***@h/[1- cannot be read: '[' without ']', at character 20 / -g/--globoff turns brackets and braces off"
    );
    assert_eq!(
        error_of(&["h.test/[1-3]"]),
        "\"h.test/1\" has no scheme / did you mean https://h.test/1 ?"
    );
    assert_eq!(
        error_of(&["-g", "ftp://h/[1]"]),
        "\"ftp://h/[1]\" has the unsupported scheme ftp / haul takes http:// and https:// URLs, and s3://BUCKET/KEY for downloads"
    );
    // Its members are checked only when they are used.
    assert!(error_of(&["{http,ftp}://h/f"]).starts_with("a URL cannot be used: line 2"));
}

#[test]
fn urls_of_a_glob_have_the_password_of_the_first() {
    let members = urls(&["-u", "me:pw", "http://me@{h,i}/[1-9]"]);
    assert_eq!(members[1], "http://me:pw@h/2");
    assert_eq!(
        members[9], "http://me@i/1",
        "of another host it is not known"
    );
    let named = ["http://me@h/f", "-u", "me:pw", "-j", "2"];
    assert_eq!(urls(&named), ["http://me:pw@h/f"]);
}

#[test]
fn sources_are_read_in_their_order() {
    let list = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(list.path(), "http://l/1\n\nhttp://l/2\n").unwrap();
    let list = list.path().to_str().unwrap();
    assert_eq!(
        urls(&["-i", list, "http://h/[1-2]", "http://g/"]),
        [
            "http://h/1",
            "http://h/2",
            "http://g/",
            "http://l/1",
            "http://l/2"
        ]
    );
    let csv = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(csv.path(), "http://l/url,1\n").unwrap();
    let csv = csv.path().to_str().unwrap();
    assert_eq!(urls(&["-i", csv]), ["http://l/url,1"]);
    let GetTask::Batch(message) = resolve(&["-i", csv, "--input-format", "csv"]).unwrap().task
    else {
        panic!("a list is a batch")
    };
    assert!(message.sources.into_iter().all(|entry| entry.is_err()));
}

#[test]
fn ignored_options_of_lists_are_warned_of() {
    let list = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(list.path(), "http://l/1\n  http-user=me\n  split=5\n").unwrap();
    let sources = batch(&["-i", list.path().to_str().unwrap()]).sources;
    let ignored = sources.ignored();
    assert_eq!(sources.count(), 1);
    let message = ignored.warnings().concat();
    assert!(message.ends_with("ignored options: http-user"), "{message}");
}

#[test]
fn lists_that_cannot_be_read_are_reported_at_the_start() {
    assert!(error_of(&["-i", "/nowhere"]).starts_with("-i: cannot read /nowhere: No such file"));
    let dir = tempfile::tempdir().unwrap();
    assert!(error_of(&["-i", dir.path().to_str().unwrap()]).contains("is a directory"));
    assert_eq!(
        error_of(&["-i", "-", "-i", "-"]),
        "-i - is given twice / standard input can be read once"
    );
}

#[test]
fn flags_for_one_file_are_refused_for_many() {
    let several = "-o names one file, but there are several URLs / use -d DIR for several files, or --mirror if all URLs are the same file";
    assert_eq!(error_of(&["http://h/[1-2]", "-o", "f"]), several);
    assert_eq!(error_of(&["http://h/[1-99]", "-o", "f"]), several);
    let digest = error_of(&["-i", "-", "--checksum", "crc32c:deadbeef"]);
    assert!(
        digest.starts_with("--checksum has a digest, but"),
        "{digest}"
    );
    assert_eq!(
        error_of(&["-i", "-", "--min-size", "2k", "--max-size", "1k"]),
        "--min-size is larger than --max-size / "
    );
}

#[test]
fn an_archive_on_standard_output_excludes_other_output() {
    let both = "--json and --tar - both write to standard output / --manifest FILE has results and digests, too";
    assert_eq!(error_of(&["-i", "-", "--tar", "-", "--json"]), both);
    let digests = ["-i", "-", "--tar", "-", "--checksum", "md5"];
    assert!(error_of(&digests).starts_with("--checksum and --tar - both"));
    batch(&[&digests[..], &["--manifest", "m.csv"]].concat());
    batch(&["-i", "-", "--tar", "./-", "--json"]);
}

#[test]
fn a_stream_cannot_be_split_into_shards() {
    let wants = |tar| error_of(&["-i", "-", "--tar", tar, "--shard-size", "1G"]);
    let message = "--shard-size makes several archives, and --tar - is one stream / leave out --shard-size, or give --tar the name of a file";
    assert_eq!(wants("-"), message);
    assert_eq!(
        wants("/dev/null"),
        message.replace("--tar - ", "--tar /dev/null ")
    );
    batch(&["-i", "-", "--tar", "./-", "--shard-size", "1G"]);
}

const METALINK: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<metalink xmlns="urn:ietf:params:xml:ns:metalink">
  <file name="sub/a.iso"><size>5</size>
    <hash type="sha-256">e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855</hash>
    <url priority="2">http://b.test/a</url><url priority="1">http://a.test/a</url></file>
  <file name="b"><url>ftp://a.test/b</url></file>
</metalink>"#;

fn single(words: &[&str]) -> Vec<DownloadJob> {
    match resolve(words).unwrap().task {
        GetTask::Single(few) => few.jobs,
        GetTask::Batch(many) => panic!("{many:?}"),
    }
}

#[test]
fn mirrors_make_one_job_of_many_urls() {
    let jobs = single(&["--mirror", "http://{a,b}/f", "http://c/f", "-o", "x"]);
    assert_eq!(jobs.len(), 1);
    let mirrors: Vec<&str> = jobs[0].mirrors.iter().map(Url::as_str).collect();
    assert_eq!(
        (jobs[0].url.as_str(), mirrors),
        ("http://a/f", vec!["http://b/f", "http://c/f"])
    );
    assert_eq!(
        single(&["--mirror", "http://[1-99].h/f"])[0].mirrors.len(),
        98
    );
    assert!(
        resolve(&["--mirror", "http://a/f"])
            .unwrap()
            .options
            .mirror_links
    );
    assert!(!resolve(&["http://a/f"]).unwrap().options.mirror_links);
    let too_many = error_of(&["--mirror", "http://[1-99999999].h/f"]);
    assert!(
        too_many.starts_with("there are more than 256 mirrors"),
        "{too_many}"
    );
    assert!(
        error_of(&["--mirror", "http://a/f", "-i", "-"]).starts_with("--mirror downloads one file")
    );
    assert!(
        resolve(&["--mirror", "-i", "-"])
            .unwrap()
            .options
            .mirror_links
    );
}

#[test]
fn a_metalink_document_makes_single_downloads_with_all_its_values() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), METALINK).unwrap();
    let file = file.path().to_str().unwrap();
    let resolved = resolve(&["-i", file, "-d", "d"]).unwrap();
    assert_eq!(
        resolved.task.directories().collect::<Vec<_>>(),
        [Path::new("d/sub")]
    );
    let jobs = single(&["-i", file, "-d", "d"]);
    assert_eq!(jobs.len(), 1);
    let GetTask::Single(named) = resolved.task else {
        panic!("a document of two files is a few downloads")
    };
    let bad: Vec<String> = named
        .unusable
        .iter()
        .map(|bad| crate::message::chain_text(bad))
        .collect();
    assert!(
        bad.len() == 1
            && bad[0].ends_with("\"b\": it has no URL that begins with http:// or https://"),
        "{bad:?}"
    );
    assert_eq!(jobs[0].output, JobOutput::File("d/sub/a.iso".into()));
    assert_eq!(
        (jobs[0].url.as_str(), jobs[0].expected_size),
        ("http://a.test/a", Some(5))
    );
    assert_eq!((jobs[0].mirrors.len(), jobs[0].checksums.len()), (1, 1));
    // With another --input-format it is read as that.
    assert!(is_batch(&["-i", file, "--input-format", "plain"]));
    let in_batch = batch(&["-i", file, "-j", "2"])
        .sources
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(
        (in_batch.path, in_batch.mirrors.len()),
        (Some("sub/a.iso".into()), 1)
    );
    let ftp = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ftp.path(), METALINK.replace("http://", "ftp://")).unwrap();
    assert!(
        error_of(&["-i", ftp.path().to_str().unwrap()]).contains("contains no http or https URL")
    );
    std::fs::write(ftp.path(), &METALINK[..200]).unwrap();
    assert!(error_of(&["-i", ftp.path().to_str().unwrap()]).contains("cannot be used: line 4: "));
    let nameless = METALINK.replace("\"sub/a.iso\"", "\"..\"");
    std::fs::write(ftp.path(), nameless).unwrap();
    assert!(
        error_of(&["-i", ftp.path().to_str().unwrap()])
            .contains("cannot be used: line 3: a file without a usable name")
    );
}

/// A zstd frame with one raw block (RFC 8878 3.1.1).
fn zstd_frame(text: &str) -> Vec<u8> {
    let block = u32::try_from(text.len() << 3).unwrap() | 1;
    let head = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    [&head, &block.to_le_bytes()[..3], text.as_bytes()].concat()
}

#[test]
fn a_compressed_document_makes_single_downloads_too() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), zstd_frame(METALINK)).unwrap();
    let file = file.path().to_str().unwrap();
    for format in [&[][..], &["--input-format", "metalink"]] {
        let jobs = single(&[&["-i", file], format].concat());
        assert_eq!(jobs[0].output, JobOutput::File("sub/a.iso".into()));
    }
    // A list that is no document is read from its first byte.
    let list = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(list.path(), zstd_frame("http://l/1\n")).unwrap();
    assert_eq!(urls(&["-i", list.path().to_str().unwrap()]), ["http://l/1"]);
    assert!(
        error_of(&[
            "-i",
            list.path().to_str().unwrap(),
            "--input-format",
            "metalink"
        ])
        .contains(": the document is not a Metalink document")
    );
}

#[test]
fn limits_of_files_at_once() {
    let of = |flags: &[&str]| {
        let words = [&["http://h/[1-99]"], flags].concat();
        let settings = resolve(&words).unwrap();
        let GetTask::Batch(many) = settings.task else {
            panic!("many URLs are a batch")
        };
        let dispatch = many.options.dispatch;
        (
            dispatch.max_jobs,
            dispatch.per_host,
            dispatch.request_slots,
            settings.client.max_idle_per_host,
        )
    };
    assert_eq!(
        of(&[]),
        (None, HostRequestLimit::Auto { max: 128 }, 256, 128)
    );
    assert_eq!(
        of(&["-j", "5"]),
        (Some(5), HostRequestLimit::Auto { max: 128 }, 256, 128)
    );
    assert_eq!(
        of(&["-j", "300"]),
        (Some(300), HostRequestLimit::Auto { max: 300 }, 300, 300)
    );
    assert_eq!(of(&["-x", "8"]), (None, HostRequestLimit::Fixed(8), 256, 8));
    assert_eq!(
        of(&["-x", "256"]),
        (None, HostRequestLimit::Fixed(256), 256, 256)
    );
    let all = ["-x", "20", "-j", "30", "--max-connections-total", "10"];
    assert_eq!(of(&all), (Some(30), HostRequestLimit::Fixed(20), 10, 20));
}

#[test]
fn requests_a_second_may_be_a_fraction() {
    let rate = |words: &[&str]| {
        let words = [&["http://h/f", "-j", "1"], words].concat();
        batch(&words).options.dispatch.rate_per_host
    };
    assert_eq!(rate(&[]), None);
    let half = RequestRate::per_second(0.5);
    assert_eq!(rate(&["--rate-per-host", "0.5"]), half);
    for wrong in ["0", "-1", "5/s", "inf"] {
        let command = ["haul", "get", "http://h/f", "--rate-per-host", wrong];
        assert!(CliArgs::try_parse_from(command).is_err(), "{wrong}");
    }
}

#[test]
fn names_and_expectations() {
    assert_eq!(batch(&["-i", "-"]).options.layout, PathLayout::Name);
    assert_eq!(
        batch(&["-i", "-", "--layout", "path"]).options.layout,
        PathLayout::Path
    );
    assert_eq!(
        batch(&["-i", "-", "--layout", "hash"]).options.layout,
        PathLayout::Hash
    );
    let template = "{host}/{index:03}.{ext}";
    assert_eq!(
        batch(&["-i", "-", "--output-template", template])
            .options
            .layout,
        PathLayout::Template(template.parse().unwrap())
    );
    assert_eq!(
        batch(&["-i", "-", "-d", "x"]).options.directory.as_os_str(),
        "x"
    );
    let flags = [
        "-i",
        "-",
        "--expect-type",
        "image/*,text/css",
        "--min-size",
        "1k",
        "--max-size",
        "1M",
    ];
    let expect = resolve(&flags).unwrap().options.expected_content;
    assert_eq!(expect.media_types.len(), 2);
    assert_eq!(
        (expect.min_length, expect.max_length, expect.exact_length),
        (Some(1 << 10), Some(1 << 20), None)
    );
}

#[test]
fn failures_that_stop_a_batch() {
    let limit = |flags: &[&str]| batch(&[&["-i", "-"], flags].concat()).options.error_limit;
    assert_eq!(limit(&[]), None);
    assert_eq!(limit(&["--on-error", "continue"]), None);
    assert_eq!(limit(&["--on-error", "stop"]), Some(ErrorLimit::Count(0)));
    assert_eq!(limit(&["--max-errors", "7"]), Some(ErrorLimit::Count(7)));
    assert_eq!(
        limit(&["--max-errors", "7%"]),
        Some(ErrorLimit::Percent(7.0))
    );
}

#[test]
fn each_row_is_sent_only_when_needed() {
    let each = |flags: &[&str]| {
        batch(&[&["-i", "-"], flags].concat())
            .options
            .report_every_row
    };
    assert!(!each(&[]) && !each(&["--progress", "json"]));
    assert!(each(&["--json"]) && each(&["-v"]) && each(&["--checksum", "md5"]));
    assert!(
        !each(&["--checksum", "md5", "--manifest", "m.jsonl"]),
        "the manifest has the digests"
    );
}
