//! Row C9: lists from programs that write a line and wait for its result before they write the next.

use std::io::{PipeWriter, Write, pipe};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::list::*;

/// Longer than any entry may take, on a machine that does other things.
const HANG: Duration = Duration::from_secs(20);

/// A list that comes through a pipe, and is read by a thread.
struct PipedList<W: Write> {
    writer: Option<W>,
    entries: Receiver<Result<ListEntry, BadLine>>,
}

impl<W: Write> PipedList<W> {
    fn open(format: Option<ListFormat>, writer: impl FnOnce(PipeWriter) -> W) -> Self {
        let (read, write) = pipe().unwrap();
        let (sender, entries) = channel();
        thread::spawn(move || {
            let file = File::from(OwnedFd::from(read));
            for entry in DownloadList::open_file(file, format, "list") {
                sender.send(entry).unwrap();
            }
        });
        Self {
            writer: Some(writer(write)),
            entries,
        }
    }

    fn write(&mut self, text: &str) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    fn next(&self) -> Result<ListEntry, BadLine> {
        self.entries.recv_timeout(HANG).unwrap()
    }

    fn next_url(&self) -> String {
        self.next().unwrap().url.to_string()
    }
}

/// Writes lines one after the other, each when the entry of the one before has come.
fn assert_each_comes_alone<W: Write>(
    format: Option<ListFormat>,
    writer: impl FnOnce(PipeWriter) -> W,
    first: &str,
    line: impl Fn(&str) -> String,
) {
    let mut list = PipedList::open(format, writer);
    list.write(first);
    for number in 0..4 {
        let url = format!("http://h/{number}");
        list.write(&line(&url));
        assert_eq!(list.next_url(), url, "{format:?} {first:?}");
    }
    drop(list.writer.take());
    assert!(list.entries.recv_timeout(HANG).is_err());
}

#[test]
fn c9_an_entry_does_not_wait_for_the_next_line() {
    let plain = |url: &str| format!("{url}\n");
    let csv = |url: &str| format!("a b,\"{url}\"\n");
    let tsv = |url: &str| format!("{url}\tab\r\n");
    let json = |url: &str| format!("{{\"url\": \"{url}\"}}\n");
    let blank = |url: &str| format!("{url}\n\n# more to come\n");
    assert_each_comes_alone(None, |pipe| pipe, "", plain);
    assert_each_comes_alone(None, |pipe| pipe, "\u{feff}# a list\n\n", blank);
    assert_each_comes_alone(Some(ListFormat::Plain), |pipe| pipe, "", plain);
    assert_each_comes_alone(None, |pipe| pipe, "label,url\n", csv);
    assert_each_comes_alone(None, |pipe| pipe, "url\tlabel\n", tsv);
    assert_each_comes_alone(None, |pipe| pipe, "", json);
    let gzip = |pipe| GzEncoder::new(pipe, Compression::default());
    assert_each_comes_alone(None, gzip, "", plain);
    assert_each_comes_alone(None, gzip, "label,url\n", csv);
    assert_each_comes_alone(None, gzip, "", json);
    let zstd = |pipe| zstd::Encoder::new(pipe, 1).unwrap().auto_finish();
    assert_each_comes_alone(None, zstd, "", plain);
    assert_each_comes_alone(None, zstd, "url\tlabel\n", tsv);
    assert_each_comes_alone(None, zstd, "", json);
}

#[test]
fn c9_a_bad_line_does_not_wait_for_the_next_line() {
    for text in [
        "nonsense\n",
        "ftp://h/x\n",
        "url\nnonsense\n",
        "{\"path\": 1}\n",
    ] {
        let mut list = PipedList::open(None, |pipe| pipe);
        list.write(text);
        assert!(list.next().is_err(), "{text}");
    }
}

#[test]
fn c9_options_belong_to_the_entry_before_them_as_soon_as_there_are_any() {
    let mut list = PipedList::open(None, |pipe| pipe);
    list.write("http://h/0\nhttp://h/1\n  out=1\nhttp://h/2\n");
    assert_eq!(
        (list.next_url(), list.next_url()),
        ("http://h/0".into(), "http://h/1".into())
    );
    // It waits for its options.
    let early = list.entries.recv_timeout(Duration::from_millis(100));
    assert_eq!(early.map(drop), Err(RecvTimeoutError::Timeout));
    list.write("  out=2\n");
    list.write("http://h/3\n");
    assert_eq!(list.next().unwrap().path.as_deref(), Some(Path::new("2")));
    drop(list.writer.take());
    assert_eq!(list.next_url(), "http://h/3");

    let mut given = PipedList::open(Some(ListFormat::Aria2), |pipe| pipe);
    given.write("http://h/0\n");
    let early = given.entries.recv_timeout(Duration::from_millis(100));
    assert_eq!(early.map(drop), Err(RecvTimeoutError::Timeout));
    given.write("  out=0\nhttp://h/1");
    assert_eq!(given.next().unwrap().path.as_deref(), Some(Path::new("0")));
}

#[test]
fn c9_an_option_that_comes_after_its_url_had_begun_is_an_error() {
    let mut list = PipedList::open(None, |pipe| pipe);
    list.write("http://h/0\n");
    assert_eq!(list.next_url(), "http://h/0");
    list.write("  out=0\nhttp://h/1\n");
    assert!(matches!(
        list.next().unwrap_err().problem,
        BadLineProblem::LateOption
    ));
    list.write("  out=1\n");
    drop(list.writer.take());
    assert_eq!(list.next().unwrap().path.as_deref(), Some(Path::new("1")));
}
