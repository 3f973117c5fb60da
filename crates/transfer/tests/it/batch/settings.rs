//! A batch's settings: names of files, expected types and sizes, the error limit, header fields.

use haul_lab::{Origin, OriginResource, RequestMatcher, faults};
use haul_transfer::batch::{ErrorLimit, StopReason};
use haul_transfer::list::ListEntry;
use haul_transfer::manifest::{JobRowState, ManifestRow, RowTimings};
use haul_transfer::{ContentExpectation, ErrorClass, PathLayout};

use super::{BatchCase, origin_with_files, small_content};

#[tokio::test(flavor = "multi_thread")]
async fn c4_two_urls_with_one_name_get_the_same_two_names_in_every_run() {
    let origin = Origin::builder()
        .resource("/a/photo.jpg", OriginResource::new(small_content(1)))
        .resource("/b/photo.jpg", OriginResource::new(small_content(2)))
        .start()
        .await;
    let urls = || ["/a/photo.jpg", "/b/photo.jpg", "/a/photo.jpg"].map(|path| origin.url(path));
    let (case, again) = (BatchCase::new(), BatchCase::new());
    let run = case.download(urls()).await;
    assert_eq!(run.counts(), (2, 1, 0), "the third URL repeats the first");
    again.download(urls()).await;
    let names = case.listing();
    assert_eq!((names.len(), &names), (2, &again.listing()));
    case.assert_file("photo.jpg", &small_content(1));
    let other = names.iter().find(|name| *name != "photo.jpg").unwrap();
    case.assert_file(other, &small_content(2));
}

