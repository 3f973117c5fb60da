//! wget, Python, and `haul get`.

use super::{LARGE, SMALL, ServedFolder};

#[test]
fn wget_resumes_revalidates_and_mirrors() {
    let serve = ServedFolder::start(&[]);
    std::fs::write(
        serve.test_directory("large"),
        &super::file(LARGE)[..999_999],
    )
    .unwrap();
    serve.run("wget", &["-nv", "-c", &serve.url("large")]);
    serve.assert_download("large", LARGE);
    let again = || serve.run("wget", &["-N", &serve.url("text.txt")]).stderr;
    assert!(again().contains("200 OK"));
    let second = again();
    assert!(second.contains("304 Not Modified"), "{second}");
    // By the links of the page.
    serve.run(
        "curl",
        &["-sS", "-T", "small", &serve.url("tree/a%20b/%C3%A4?.bin")],
    );
    serve.run("curl", &["-sS", "-T", "large", &serve.url("tree/c")]);
    serve.run("wget", &["-nv", "-r", "-np", "-nH", &serve.url("tree/")]);
    serve.assert_download("tree/c", LARGE);
    assert!(serve.test_directory("tree/a b").is_dir());
}

/// wget follows every link of a page: it respects neither `rel=nofollow` nor queries in robots.txt.
#[test]
fn wget_fetches_all_files_but_neither_archives_nor_sort_orders() {
    let serve = ServedFolder::start_read_only(&[]);
    let folder = serve.folder.path().join("inner");
    std::fs::create_dir(&folder).unwrap();
    // More than a page shows.
    for number in 0..=2000 {
        std::fs::write(folder.join(number.to_string()), "").unwrap();
    }
    serve.run("wget", &["-nv", "-r", "-nH", &serve.url("")]);
    serve.assert_download("small", SMALL);
    assert!(serve.test_directory("inner/2000").is_file());
    let fetched = serve.run("ls", &["-R"]).stdout;
    let queries: Vec<&str> = fetched.lines().filter(|name| name.contains('?')).collect();
    assert!(
        matches!(&queries[..], [second, first]
            if second.contains("html?after=") && first.contains("html?before=")),
        "{queries:?}"
    );
}

#[test]
fn robots_txt_excludes_archives_unless_the_folder_has_its_own() {
    let serve = ServedFolder::start(&[]);
    let robots = serve.url("robots.txt");
    assert!(serve.curl(&[&robots]).contains("Disallow: /*?*format="));
    let head = serve.curl(&["-I", &serve.url("?format=tar")]);
    assert!(head.contains("x-robots-tag: noindex\r\n"), "{head}");
    serve.curl(&["-T", "small", &robots]);
    serve.run("curl", &["-sS", "-o", "robots", &robots]);
    serve.assert_download("robots", SMALL);
}

#[test]
fn haul_gets_the_files_of_a_folder_by_its_list() {
    let serve = ServedFolder::start(&[]);
    std::fs::create_dir(serve.folder.path().join("sub")).unwrap();
    std::fs::write(serve.folder.path().join("a b#.txt"), "text").unwrap();
    let haul = env!("CARGO_BIN_EXE_haul");
    let list = serve.url("?format=jsonl");
    let line = format!("curl -sS '{list}' | '{haul}' get -i - -d got -q");
    serve.run("bash", &["-o", "pipefail", "-c", &line]);
    serve.assert_download("got/large", LARGE);
    serve.assert_download("got/small", SMALL);
    let files = serve.run("ls", &["got"]).stdout;
    assert_eq!(files, "a b#.txt\nlarge\nsmall\ntext.txt\n");
}

