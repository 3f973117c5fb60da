//! One source alone, after the digest of a whole that several brought was wrong: nobody can tell whose bytes were bad, so nothing of
//! it is used, and each source that the user named brings everything by itself, until one is right or all were tried.
//!
//! Those that wait are on the bench: they live no more for whoever asks, and are no failures. One that was tried is dropped.

use super::{RequestFailure, SourceSet};

/// Breaks in a row of one source of a small file, after which the next one is asked: once may be an accident.
const BREAKS: u32 = 2;

impl SourceSet {
    /// The digest of the whole is wrong, `why` in words: the source that is to bring everything, from the first byte on, and alone.
    /// `None` when all that the user named were tried. `source` was asked where only one is; `earlier`: an earlier run left some of it.
    pub fn on_wrong_whole(&mut self, source: usize, earlier: bool, why: &str) -> Option<usize> {
        let pieces = self.meant.as_ref().is_some_and(|m| m.evidence.pieces);
        // Where every piece is right, the one digest contradicts the others, and no source can help that.
        if self.sources.len() < 2 || pieces {
            return None;
        }
        let numbered = self.sources.iter_mut().enumerate();
        let mut by: Vec<usize> = numbered
            .filter_map(|(number, one)| std::mem::take(&mut one.delivered).then_some(number))
            .collect();
        if by.is_empty() {
            by.push(source);
        }
        if let ([only], false) = (&by[..], earlier) {
            self.drop_source(*only, why);
        }
        for one in &mut self.sources {
            one.benched |= one.dropped.is_none();
        }
        self.recall()
    }

    /// Nobody is left who is asked: calls the next one that was named from the bench. From now on one alone brings the file.
    pub fn recall(&mut self) -> Option<usize> {
        let waits = self.sources.iter().position(|s| s.benched && s.named)?;
        self.alone = true;
        let next = &mut self.sources[waits];
        (next.benched, next.strikes) = (false, 0);
        Some(waits)
    }
}

/// Whether a file that comes whole or not at all is asked for elsewhere after so many failures in a row of one source, because this one
/// was a break: it began to answer, or did not, and brought too little. What a source says in an answer is its word, and is not
/// doubted here.
#[must_use]
pub fn breaks_enough(trouble: RequestFailure, failures: u32) -> bool {
    let broke = matches!(
        trouble,
        RequestFailure::Transport { .. } | RequestFailure::Garbled
    );
    broke && failures >= BREAKS
}
