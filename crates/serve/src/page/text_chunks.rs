//! Renders lines of text in chunks of some 64 KiB.

use bytes::Bytes;

/// Bytes after which a chunk is complete. Lines are much shorter, so it is not much longer.
const CHUNK_BYTES: usize = 64 * 1024;

/// Writes each line with `write`, and returns the text in chunks.
pub(super) fn text_chunks<L>(
    lines: impl Iterator<Item = L>,
    mut write: impl FnMut(&mut String, L),
) -> impl Iterator<Item = Bytes> {
    let mut lines = lines.fuse();
    std::iter::from_fn(move || {
        let mut text = String::new();
        for line in lines.by_ref() {
            write(&mut text, line);
            if text.len() >= CHUNK_BYTES {
                break;
            }
        }
        (!text.is_empty()).then(|| Bytes::from(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_full_and_nothing_is_lost() {
        let lines = 0..20_000;
        let all: Vec<Bytes> = text_chunks(lines.clone(), |out, line| {
            out.push_str(&line.to_string());
            out.push('\n');
        })
        .collect();
        assert_eq!(all.len(), 2);
        assert!((CHUNK_BYTES..CHUNK_BYTES + 10).contains(&all[0].len()));
        let model: String = lines.map(|line| format!("{line}\n")).collect();
        assert_eq!(all.concat(), model.as_bytes());
        assert_eq!(text_chunks(0..0, |_, _: i32| {}).count(), 0);
    }
}
