//! A store for one test: a folder of its own and `haul serve` of it.

use std::path::PathBuf;

use crate::cli::harness::{HaulDirectory, RunningHaul};

/// A running store. It ends with the test.
pub(crate) struct FileOrigin {
    haul: HaulDirectory,
    /// With no slash at its end.
    url: String,
    _running: RunningHaul,
}

impl FileOrigin {
    /// Serves what `fill` puts into the folder.
    pub(crate) async fn start(flags: &[&str], fill: impl FnOnce(PathBuf)) -> Self {
        let haul = HaulDirectory::new();
        std::fs::create_dir(haul.path("files")).unwrap();
        fill(haul.path("files"));
        let mut running = haul.start(&[&["serve", "files", "-l", "127.0.0.1:0"], flags].concat());
        let line = running.wait_for_line("127.0.0.1:").await;
        let port = line.split_once("127.0.0.1:").unwrap().1;
        let digits: String = port.chars().take_while(char::is_ascii_digit).collect();
        let url = format!("http://127.0.0.1:{digits}");
        Self {
            haul,
            url,
            _running: running,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    /// With a login in it, as people type it.
    pub(crate) fn url_as(&self, login: &str, path: &str) -> String {
        self.url(path).replacen("//", &format!("//{login}@"), 1)
    }

    /// A place in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.haul.path("files").join(name)
    }

    /// A file outside it, to be uploaded.
    pub(crate) fn with_owner(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.haul.path("own").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}
