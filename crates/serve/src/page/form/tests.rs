//! Forms as browsers send them, whole and truncated.

use std::convert::Infallible;

use futures_util::stream;

use super::*;

const TYPE: &str = "multipart/form-data; boundary=XX";

type TestChunks = stream::Iter<std::vec::IntoIter<Result<Bytes, Infallible>>>;

fn form(body: &[u8], len: usize) -> FormReader<TestChunks> {
    let chunks: Vec<_> = body
        .chunks(len)
        .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
        .collect();
    let folder = ObjectKey::parse("/in/").expect("a key").key;
    FormReader::new(TYPE, folder, stream::iter(chunks)).expect("a form")
}

/// Reads all files of a form, as far as it goes.
async fn read(mut form: FormReader<TestChunks>) -> (Vec<(String, Vec<u8>)>, Option<FormError>) {
    let mut files = Vec::new();
    loop {
        let key = match form.next_file().await {
            Ok(Some(key)) => key,
            Ok(None) => return (files, None),
            Err(error) => return (files, Some(error)),
        };
        let mut bytes = Vec::new();
        loop {
            match form.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return (files, Some(error)),
            }
        }
        files.push((key.escaped(), bytes));
    }
}

fn part(disposition: &str, content: &[u8]) -> Vec<u8> {
    let head = format!(
        "--XX\r\nContent-Disposition: form-data; {disposition}\r\nContent-Type: application/octet-stream\r\n\r\n"
    );
    [head.as_bytes(), content, b"\r\n"].concat()
}

/// Three files, a field, and the part of an input in which no file was chosen.
fn body() -> Vec<u8> {
    [
        part("name=\"file\"; filename=\"a.txt\"", b"first\r\n--XY"),
        part("name=\"note\"", b"no file"),
        part("name=\"file\"; filename=\"\"", b""),
        part("name=\"file\"; filename=\"ä %22.bin\"", &[0, 255, 13, 10]),
        part("name=\"file\"; filename=\"empty\"", b""),
        b"--XX--\r\n".to_vec(),
    ]
    .concat()
}

#[tokio::test]
async fn form_files_are_read_whatever_the_chunk_size() {
    let expected = [
        ("/in/a.txt".to_owned(), b"first\r\n--XY".to_vec()),
        ("/in/%C3%A4%20%22.bin".to_owned(), vec![0, 255, 13, 10]),
        ("/in/empty".to_owned(), Vec::new()),
    ];
    for len in [1, 2, 7, 100_000] {
        let (files, error) = read(form(&body(), len)).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(files, expected, "in pieces of {len}");
    }
}

#[tokio::test]
async fn d3_a_form_truncated_at_any_byte_is_an_error() {
    let body = body();
    // The last line end is not needed.
    for end in 0..body.len() - 2 {
        let (files, error) = read(form(&body[..end], 64)).await;
        assert!(
            matches!(error, Some(FormError::Truncated)),
            "{end}: {error:?}"
        );
        // The files before it were complete.
        assert!(files.len() <= 3);
        let (whole, _) = read(form(&body, 64)).await;
        assert_eq!(files[..], whole[..files.len()]);
    }
}

#[tokio::test]
async fn files_can_be_skipped() {
    let mut form = form(&body(), 5);
    let mut keys = Vec::new();
    while let Some(key) = form.next_file().await.expect("a form") {
        keys.push(key.escaped());
    }
    assert_eq!(keys.len(), 3);
    assert!(form.chunk().await.expect("over").is_none());
    assert!(form.next_file().await.expect("over").is_none());
}

#[tokio::test]
async fn d1_form_file_names_that_are_no_keys_are_refused() {
    for name in ["..", "a/..", "x\0y"] {
        let body = part(&format!("name=\"file\"; filename=\"{name}\""), b"x");
        let (files, error) = read(form(&body, 999)).await;
        assert!(files.is_empty());
        assert!(
            matches!(
                error,
                Some(FormError::FileName(_) | FormError::Malformed(_))
            ),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn too_many_parts_are_refused() {
    let mut body = part("name=\"n\"", b"").repeat(MAX_PARTS);
    let mut more = body.clone();
    body.extend_from_slice(b"--XX--");
    assert!(read(form(&body, 9999)).await.1.is_none());
    more.extend_from_slice(&part("name=\"n\"", b""));
    assert!(matches!(
        read(form(&more, 9999)).await.1,
        Some(FormError::TooManyParts)
    ));
}

#[tokio::test]
async fn errors_of_the_body_are_passed_on() {
    let chunks = stream::iter([Err::<Bytes, _>(std::io::Error::other("reset"))]);
    let mut form = FormReader::new(TYPE, ObjectKey::root(), chunks).expect("a form");
    let error = form.next_file().await.expect_err("it broke");
    assert!(matches!(&error, FormError::Body(source) if source.to_string() == "reset"));
    let none = FormReader::new(
        "text/plain",
        ObjectKey::root(),
        stream::iter([Ok::<_, Infallible>(Bytes::new())]),
    );
    assert!(matches!(none, Err(FormError::NotAForm)));
}
