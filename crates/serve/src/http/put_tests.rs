//! What an upload holds of its peer's making.

use super::*;

/// A body in pieces of this many bytes, without end.
struct Drips(Bytes);

impl Source for Drips {
    async fn next(&mut self) -> Result<Option<Bytes>, PutError> {
        Ok(Some(self.0.clone()))
    }

    fn is_over(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_load_of_many_small_pieces_is_few() {
    for piece in [1, 2, 100] {
        let mut intake = Intake {
            source: Drips(Bytes::from(vec![b'x'; piece])),
            left: u64::MAX,
            is_over: false,
        };
        let load = intake.load(LOAD).await.expect("a load");
        let bytes: usize = load.iter().map(Bytes::len).sum();
        assert!((LOAD..LOAD + piece).contains(&bytes), "{bytes}");
        assert_eq!(load.len(), 1);
    }
}