/// Entries that repeat a file, of one that fails, and of one that an earlier run has done; in a directory and in an archive.
#[tokio::test(flavor = "multi_thread")]
async fn repeats_have_the_result_of_their_file_if_asked_to() {
    for tar in [None, Some(("t.tar", None))] {
        let origin = origin_with_files(3).start().await;
        let urls = || ["/2", "/missing", "/1", "/2", "/missing", "/2"].map(|path| origin.url(path));
        let mut case = BatchCase::new();
        case.options.repeats_have_results = true;
        case.options.checksums = vec!["sha256".parse().unwrap()];
        (case.manifest, case.tar) = (Some("m.jsonl"), tar);
        let run = case.download(urls()).await;
        assert_eq!(run.counts(), (4, 0, 2));
        assert_eq!(run.rows.len(), 6);
        let result = |row: &ManifestRow| ManifestRow {
            line: None,
            attempts: 0,
            timings: RowTimings::default(),
            ..row.clone()
        };
        for (first, repeat) in [(0, 3), (0, 5), (1, 4)] {
            assert_eq!(result(&run.rows[first]), result(&run.rows[repeat]));
            assert_eq!(run.rows[repeat].attempts, 0);
        }
        assert_eq!(
            (run.rows[3].bytes > 0, run.rows[3].checksums.len()),
            (true, 1)
        );
        assert_eq!(run.rows[3].shard.is_some(), tar.is_some());
        assert_eq!(run.summary.failure_groups[0].count, 2);
        // The manifest has them as before: as skipped, without a place that would be theirs.
        let manifest = std::fs::read_to_string(case.outer_dir.path().join("m.jsonl")).unwrap();
        let skipped = manifest.lines().filter(|line| line.contains("\"skipped\""));
        assert_eq!(skipped.filter(|line| !line.contains("\"path\"")).count(), 3);
        let again = case.download(urls()).await;
        assert_eq!(again.rows.len(), 6);
        assert_eq!(again.rows[3].checksums, run.rows[0].checksums);
        assert_eq!(again.rows[3].shard, run.rows[0].shard);
        assert_eq!(again.rows[5].state, JobRowState::Skipped);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_path_given_twice_belongs_to_the_first_url() {
    let (case, origin) = (BatchCase::new(), origin_with_files(3).start().await);
    let entry = |line| {
        let url = origin.url(&format!("/{line}")).parse().unwrap();
        Ok(ListEntry {
            path: Some("same".into()),
            ..ListEntry::new(line, url)
        })
    };
    let run = case.run(Box::new([entry(1), entry(2)].into_iter())).await;
    assert_eq!(run.counts(), (1, 0, 1));
    case.assert_file("same", &small_content(1));
    assert!(run.error("/2").contains("another URL"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_layout_decides_the_path() {
    let origin = Origin::builder()
        .resource("/a/b.bin", OriginResource::new(small_content(1)))
        .start()
        .await;
    let mut case = BatchCase::new();
    case.options.layout = PathLayout::Path;
    assert_eq!(
        case.download([origin.url("/a/b.bin")]).await.counts(),
        (1, 0, 0)
    );
    let host = case.listing().remove(0);
    assert!(host.contains("127.0.0.1"), "{host}");
    case.assert_file(&format!("{host}/a/b.bin"), &small_content(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_an_error_page_is_not_taken_for_the_file() {
    let page = |content| {
        OriginResource::new(content).rule(
            RequestMatcher::always(),
            faults::header("Content-Type", "text/html"),
        )
    };
    let image = OriginResource::new(small_content(20)).header("Content-Type", "image/png");
    let origin = Origin::builder()
        .resource("/page", page(small_content(9)))
        .resource("/image", image.clone())
        .resource(
            "/tiny",
            OriginResource::new(small_content(0)).header("Content-Type", "image/png"),
        )
        .resource(
            "/without-length",
            image
                .rule(RequestMatcher::always(), faults::chunked)
                .rule(RequestMatcher::always(), faults::ignore_range),
        )
        .start()
        .await;
    let mut case = BatchCase::new();
    case.get.expected_content = ContentExpectation {
        media_types: vec!["image/*".parse().unwrap()],
        min_length: Some(500),
        ..ContentExpectation::default()
    };
    let names = ["page", "image", "tiny", "without-length"];
    let run = case
        .download(names.map(|name| origin.url(&format!("/{name}"))))
        .await;
    assert_eq!(run.counts(), (2, 0, 2));
    assert!(
        run.error("/page").contains("text/html"),
        "{}",
        run.error("/page")
    );
    assert_eq!(
        run.row("/page").error.as_ref().unwrap().class,
        ErrorClass::Verification
    );
    assert_eq!(run.row("/page").status, Some(206));
    assert_eq!(run.row("/tiny").state, JobRowState::Failed);
    assert!(run.row("/tiny").status.is_some(), "the origin responded");
    assert_eq!(case.listing(), ["image", "without-length"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_must_have_the_size_of_the_list() {
    let (case, origin) = (BatchCase::new(), origin_with_files(4).start().await);
    let entry = |line, size| {
        let url = origin.url(&format!("/{line}")).parse().unwrap();
        Ok(ListEntry {
            size: Some(size),
            ..ListEntry::new(line, url)
        })
    };
    let entries = [
        entry(1, small_content(1).length()),
        entry(2, small_content(2).length() + 1),
    ];
    let run = case.run(Box::new(entries.into_iter())).await;
    assert_eq!(run.counts(), (1, 0, 1));
    assert_eq!(run.row("/2").attempts, 1);
    assert_eq!(case.listing(), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_ends_at_its_error_limit() {
    let (mut case, origin) = (BatchCase::new(), origin_with_files(1).start().await);
    case.options.error_limit = Some(ErrorLimit::Count(10));
    let run = case
        .download((0..5000).map(|n| origin.url(&format!("/missing{n}"))))
        .await;
    assert_eq!(
        run.summary.stop_reason().unwrap(),
        StopReason::TooManyFailures
    );
    assert!((11..400).contains(&run.summary.failed), "{:?}", run.summary);
    assert!(run.rows.iter().all(|row| row.state == JobRowState::Failed));
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_jobs_of_a_dead_host_are_rejected() {
    let (case, origin) = (BatchCase::new(), origin_with_files(50).start().await);
    let dead = super::strategies::free_port();
    let urls = (0..100).map(|n| match n % 2 {
        0 => origin.url(&format!("/{}", n / 2)),
        _ => format!("http://127.0.0.1:{dead}/dead{n}"),
    });
    let run = case.download(urls).await;
    assert_eq!(run.counts(), (50, 0, 50));
    let given_up = run
        .summary
        .failure_groups
        .iter()
        .find(|cause| cause.cause == "host unreachable");
    assert!(
        given_up.is_some_and(|cause| cause.count > 40),
        "{:?}",
        run.summary.failure_groups
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_an_error_page_is_not_taken_for_a_large_file() {
    let large = |kind| {
        OriginResource::new(haul_lab::ResourceContent::random(1, 2 << 20))
            .header("Content-Type", kind)
    };
    let origin = Origin::builder()
        .resource("/page", large("text/html; charset=utf-8"))
        .resource("/image", large("image/tiff"))
        .start()
        .await;
    let mut case = BatchCase::new();
    case.get.expected_content = ContentExpectation {
        media_types: vec!["image/*".parse().unwrap()],
        ..ContentExpectation::default()
    };
    let run = case
        .download(["/page", "/image"].map(|path| origin.url(path)))
        .await;
    assert_eq!(run.counts(), (1, 0, 1));
    assert_eq!(case.listing(), ["image"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn header_fields_of_a_list_go_to_its_origin_only() {
    let other = origin_with_files(2).start().await;
    let redirect = faults::redirect(302, other.url("/1"));
    let origin = Origin::builder()
        .resource("/here", OriginResource::new(small_content(3)))
        .resource(
            "/redirected",
            OriginResource::new(small_content(4)).rule(RequestMatcher::always(), redirect),
        )
        .resource(
            "/large",
            OriginResource::new(haul_lab::ResourceContent::random(1, 2 << 20)),
        )
        .start()
        .await;
    let case = BatchCase::new();
    let entry = |path: &str| {
        let mut entry = ListEntry::new(1, origin.url(path).parse().unwrap());
        entry.headers.insert("x-token", "s3cret".parse().unwrap());
        entry.headers.insert("accept", "image/*".parse().unwrap());
        Ok(entry)
    };
    let entries = ["/here", "/redirected", "/large"].map(entry);
    assert_eq!(
        case.run(Box::new(entries.into_iter())).await.counts(),
        (3, 0, 0)
    );
    assert!(
        origin.requests().len() > 3,
        "the large file had several requests"
    );
    for request in origin.requests() {
        assert_eq!(
            request.header("x-token"),
            Some("s3cret"),
            "{}",
            request.path()
        );
        assert_eq!(request.header("accept"), Some("image/*"));
    }
    for request in other.requests() {
        assert_eq!(request.header("x-token"), None);
        assert_eq!(request.header("accept"), Some("image/*"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn header_fields_of_the_user_do_not_go_to_hosts_of_a_metalink_document() {
    let large = haul_lab::ResourceContent::random(1, 2 << 20);
    let origin = origin_with_files(2)
        .resource("/large", OriginResource::new(large))
        .start()
        .await;
    let mut case = BatchCase::new();
    case.client
        .headers
        .insert("private-token", "s3cret".parse().unwrap());
    let entry = |path: &str, untrusted_hosts| {
        Ok(ListEntry {
            untrusted_hosts,
            ..ListEntry::new(1, origin.url(path).parse().unwrap())
        })
    };
    let entries = [entry("/0", true), entry("/large", true), entry("/1", false)];
    let run = case.run(Box::new(entries.into_iter())).await;
    assert_eq!(run.counts(), (3, 0, 0));
    for request in origin.requests() {
        let token = request.header("private-token");
        assert_eq!(
            token.is_some(),
            request.path() == "/1",
            "{}",
            request.path()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_of_pieces_are_checked_in_a_batch() {
    use sha2::Digest;
    let content = haul_lab::ResourceContent::random(1, 100_000);
    let mut damaged = content.to_vec();
    damaged[70_000] ^= 1;
    let bad = OriginResource::new(haul_lab::ResourceContent::fixed(damaged));
    let bad = Origin::builder().resource("/f", bad).start().await;
    let good = Origin::builder()
        .resource("/f", OriginResource::new(content.clone()))
        .start()
        .await;
    let digests: Vec<Vec<u8>> = content
        .to_vec()
        .chunks(50_000)
        .map(|piece| sha2::Sha256::digest(piece).to_vec())
        .collect();
    let algorithm = "sha256".parse().unwrap();
    let pieces = haul_transfer::PieceDigests::new(algorithm, 50_000, digests).unwrap();
    let entry = ListEntry {
        mirrors: vec![good.url("/f").parse().unwrap()],
        size: Some(100_000),
        pieces: Some(pieces),
        ..ListEntry::new(1, bad.url("/f").parse().unwrap())
    };
    let case = BatchCase::new();
    assert_eq!(
        case.run(Box::new([Ok(entry)].into_iter())).await.counts(),
        (1, 0, 0)
    );
    case.assert_file("f", &content);
}
