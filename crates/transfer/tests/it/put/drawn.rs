//! Uploads to stores that are drawn from a seed: whatever they do, what counts as success is the whole file, and an object that is there is never
//! a mix.

use haul_lab::{Draw, DrawnStore, assert_seeds};
use http::HeaderValue;
use http::header::IF_NONE_MATCH;

use super::{MIB, PutTest, target};
use crate::drawn_origins::download_seeds;

/// The most requests of one upload of four parts: each of them, and each request that begins or ends it, may be repeated.
const MAX_REQUESTS: usize = 150;

/// An object that was there before.
const EARLIER: &[u8] = b"an earlier object";

/// What is wrong with the upload of a file to a drawn store, if something is.
async fn check(seed: u64) -> Result<(), String> {
    let mut draw = Draw::new(seed, 1 << 40);
    let length = draw.one_of(&[0, 1, 1000, 70_000, 70_000, MIB, 5 * MIB + 1, 11 * MIB]);
    let mut test = PutTest::new(DrawnStore::new(seed).start().await);
    let bytes = test.write(length);
    let earlier = draw.percent(30).then_some(EARLIER);
    if let Some(earlier) = earlier {
        test.store.insert(&target().key, earlier);
    }
    let must_be_new = draw.percent(20);
    if must_be_new {
        test.conditions
            .insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    }
    let first = test.put().await;
    let requests = test.store.requests().len();
    if requests > MAX_REQUESTS {
        return Err(format!("{requests} requests"));
    }
    let found = test.object();
    let is_whole = found.as_ref() == Some(&bytes);
    if must_be_new && earlier.is_some() && found.as_deref() != earlier {
        return Err(format!("replaced what should stay: {first:?}"));
    }
    if first.is_ok() && !is_whole {
        return Err(format!("success without the object: {found:?}"));
    }
    if !is_whole && found.as_deref() != earlier {
        let length = found.map(|bytes| bytes.len());
        return Err(format!("an object of {length:?} bytes after {first:?}"));
    }
    // The store recovers.
    test.store.set_rule(|_| None);
    let second = test.put().await;
    let may_be_refused = must_be_new && found.is_some();
    match (second, may_be_refused) {
        (Ok(_), false) if test.object().as_ref() == Some(&bytes) && test.state_files() == 0 => {
            Ok(())
        }
        (Err(_), true) => Ok(()),
        (second, _) => Err(format!("the second upload: {second:?} (first: {first:?})")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn success_is_the_whole_file_whatever_a_store_does() {
    let check = |seed| async move {
        let checked = Box::pin(check(seed)).await.err();
        let text = checked.map(|text| format!("{seed}: {text}: {:?}", DrawnStore::new(seed)));
        text.into_iter().collect()
    };
    assert_seeds(download_seeds(), check).await;
}
