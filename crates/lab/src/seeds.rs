//! Tests of many seeds: `HAUL_SEEDS=FIRST..END` runs others than the usual ones, as many as there is time for.

use tokio::task::JoinSet;

/// Checks at the same time.
const AT_ONCE: usize = 8;

/// The seeds of a test: those that the environment names, or the usual ones.
///
/// # Panics
///
/// If `HAUL_SEEDS` is not two numbers with `..` between them.
pub fn seeds(usual: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let Ok(text) = std::env::var("HAUL_SEEDS") else {
        return usual.into_iter().collect();
    };
    let (first, end) = text.split_once("..").expect("FIRST..END");
    (first.parse().expect("a number")..end.parse().expect("a number")).collect()
}

/// Checks seeds, some at the same time. A check returns what is wrong.
///
/// # Panics
///
/// If anything is wrong: with all of it.
pub async fn assert_seeds<F>(seeds: impl IntoIterator<Item = u64>, check: impl Fn(u64) -> F)
where
    F: Future<Output = Vec<String>> + Send + 'static,
{
    let (mut running, mut wrong) = (JoinSet::new(), Vec::new());
    for seed in seeds {
        if running.len() >= AT_ONCE
            && let Some(done) = running.join_next().await
        {
            wrong.extend(done.expect("a check that panics fails its test"));
        }
        running.spawn(check(seed));
    }
    wrong.extend(running.join_all().await.into_iter().flatten());
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
