//! Files that exist already.

use haul_lab::{Origin, OriginResource};
use haul_transfer::ExistingFilePolicy;
use haul_transfer::manifest::JobRowState;

use super::{BatchCase, origin_with_files, small_content};

#[tokio::test(flavor = "multi_thread")]
async fn b6_an_existing_file_stays_without_a_request() {
    let (case, origin) = (BatchCase::new(), origin_with_files(3).start().await);
    std::fs::write(case.path("1"), "mine").unwrap();
    let run = case
        .download((0..3).map(|n| origin.url(&format!("/{n}"))))
        .await;
    assert_eq!(run.counts(), (2, 1, 0));
    assert_eq!(
        (run.row("/1").state, run.row("/1").bytes),
        (JobRowState::Skipped, 4)
    );
    assert_eq!(std::fs::read(case.path("1")).unwrap(), b"mine");
    assert_eq!(origin.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_a_file_that_appears_meanwhile_stays_and_fails_the_job() {
    let case = BatchCase::new();
    let path = case.path("f");
    // The user's file appears during the request.
    let create_file = move |_: &haul_lab::RecordedRequest, _: &mut haul_lab::OriginResponse| {
        std::fs::write(&path, "mine").unwrap();
    };
    let resource =
        OriginResource::new(small_content(8)).rule(haul_lab::RequestMatcher::always(), create_file);
    let origin = Origin::builder().resource("/f", resource).start().await;
    let run = case.download([origin.url("/f")]).await;
    assert_eq!(run.counts(), (0, 0, 1));
    assert!(run.error("/f").contains("taken meanwhile"));
    assert_eq!(std::fs::read(case.path("f")).unwrap(), b"mine");
    assert_eq!(case.listing(), ["f"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_overwrite_keeps_the_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let (mut case, origin) = (BatchCase::new(), origin_with_files(2).start().await);
    case.get.existing_file = ExistingFilePolicy::Overwrite;
    std::fs::write(case.path("1"), "old").unwrap();
    std::fs::set_permissions(case.path("1"), PermissionsExt::from_mode(0o600)).unwrap();
    let run = case
        .download((0..2).map(|n| origin.url(&format!("/{n}"))))
        .await;
    assert_eq!(run.counts(), (2, 0, 0));
    case.assert_file("1", &small_content(1));
    let mode = std::fs::metadata(case.path("1")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    assert_eq!(case.listing(), ["0", "1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_update_replaces_only_a_changed_file() {
    let mut case = BatchCase::new();
    let dated = |number, tag| {
        OriginResource::new(small_content(number))
            .etag(tag)
            .last_modified("Sun, 06 Nov 1994 08:49:37 GMT")
    };
    let origin = Origin::builder()
        .resource("/same", dated(3, "\"s\""))
        .resource("/newer", dated(4, "\"n1\""))
        .start()
        .await;
    let urls = || [origin.url("/same"), origin.url("/newer")];
    assert_eq!(case.download(urls()).await.counts(), (2, 0, 0));
    let newer = OriginResource::new(small_content(5))
        .etag("\"n2\"")
        .last_modified("Mon, 07 Nov 1994 08:49:37 GMT");
    origin.replace("/newer", newer);
    case.get.existing_file = ExistingFilePolicy::Update;
    let run = case.download(urls()).await;
    assert_eq!(run.counts(), (1, 1, 0));
    assert_eq!(run.row("/same").state, JobRowState::Skipped);
    assert_eq!(run.row("/same").status, Some(304));
    case.assert_file("same", &small_content(3));
    case.assert_file("newer", &small_content(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_with_the_name_is_an_error() {
    let (case, origin) = (BatchCase::new(), origin_with_files(1).start().await);
    std::fs::create_dir(case.path("0")).unwrap();
    let run = case.download([origin.url("/0")]).await;
    assert!(run.error("/0").contains("is a directory"));
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_an_existing_file_must_have_the_size_and_digest_of_the_list() {
    use haul_transfer::list::ListEntry;
    let (case, origin) = (BatchCase::new(), origin_with_files(4).start().await);
    std::fs::write(case.path("1"), small_content(1).to_vec()).unwrap();
    std::fs::write(case.path("2"), small_content(3).to_vec()).unwrap();
    std::fs::write(case.path("3"), "of another size").unwrap();
    let entry = |number: u64| {
        let url = origin.url(&format!("/{number}")).parse().unwrap();
        let sum = format!("sha256:{}", small_content(number).sha256());
        let mut entry = ListEntry::new(number, url);
        match number {
            3 => entry.size = Some(small_content(3).length()),
            _ => entry.checksums = vec![sum.parse().unwrap()],
        }
        Ok(entry)
    };
    let run = case
        .run(Box::new((1..4).map(entry).collect::<Vec<_>>().into_iter()))
        .await;
    assert_eq!(run.counts(), (1, 0, 2));
    assert_eq!(run.row("/1").checksums[0].1, small_content(1).sha256());
    for (name, kept) in [
        ("2", small_content(3).to_vec()),
        ("3", b"of another size".to_vec()),
    ] {
        assert!(
            run.error(&format!("/{name}"))
                .contains("is not the one in the list")
        );
        assert_eq!(std::fs::read(case.path(name)).unwrap(), kept);
    }
    assert!(origin.requests().is_empty());
    let attempts: Vec<_> = run.rows.iter().map(|row| row.attempts).collect();
    assert_eq!(attempts, [0, 0, 0], "a comparison makes no request");
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_fifo_with_the_name_is_an_error_at_once() {
    use haul_transfer::list::ListEntry;
    let (case, origin) = (BatchCase::new(), origin_with_files(2).start().await);
    let status = std::process::Command::new("mkfifo")
        .arg(case.path("1"))
        .status();
    assert!(status.unwrap().success());
    let mut entry = ListEntry::new(1, origin.url("/1").parse().unwrap());
    entry.checksums = vec![
        format!("sha256:{}", small_content(1).sha256())
            .parse()
            .unwrap(),
    ];
    let run = case.run(Box::new([Ok(entry)].into_iter())).await;
    assert!(run.error("/1").contains("not a regular file"));
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_the_target_of_a_link_is_replaced_in_its_place() {
    let (mut case, origin) = (BatchCase::new(), origin_with_files(2).start().await);
    case.get.existing_file = ExistingFilePolicy::Overwrite;
    let target = case.outer_dir.path().join("real");
    std::fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, case.path("1")).unwrap();
    assert_eq!(case.download([origin.url("/1")]).await.counts(), (1, 0, 0));
    assert!(case.path("1").is_symlink());
    assert_eq!(std::fs::read(target).unwrap(), small_content(1).to_vec());
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_update_sends_no_tag_for_an_edited_file() {
    let mut case = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let dated =
        OriginResource::new(small_content(3)).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    let origin = Origin::builder().resource("/f", dated).start().await;
    assert_eq!(case.download([origin.url("/f")]).await.counts(), (1, 0, 0));
    std::fs::write(case.path("f"), "edited").unwrap();
    case.get.existing_file = ExistingFilePolicy::Update;
    case.download([origin.url("/f")]).await;
    let requests = origin.requests();
    assert_eq!(requests.last().unwrap().header("if-none-match"), None);
}
