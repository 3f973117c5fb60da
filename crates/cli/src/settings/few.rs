//! A few downloads that are watched one by one: what the URLs and Metalink documents come to.

use std::collections::HashSet;

use haul_plan::metalink::MetalinkFile;
use haul_transfer::{Job, Output};
use url::Url;

use super::SettingError;
use crate::args::GetArgs;
use crate::sources::{Source, Sources};

/// More mirrors of one file are a mistake.
const MIRRORS: usize = 256;

/// One a URL, or one of all of them; and one a file that a document names.
pub(super) fn jobs(args: &GetArgs, sources: Vec<Source>) -> Result<Vec<Job>, SettingError> {
    let mut files = Vec::new();
    let mut named = Vec::new();
    for source in sources {
        match source {
            Source::Metalink(document) => files.extend(document),
            source => named.push(source),
        }
    }
    let urls = urls(named)?;
    if args.output.file.is_some() && urls.len() > 1 && !args.batch.mirror {
        return Err(several());
    }
    named_once(&urls)?;
    let typed = urls.clone();
    let mut jobs: Vec<Job> = match args.batch.mirror {
        true => mirrored(args, urls).into_iter().collect(),
        false => urls.into_iter().map(|url| plain(args, url)).collect(),
    };
    jobs.extend(
        files
            .into_iter()
            .filter_map(|file| documented(args, file, &typed)),
    );
    for (id, job) in (0..).zip(&mut jobs) {
        job.id = id;
    }
    Ok(jobs)
}

/// All URLs: with mirrors of one file there may be more than downloads that anybody would watch.
fn urls(named: Vec<Source>) -> Result<Vec<Url>, SettingError> {
    let mut urls = Vec::new();
    for entry in Sources::new(named) {
        let entry = entry.map_err(|bad| SettingError::new("a URL cannot be used").because(bad))?;
        if urls.len() > MIRRORS {
            return Err(SettingError::new(format!(
                "there are more than {MIRRORS} mirrors"
            )));
        }
        urls.push(entry.url);
    }
    Ok(urls)
}

/// What `-o` says of several.
pub(super) fn several() -> SettingError {
    SettingError::new("-o names one file, but there are several URLs")
        .hint("-d DIR takes them all, --mirror makes one file of them")
}

/// A URL named twice comes to one file twice. Different URLs may do so too, but what names the origin gives them is not known
/// yet.
fn named_once(urls: &[Url]) -> Result<(), SettingError> {
    let mut seen = HashSet::new();
    for url in urls {
        let mut bare = url.clone();
        // It never reaches the origin.
        bare.set_fragment(None);
        if !seen.insert(bare) {
            let shown = haul_net::shown(url);
            let error = SettingError::new(format!("{shown} is named twice"));
            return Err(error.hint("once is enough: both would be the same file"));
        }
    }
    Ok(())
}

fn plain(args: &GetArgs, url: Url) -> Job {
    let output = &args.output;
    Job {
        id: 0,
        url,
        output: match &output.file {
            Some(_) if output.is_stdout() => Output::Stdout,
            Some(file) => Output::File(file.clone()),
            // Joined with a name it is the name alone, which is how it shall be shown.
            None => Output::Directory(output.directory.clone().unwrap_or_default()),
        },
        checksums: output.checksum.clone(),
        mirrors: Vec::new(),
        pieces: None,
        named: None,
        size: None,
        headers: Default::default(),
    }
}

/// One file, which all URLs have.
fn mirrored(args: &GetArgs, urls: Vec<Url>) -> Option<Job> {
    let mut urls = urls.into_iter();
    let first = urls.next()?;
    Some(Job {
        mirrors: urls.collect(),
        ..plain(args, first)
    })
}

/// A file that a Metalink document describes, under its name there; `None` for one that cannot be had over HTTP. Whoever wrote the
/// document is not who runs this: its hosts are strangers, but for those of the URLs that were typed.
fn documented(args: &GetArgs, file: MetalinkFile, typed: &[Url]) -> Option<Job> {
    let mut urls = file.urls().cloned();
    let job = plain(args, urls.next()?);
    let directory = args.output.directory.clone().unwrap_or_default();
    Some(Job {
        mirrors: urls.collect(),
        output: Output::File(directory.join(&file.path)),
        checksums: file.checksums.into_iter().chain(job.checksums).collect(),
        pieces: file.pieces,
        named: Some(typed.to_vec()),
        size: file.size,
        headers: Default::default(),
        ..job
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use haul_plan::metalink;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn only_what_was_typed_is_the_users_word() {
        let command = Args::try_parse_from(["haul", "get", "http://h.test/f"]);
        let Command::Get(args) = command.unwrap().command else {
            unreachable!()
        };
        let document = b"<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"g\">\
            <url>http://m.test/g</url><url>http://h.test/g</url></file></metalink>";
        let files = metalink::parse(document).unwrap().files;
        let url: Url = "http://h.test/f".parse().unwrap();
        let typed = Source::Url(url.clone());
        let [plain, documented] = &jobs(&args, vec![typed, Source::Metalink(files)]).unwrap()[..]
        else {
            panic!("two files")
        };
        assert_eq!(plain.named, None);
        assert_eq!(documented.named, Some(vec![url]));
        assert_eq!(documented.url.as_str(), "http://m.test/g");
    }
}