#[test]
fn haul_refuses_to_save_the_page_of_a_folder_unless_it_has_a_name() {
    let serve = ServedFolder::start(&[]);
    std::fs::create_dir(serve.folder.path().join("sub")).unwrap();
    let haul = env!("CARGO_BIN_EXE_haul");
    // The second leads there by a redirect.
    for path in ["sub/", "sub"] {
        let (succeeded, output) = serve.try_run(haul, &["get", &serve.url(path)]);
        let (page, list) = (serve.url("sub/"), serve.url("sub/?format=jsonl"));
        assert!(!succeeded);
        assert_eq!(
            output.stderr,
            format!(
                "haul: error: {page} is a folder: its page lists files, and is not a file\n\
                 hint: haul get -o - '{list}' | haul get -i - downloads its files; -o FILE saves the page\n"
            )
        );
    }
    assert!(!serve.test_directory("index.html").exists());
    for (name, query) in [("page.html", ""), ("index.html", "?format=html")] {
        let url = serve.url(&format!("sub/{query}"));
        let flags: &[&str] = if query.is_empty() { &["-o", name] } else { &[] };
        serve.run(haul, &[&["get", "-q", &url], flags].concat());
        let page = std::fs::read_to_string(serve.test_directory(name)).unwrap();
        assert!(page.contains("This folder is empty."), "{page}");
    }
}

/// One connection for everything, with bodies of both framings.
const PYTHON: &str = r#"
import http.client, sys, urllib.request
port = int(sys.argv[1])
c = http.client.HTTPConnection("127.0.0.1", port)
c.connect()
own = c.sock
def request(method, path, body=None, **kw):
    c.request(method, path, body=body, **kw)
    response = c.getresponse()
    data = response.read()
    assert c.sock is own, (method, path, response.status, "it hung up")
    return response.status, data
for n in range(100):
    body = b"x" * (n * 997)
    assert request("PUT", "/py/%d" % (n % 5), body)[0] == (201 if n < 5 else 204)
    assert request("GET", "/py/%d" % (n % 5)) == (200, body)
    assert request("HEAD", "/py/%d" % (n % 5)) == (200, b"")
    assert request("GET", "/py/none")[0] == 404
assert request("DELETE", "/py/0")[0] == 204
assert request("OPTIONS", "*")[0] in (200, 204)
assert request("PATCH", "/py/1")[0] == 405
# After chunks the server hangs up, and says so.
pieces = (b"y" * 1000 for _ in range(500))
c.request("PUT", "/py/chunked", pieces, encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
response = c.getresponse()
assert (response.status, response.getheader("connection")) == (201, "close"), response.getheaders()
assert urllib.request.urlopen("http://127.0.0.1:%d/py/chunked" % port).read() == b"y" * 500000
print("done")
"#;

#[test]
fn python_keeps_its_connection() {
    let serve = ServedFolder::start(&[]);
    let port = serve.served.address.port().to_string();
    assert_eq!(
        serve.run("python3", &["-c", PYTHON, &port]).stdout,
        "done\n"
    );
}

#[test]
fn haul_gets_what_haul_serves() {
    let serve = ServedFolder::start(&[]);
    let sum = "openssl dgst -sha256 -binary large | base64";
    let sum = format!("sha-256=:{}:", serve.run("sh", &["-c", sum]).stdout.trim());
    let (digest, url) = (format!("Content-Digest: {sum}"), serve.url("digested"));
    serve.run("curl", &["-sSf", "-T", "large", "-H", &digest, &url]);
    let head = serve.run("curl", &["-sSI", &url]).stdout;
    assert!(head.contains(&format!("repr-digest: {sum}\r\n")), "{head}");
    let haul = env!("CARGO_BIN_EXE_haul");
    let result = serve.run(
        haul,
        &[
            "get",
            &url,
            "-o",
            "got",
            "-x",
            "4",
            "--segment-size",
            "1M",
            "--json",
            "-q",
        ],
    );
    let result: serde_json::Value = serde_json::from_str(&result.stdout).unwrap();
    assert!(result["segments"].as_u64() > Some(1), "{result}");
    serve.assert_download("got", LARGE);
    // A second run gets a 304, or finds the complete file.
    serve.run(
        haul,
        &[
            "get",
            &serve.url("small"),
            "-o",
            "small",
            "--overwrite",
            "-q",
        ],
    );
    serve.assert_download("small", SMALL);
    // What is there does not match what somebody else says: it is not taken.
    let wrong = digest.replace(&sum[9..13], "AAAA");
    let put = serve.run(
        "curl",
        &[
            "-sS",
            "-T",
            "large",
            "-H",
            &wrong,
            "-w",
            "%{http_code}",
            "-o",
            "out",
            &serve.url("wrong"),
        ],
    );
    assert_eq!(put.stdout, "400");
    assert!(!serve.folder.path().join("wrong").exists());
}
