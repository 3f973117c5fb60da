//! What the store or the file does wrong while a file is uploaded.

use haul_lab::{ObjectStore, StoreFault, StoreRequest};
use haul_plan::DigestAlgorithm;
use haul_s3::S3Address;
use haul_transfer::put::{PutError, UploadJob};
use haul_transfer::{ErrorClass, TransferEvent};
use http::HeaderValue;
use http::header::IF_NONE_MATCH;

use super::{MIB, PutTest, touch};

/// A fault for the first request that matches.
fn once(
    is_match: impl Fn(&StoreRequest) -> bool + Send + 'static,
    fault: StoreFault,
) -> impl FnMut(&StoreRequest) -> Option<StoreFault> + Send + 'static {
    let mut left = 1;
    move |request| {
        let is_now = left > 0 && is_match(request);
        left -= usize::from(is_now);
        is_now.then_some(fault)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_every_size_arrive_as_they_are() {
    for length in [0, 1, 5 * MIB, 5 * MIB + 1, 16 * MIB + 3] {
        let test = PutTest::new(ObjectStore::start().await);
        let bytes = test.write(length);
        let outcome = test.put().await.unwrap();
        assert_eq!(test.object().unwrap(), bytes, "{length}");
        assert_eq!(outcome.bytes, length as u64);
        assert_eq!(
            outcome.parts,
            if length > 5 * MIB {
                u32::try_from(length.div_ceil(5 * MIB)).unwrap()
            } else {
                0
            }
        );
        assert_eq!((test.store.pending_uploads(), test.state_files()), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f8_each_request_has_a_checksum_in_its_header() {
    let test = PutTest::new(ObjectStore::start().await);
    test.write(11 * MIB);
    test.put().await.unwrap();
    let has_checksum = |request: &StoreRequest| {
        request.headers.contains_key("x-amz-checksum-crc64nvme")
            && !request.headers.contains_key("content-encoding")
            && !request.headers.contains_key("transfer-encoding")
    };
    assert_eq!(
        test.store
            .count(|request| request.is_part() && has_checksum(request)),
        3
    );
    assert_eq!(
        test.store
            .count(|request| request.is_complete() && has_checksum(request)),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn f8_a_store_that_refuses_checksums_gets_md5_digests() {
    for length in [MIB, 11 * MIB] {
        let test = PutTest::new(ObjectStore::start().await);
        test.store.refuse_checksums();
        let bytes = test.write(length);
        test.put().await.unwrap();
        assert_eq!(test.object().unwrap(), bytes);
        let has_digest = |request: &StoreRequest| request.headers.contains_key("content-md5");
        assert!(test.store.count(has_digest) > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f8_files_that_are_refused_at_the_same_time_all_get_md5_digests() {
    let test = PutTest::new(ObjectStore::start().await);
    test.store.refuse_checksums();
    test.write(MIB);
    let (engine, mut events) = test.engine().await;
    let mut uploads = tokio::task::JoinSet::new();
    for number in 0..20 {
        let job = UploadJob {
            target: S3Address::new("bucket", format!("key-{number}")).into(),
            ..test.job()
        };
        let (engine, stop) = (engine.clone(), test.stop.clone());
        uploads.spawn(async move { Box::pin(engine.put(job, stop)).await.unwrap() });
    }
    uploads.join_all().await;
    assert_eq!(test.store.keys().len(), 20);
    let warnings = std::iter::from_fn(|| events.try_recv().ok())
        .filter(|event| matches!(event, TransferEvent::Warning { .. }));
    assert_eq!(warnings.count(), 1);
}

/// S3 refuses two checksums of one request.
#[tokio::test(flavor = "multi_thread")]
async fn f8_a_checksum_that_the_user_wants_goes_out_alone() {
    for length in [MIB, 11 * MIB] {
        let mut test = PutTest::new(ObjectStore::start().await);
        test.options.checksum = Some(DigestAlgorithm::Sha256);
        let bytes = test.write(length);
        test.put().await.unwrap();
        assert_eq!(test.object().unwrap(), bytes);
        let fields = |request: &StoreRequest| {
            let names = request.headers.keys();
            let is_checksum = |name: &&String| {
                name.starts_with("x-amz-checksum-") && *name != "x-amz-checksum-algorithm"
            };
            names.filter(is_checksum).cloned().collect::<Vec<_>>()
        };
        for request in test.store.requests() {
            if request.method == "PUT" {
                assert_eq!(fields(&request), ["x-amz-checksum-sha256"]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_an_error_in_a_200_is_an_error_and_asked_again() {
    for fault in [
        StoreFault::ErrorIn200("InternalError"),
        StoreFault::CutDocument,
    ] {
        let store = ObjectStore::start_with(once(StoreRequest::is_complete, fault)).await;
        let test = PutTest::new(store);
        let bytes = test.write(11 * MIB);
        test.put().await.unwrap();
        assert_eq!(test.object().unwrap(), bytes);
        assert_eq!(test.store.count(StoreRequest::is_complete), 2);
    }
    let fault = StoreFault::ErrorIn200("AccessDenied");
    let test = PutTest::new(ObjectStore::start_with(once(StoreRequest::is_complete, fault)).await);
    test.write(11 * MIB);
    assert!(test.put().await.is_err());
    assert_eq!(test.store.count(StoreRequest::is_complete), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn f2_a_complete_whose_response_was_lost_is_looked_up() {
    let fault = StoreFault::LostResponse;
    let test = PutTest::new(ObjectStore::start_with(once(StoreRequest::is_complete, fault)).await);
    let bytes = test.write(11 * MIB);
    let outcome = test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
    assert_eq!(
        outcome.etag,
        test.store.object(&super::target().key).unwrap().etag
    );
}

/// A store may take the upload away at once and have the object a while later. It gets one Complete.
#[tokio::test(flavor = "multi_thread")]
async fn a47_a_store_that_is_still_joining_the_parts_gets_no_second_complete() {
    let (mut completes, mut looks) = (0, 0);
    let rule = move |request: &StoreRequest| {
        completes += u32::from(request.is_complete());
        looks += u32::from(request.method == "HEAD");
        match request.method.as_str() {
            "HEAD" if looks <= 4 => Some(StoreFault::Error(404, "NoSuchKey")),
            _ if request.is_complete() && completes == 1 => Some(StoreFault::LostResponse),
            _ => None,
        }
    };
    let test = PutTest::new(ObjectStore::start_with(rule).await);
    // An older object of the same key is none of this upload.
    test.store.insert(&super::target().key, &vec![1; 11 * MIB]);
    let bytes = test.write(11 * MIB);
    test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
    assert_eq!(test.store.count(StoreRequest::is_complete), 1);
    assert_eq!(test.store.count(|request| request.method == "HEAD"), 5);
    assert_eq!((test.store.pending_uploads(), test.state_files()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a47_a_complete_that_never_arrived_is_sent_again() {
    let test = PutTest::new(
        ObjectStore::start_with(once(StoreRequest::is_complete, StoreFault::Reset)).await,
    );
    // The object of an earlier upload has the same content, and yet this one is to be published.
    let bytes = test.write(11 * MIB);
    test.store.insert(&super::target().key, &bytes);
    test.put().await.unwrap();
    let lists =
        |request: &StoreRequest| request.method == "GET" && request.query.contains_key("uploadId");
    assert_eq!(test.store.count(StoreRequest::is_complete), 2);
    assert_eq!(test.store.count(lists), 1);
    assert_eq!((test.store.pending_uploads(), test.state_files()), (0, 0));
}

/// Who may upload need not be allowed to list parts.
#[tokio::test(flavor = "multi_thread")]
async fn a47_a_lost_complete_is_looked_up_without_the_right_to_list_parts() {
    for fault in [StoreFault::LostResponse, StoreFault::Reset] {
        let mut has_failed = false;
        let rule = move |request: &StoreRequest| {
            if request.is_complete() && !std::mem::replace(&mut has_failed, true) {
                return Some(fault);
            }
            let lists = request.method == "GET" && request.query.contains_key("uploadId");
            lists.then_some(StoreFault::Error(403, "AccessDenied"))
        };
        let test = PutTest::new(ObjectStore::start_with(rule).await);
        let bytes = test.write(11 * MIB);
        test.put().await.unwrap();
        assert_eq!(test.object().unwrap(), bytes);
        let expected = match fault {
            StoreFault::Reset => 2,
            _ => 1,
        };
        assert_eq!(test.store.count(StoreRequest::is_complete), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f2_another_object_under_the_key_is_no_success() {
    // The upload is gone and the object is another one.
    let mut has_failed = false;
    let rule = move |request: &StoreRequest| {
        if !request.is_complete() {
            return None;
        }
        if std::mem::replace(&mut has_failed, true) {
            Some(StoreFault::Error(404, "NoSuchUpload"))
        } else {
            Some(StoreFault::Error(500, "InternalError"))
        }
    };
    let test = PutTest::new(ObjectStore::start_with(rule).await);
    test.store.insert(&super::target().key, &vec![1; 11 * MIB]);
    test.write(11 * MIB);
    let error = test.put().await.unwrap_err();
    assert!(
        matches!(&error, PutError::Store(error) if error.code() == "NoSuchUpload"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_a_busy_store_is_asked_again_with_fewer_requests() {
    let mut refusals = 0;
    let rule = move |request: &StoreRequest| {
        let is_refused = request.is_part() && refusals < 3;
        refusals += usize::from(is_refused);
        is_refused.then_some(StoreFault::Error(503, "SlowDown"))
    };
    let test = PutTest::new(ObjectStore::start_with(rule).await);
    let bytes = test.write(31 * MIB);
    test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_what_will_not_heal_is_not_asked_again() {
    for (status, code) in [
        (403, "AccessDenied"),
        (400, "InvalidRequest"),
        (404, "NoSuchBucket"),
    ] {
        let rule = move |_: &StoreRequest| Some(StoreFault::Error(status, code));
        let test = PutTest::new(ObjectStore::start_with(rule).await);
        test.write(MIB);
        let error = test.put().await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Network);
        // A refused checksum is tried without one.
        assert!(test.store.requests().len() <= 2, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resets_and_lost_responses_cost_requests_and_no_object() {
    for fault in [
        StoreFault::Reset,
        StoreFault::LostResponse,
        StoreFault::Error(500, "InternalError"),
    ] {
        let mut number = 0;
        let rule = move |request: &StoreRequest| {
            number += 1;
            (number % 3 == 0 && request.method == "PUT").then_some(fault)
        };
        let test = PutTest::new(ObjectStore::start_with(rule).await);
        let bytes = test.write(23 * MIB);
        test.put().await.unwrap();
        assert_eq!(test.object().unwrap(), bytes, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_checksum_in_a_response_ends_the_upload() {
    for length in [MIB, 11 * MIB] {
        let rule = |request: &StoreRequest| {
            let is_last = request.is_complete() || request.method == "PUT";
            is_last.then_some(StoreFault::OtherChecksum)
        };
        let test = PutTest::new(ObjectStore::start_with(rule).await);
        test.write(length);
        let error = test.put().await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Verification, "{error}");
        assert_eq!(test.store.pending_uploads(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f12_a_file_that_changes_meanwhile_is_not_published() {
    let test = PutTest::new(ObjectStore::start().await);
    test.write(11 * MIB);
    let path = test.path();
    let mut is_done = false;
    test.store.set_rule(move |request| {
        if request.is_part() && !std::mem::replace(&mut is_done, true) {
            touch(&path);
        }
        None
    });
    let error = test.put().await.unwrap_err();
    assert!(matches!(error, PutError::Changed { .. }), "{error}");
    assert_eq!(error.class(), ErrorClass::Verification);
    assert_eq!(test.object(), None);
    assert_eq!((test.store.pending_uploads(), test.state_files()), (0, 0));
}

/// One request, which is done when the change is noticed.
#[tokio::test(flavor = "multi_thread")]
async fn f12_a_file_of_one_request_that_changes_meanwhile_is_not_said_to_be_absent() {
    let test = PutTest::new(ObjectStore::start().await);
    test.write(MIB);
    let path = test.path();
    test.store.set_rule(move |_| {
        touch(&path);
        None
    });
    let error = test.put().await.unwrap_err();
    assert!(
        matches!(error, PutError::ChangedAfterwards { .. }),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Verification);
    assert!(test.object().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn f23_an_object_that_exists_stays() {
    for length in [MIB, 11 * MIB] {
        let mut test = PutTest::new(ObjectStore::start().await);
        test.conditions
            .insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        let bytes = test.write(length);
        test.put().await.unwrap();
        test.write(length + 1);
        let error = test.put().await.unwrap_err();
        assert!(matches!(error, PutError::Condition { .. }), "{error}");
        assert!(error.to_string().contains("exists already"));
        assert_eq!(test.object().unwrap(), bytes);
        assert_eq!(test.store.pending_uploads(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f23_a_conflict_of_conditional_requests_is_tried_again() {
    let fault = StoreFault::Error(409, "ConditionalRequestConflict");
    let test =
        PutTest::new(ObjectStore::start_with(once(|request| request.method == "PUT", fault)).await);
    let bytes = test.write(MIB);
    test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn f2_a_conditional_upload_whose_response_was_lost_is_looked_up() {
    let fault = StoreFault::LostResponse;
    let is_put = |request: &StoreRequest| request.method == "PUT";
    let mut test = PutTest::new(ObjectStore::start_with(once(is_put, fault)).await);
    test.conditions
        .insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    let bytes = test.write(MIB);
    test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
    // Another object of the same size is no success.
    test.store.insert(&super::target().key, &vec![1; MIB]);
    test.store.set_rule(once(is_put, fault));
    let error = test.put().await.unwrap_err();
    assert!(matches!(error, PutError::Condition { .. }), "{error}");
}

/// The second Complete finds the object that the first has made.
#[tokio::test(flavor = "multi_thread")]
async fn f2_a_conditional_complete_whose_response_was_lost_is_looked_up() {
    let mut faults = [
        StoreFault::LostResponse,
        StoreFault::Error(412, "PreconditionFailed"),
    ]
    .into_iter();
    let rule = move |request: &StoreRequest| {
        if request.is_complete() {
            faults.next()
        } else {
            None
        }
    };
    let mut test = PutTest::new(ObjectStore::start_with(rule).await);
    test.conditions
        .insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    let bytes = test.write(11 * MIB);
    test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
    assert_eq!((test.store.pending_uploads(), test.state_files()), (0, 0));
}

/// Without a CRC-64 the MD5 that went out tells whose object it is.
#[tokio::test(flavor = "multi_thread")]
async fn f2_a_lost_response_of_a_store_without_checksums_is_looked_up() {
    let mut test = PutTest::new(ObjectStore::start().await);
    test.store.refuse_checksums();
    let has_digest = |request: &StoreRequest| request.headers.contains_key("content-md5");
    test.store.set_rule(once(has_digest, StoreFault::CutHead));
    test.conditions
        .insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    let bytes = test.write(MIB);
    test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn f7_entity_tags_that_are_no_md5s_are_not_compared_with_any() {
    for (length, refuses_checksums) in [
        (MIB, false),
        (MIB, true),
        (11 * MIB, false),
        (11 * MIB, true),
    ] {
        let test = PutTest::new(ObjectStore::start().await);
        test.store.make_etags_opaque();
        if refuses_checksums {
            test.store.refuse_checksums();
        }
        let bytes = test.write(length);
        let outcome = test.put().await.unwrap();
        let object = test.store.object(&super::target().key).unwrap();
        assert_eq!((&object.bytes, &object.etag), (&bytes, &outcome.etag));
        assert_eq!((test.store.pending_uploads(), test.state_files()), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f7_a_lost_complete_is_looked_up_by_its_checksum_where_the_tag_is_no_md5() {
    let fault = StoreFault::LostResponse;
    let test = PutTest::new(ObjectStore::start_with(once(StoreRequest::is_complete, fault)).await);
    test.store.make_etags_opaque();
    let bytes = test.write(11 * MIB);
    test.put().await.unwrap();
    assert_eq!(test.object().unwrap(), bytes);
    let parts = test.store.count(StoreRequest::is_part);
    assert_eq!(parts, 3, "nothing was sent again");
}
