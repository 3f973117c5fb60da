//! Uploads that end before their end, and what the next run does.

use haul_lab::{ObjectStore, StoreFault, StoreRequest, within};
use haul_plan::DigestAlgorithm;
use haul_transfer::ConnectionCount;
use haul_transfer::TransferEvent;
use haul_transfer::put::PutError;
use http::{HeaderName, HeaderValue};

use super::{LIMIT, MIB, PutTest, touch};

/// Fails every part above a number, for good.
fn fail_parts_above(
    number: u32,
) -> impl FnMut(&StoreRequest) -> Option<StoreFault> + Send + 'static {
    move |request| {
        let part: u32 = request.query.get("partNumber")?.parse().ok()?;
        (part > number).then_some(StoreFault::Error(403, "AccessDenied"))
    }
}

/// A test whose first run has left the first `parts` of seven parts at the store.
async fn interrupted(parts: u32) -> (PutTest, Vec<u8>) {
    let mut test = PutTest::new(ObjectStore::start_with(fail_parts_above(parts)).await);
    // One after the other: when one fails, all before it are there, and no other is under way.
    test.options.connections = ConnectionCount::Fixed(1);
    let bytes = test.write(31 * MIB);
    assert!(test.put().await.is_err());
    assert_eq!((test.store.pending_uploads(), test.state_files()), (1, 1));
    test.store.set_rule(|_| None);
    (test, bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_the_next_run_sends_only_what_is_missing() {
    for parts in [0, 1, 4, 6] {
        let (test, bytes) = interrupted(parts).await;
        let outcome = test.put().await.unwrap();
        assert_eq!(test.object().unwrap(), bytes);
        assert_eq!(outcome.resumed, u64::from(parts) * 5 * MIB as u64);
        for number in 1..=parts {
            assert_eq!(test.sent(number), 1, "part {number} of {parts}");
        }
        assert_eq!((test.store.pending_uploads(), test.state_files()), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_list_of_parts_is_read_in_all_its_pages() {
    let (test, bytes) = interrupted(5).await;
    test.store.set_page_size(1);
    let outcome = test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
    assert_eq!(outcome.resumed, 5 * 5 * MIB as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_part_that_is_not_ours_is_sent_again() {
    let (test, bytes) = interrupted(5).await;
    test.store.change_part(1);
    test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
    assert_eq!(test.sent(1), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn f12_an_upload_that_the_store_forgot_begins_anew() {
    let (test, bytes) = interrupted(4).await;
    test.store.forget_uploads();
    let outcome = test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
    assert_eq!(outcome.resumed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn f12_a_file_that_changed_between_two_runs_begins_anew() {
    let (test, _) = interrupted(4).await;
    let mut bytes = test.write(31 * MIB);
    bytes[0] ^= 1;
    std::fs::write(test.path(), &bytes).unwrap();
    touch(&test.path());
    let outcome = test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
    assert_eq!((outcome.resumed, test.store.pending_uploads()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn f12_an_upload_of_another_kind_of_object_begins_anew() {
    let colour = HeaderName::from_static("x-amz-meta-colour");
    let (mut test, bytes) = interrupted(4).await;
    test.headers
        .insert(&colour, HeaderValue::from_static("red"));
    let outcome = test.put().await.unwrap();
    let object = test.store.object(&super::target().key).unwrap();
    assert_eq!(object.bytes, bytes);
    assert_eq!(object.headers[colour.as_str()], "red");
    assert_eq!((outcome.resumed, test.store.pending_uploads()), (0, 0));
    let (mut test, _) = interrupted(4).await;
    test.options.checksum = Some(DigestAlgorithm::Sha256);
    assert_eq!(test.put().await.unwrap().resumed, 0);
    assert_eq!(test.store.pending_uploads(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn f13_abort_removes_what_was_sent() {
    let (test, _) = interrupted(4).await;
    assert!(test.abort().await);
    assert_eq!((test.store.pending_uploads(), test.state_files()), (0, 0));
    assert!(!test.abort().await, "there is nothing left");
}

/// Parts that come back after every abort: the journal stays, and the error names the upload.
#[tokio::test(flavor = "multi_thread")]
async fn f13_an_abort_that_leaves_parts_fails() {
    let (test, _) = interrupted(4).await;
    let mut is_left = 2;
    test.store.set_rule(move |request| {
        let is_abort = request.method == "DELETE" && is_left > 0;
        is_left -= usize::from(is_abort);
        is_abort.then_some(StoreFault::Ignored)
    });
    assert!(test.abort().await, "the third round is enough");
    assert_eq!((test.store.pending_uploads(), test.state_files()), (0, 0));
    let (test, _) = interrupted(4).await;
    test.store
        .set_rule(|request| (request.method == "DELETE").then_some(StoreFault::Ignored));
    let (engine, _events) = test.engine().await;
    let aborted = engine.abort(&test.path(), &super::target(), false).await;
    let error = aborted.unwrap_err();
    assert!(error.to_string().contains("upload-1"), "{error}");
    assert_eq!((test.store.pending_uploads(), test.state_files()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_resume_a_failure_leaves_nothing() {
    let mut test = PutTest::new(ObjectStore::start_with(fail_parts_above(4)).await);
    test.options.resume = false;
    test.write(31 * MIB);
    assert!(test.put().await.is_err());
    assert_eq!((test.store.pending_uploads(), test.state_files()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_upload_is_kept_and_says_so() {
    let test = PutTest::new(ObjectStore::start().await);
    let bytes = test.write(31 * MIB);
    let stop = test.stop.clone();
    test.store.set_rule(move |request| {
        if request
            .query
            .get("partNumber")
            .is_some_and(|number| number == "3")
        {
            stop.cancel();
        }
        None
    });
    let error = test.put().await.unwrap_err();
    assert!(
        matches!(error, PutError::Interrupted { is_resumable: true }),
        "{error}"
    );
    let again = PutTest {
        stop: tokio_util::sync::CancellationToken::new(),
        ..test
    };
    again.put().await.unwrap();
    assert_eq!(again.object().unwrap(), bytes);
}

/// Uploads, and returns the warnings.
async fn put_with_warnings(test: &PutTest) -> Vec<String> {
    let (engine, mut events) = test.engine().await;
    let upload = Box::pin(engine.put(test.job(), test.stop.clone()));
    within(LIMIT, upload).await.unwrap();
    std::iter::from_fn(|| events.try_recv().ok())
        .filter_map(|event| match event {
            TransferEvent::Warning { warning, .. } => Some(warning.to_string()),
            _ => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_where_nothing_can_be_remembered_the_upload_works_under_a_warning() {
    let mut test = PutTest::new(ObjectStore::start().await);
    let bytes = test.write(31 * MIB);
    // A file is where the directory would be: not even root can write below it.
    for directory in [Some(test.path().join("state")), None] {
        test.options.state_directory = directory;
        let warnings = put_with_warnings(&test).await;
        assert_eq!(test.object().unwrap(), bytes);
        assert!(
            matches!(&warnings[..], [text] if text.contains("start again from its beginning")),
            "{warnings:?}"
        );
    }
    test.options.resume = false;
    assert!(put_with_warnings(&test).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_a_journal_that_cannot_be_written_fails_no_upload() {
    for is_resumed in [true, false] {
        let (test, bytes) = interrupted(4).await;
        test.block_new_journals();
        if !is_resumed {
            assert!(test.abort().await);
        }
        let warnings = put_with_warnings(&test).await;
        assert!(
            matches!(&warnings[..], [text] if text.contains("cannot write ")),
            "{warnings:?}"
        );
        assert_eq!(test.object().unwrap(), bytes);
        let sent_again = if is_resumed { 1 } else { 2 };
        assert_eq!(test.sent(1), sent_again);
        assert_eq!(test.store.pending_uploads(), 0);
    }
}
