//! Files that are there already.

use haul_lab::{Origin, OriginResource};
use haul_transfer::ExistingFilePolicy;
use haul_transfer::manifest::RowState;

use super::{BatchCase, shelf, small};

#[tokio::test(flavor = "multi_thread")]
async fn b6_a_file_that_is_there_stays_and_nothing_is_asked() {
    let (lot, origin) = (BatchCase::new(), shelf(3).start().await);
    std::fs::write(lot.path("1"), "mine").unwrap();
    let ran = lot.get((0..3).map(|n| origin.url(&format!("/{n}")))).await;
    assert_eq!(ran.counts(), (2, 1, 0));
    assert_eq!(
        (ran.row("/1").state, ran.row("/1").bytes),
        (RowState::Skipped, 4)
    );
    assert_eq!(std::fs::read(lot.path("1")).unwrap(), b"mine");
    assert_eq!(origin.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_a_file_that_appears_meanwhile_stays_and_is_not_taken_for_the_one_wanted() {
    let lot = BatchCase::new();
    let path = lot.path("f");
    // The user's file comes while the origin is being asked.
    let lay = move |_: &haul_lab::RecordedRequest, _: &mut haul_lab::OriginResponse| {
        std::fs::write(&path, "mine").unwrap();
    };
    let resource = OriginResource::new(small(8)).rule(haul_lab::RequestMatcher::always(), lay);
    let origin = Origin::builder().resource("/f", resource).start().await;
    let ran = lot.get([origin.url("/f")]).await;
    assert_eq!(ran.counts(), (0, 0, 1));
    assert!(ran.error("/f").contains("taken meanwhile"));
    assert_eq!(std::fs::read(lot.path("f")).unwrap(), b"mine");
    assert_eq!(lot.listing(), ["f"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_overwrite_replaces_it_with_its_rights() {
    use std::os::unix::fs::PermissionsExt;
    let (mut lot, origin) = (BatchCase::new(), shelf(2).start().await);
    lot.get.existing_file = ExistingFilePolicy::Overwrite;
    std::fs::write(lot.path("1"), "old").unwrap();
    std::fs::set_permissions(lot.path("1"), PermissionsExt::from_mode(0o600)).unwrap();
    let ran = lot.get((0..2).map(|n| origin.url(&format!("/{n}")))).await;
    assert_eq!(ran.counts(), (2, 0, 0));
    lot.assert_file("1", &small(1));
    let mode = std::fs::metadata(lot.path("1")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    assert_eq!(lot.listing(), ["0", "1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_update_asks_whether_there_is_a_newer_one() {
    let mut lot = BatchCase::new();
    let dated = |number, tag| {
        OriginResource::new(small(number))
            .etag(tag)
            .last_modified("Sun, 06 Nov 1994 08:49:37 GMT")
    };
    let origin = Origin::builder()
        .resource("/same", dated(3, "\"s\""))
        .resource("/newer", dated(4, "\"n1\""))
        .start()
        .await;
    let urls = || [origin.url("/same"), origin.url("/newer")];
    assert_eq!(lot.get(urls()).await.counts(), (2, 0, 0));
    let newer = OriginResource::new(small(5))
        .etag("\"n2\"")
        .last_modified("Mon, 07 Nov 1994 08:49:37 GMT");
    origin.replace("/newer", newer);
    lot.get.existing_file = ExistingFilePolicy::Update;
    let ran = lot.get(urls()).await;
    assert_eq!(ran.counts(), (1, 1, 0));
    assert_eq!(ran.row("/same").state, RowState::Skipped);
    assert_eq!(ran.row("/same").status, Some(304));
    lot.assert_file("same", &small(3));
    lot.assert_file("newer", &small(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_under_the_name_is_told() {
    let (lot, origin) = (BatchCase::new(), shelf(1).start().await);
    std::fs::create_dir(lot.path("0")).unwrap();
    let ran = lot.get([origin.url("/0")]).await;
    assert!(ran.error("/0").contains("is a directory"));
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_a_file_that_is_there_is_held_to_what_the_list_says_of_it() {
    use haul_transfer::list::ListEntry;
    let (lot, origin) = (BatchCase::new(), shelf(4).start().await);
    std::fs::write(lot.path("1"), small(1).to_vec()).unwrap();
    std::fs::write(lot.path("2"), small(3).to_vec()).unwrap();
    std::fs::write(lot.path("3"), "of another size").unwrap();
    let entry = |number: u64| {
        let url = origin.url(&format!("/{number}")).parse().unwrap();
        let sum = format!("sha256:{}", small(number).sha256());
        let mut entry = ListEntry::new(number, url);
        match number {
            3 => entry.size = Some(small(3).length()),
            _ => entry.checksums = vec![sum.parse().unwrap()],
        }
        Ok(entry)
    };
    let ran = lot
        .run(Box::new((1..4).map(entry).collect::<Vec<_>>().into_iter()))
        .await;
    assert_eq!(ran.counts(), (1, 0, 2));
    assert_eq!(ran.row("/1").checksums[0].1, small(1).sha256());
    for (name, kept) in [("2", small(3).to_vec()), ("3", b"of another size".to_vec())] {
        assert!(
            ran.error(&format!("/{name}"))
                .contains("is not the one in the list")
        );
        assert_eq!(std::fs::read(lot.path(name)).unwrap(), kept);
    }
    assert!(origin.requests().is_empty());
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn b4_a_fifo_under_the_name_is_told_and_not_waited_for() {
    use haul_transfer::list::ListEntry;
    let (lot, origin) = (BatchCase::new(), shelf(2).start().await);
    let made = std::process::Command::new("mkfifo")
        .arg(lot.path("1"))
        .status();
    assert!(made.unwrap().success());
    let mut entry = ListEntry::new(1, origin.url("/1").parse().unwrap());
    entry.checksums = vec![format!("sha256:{}", small(1).sha256()).parse().unwrap()];
    let ran = lot.run(Box::new([Ok(entry)].into_iter())).await;
    assert!(ran.error("/1").contains("not a regular file"));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn b6_what_a_link_leads_to_is_replaced_where_it_lies() {
    let (mut lot, origin) = (BatchCase::new(), shelf(2).start().await);
    lot.get.existing_file = ExistingFilePolicy::Overwrite;
    let there = lot.beside.path().join("real");
    std::fs::write(&there, "old").unwrap();
    std::os::unix::fs::symlink(&there, lot.path("1")).unwrap();
    assert_eq!(lot.get([origin.url("/1")]).await.counts(), (1, 0, 0));
    assert!(lot.path("1").is_symlink());
    assert_eq!(std::fs::read(there).unwrap(), small(1).to_vec());
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_update_is_not_told_that_an_edited_file_is_the_newest() {
    let mut lot = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    let dated = OriginResource::new(small(3)).last_modified("Sun, 06 Nov 1994 08:49:37 GMT");
    let origin = Origin::builder().resource("/f", dated).start().await;
    assert_eq!(lot.get([origin.url("/f")]).await.counts(), (1, 0, 0));
    std::fs::write(lot.path("f"), "edited").unwrap();
    lot.get.existing_file = ExistingFilePolicy::Update;
    lot.get([origin.url("/f")]).await;
    let asked = origin.requests();
    assert_eq!(asked.last().unwrap().header("if-none-match"), None);
}
