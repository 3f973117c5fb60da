//! D16: uploads over HTTP/2 and TLS that the server refuses: each client reads the status.

use std::path::{Path, PathBuf};

use haul_lab::CertificateAuthority;

use super::ServedFolder;

/// Much more than the window of a stream.
const UPLOAD_BYTES: usize = 20_000_000;

/// The rounds of each: which of the response and the next bytes comes first is a matter of chance.
const ROUNDS: usize = 3;

/// Each server refuses the upload for another reason. The flags of the server, the login of the client,
/// and the status.
const REFUSALS: [(&[&str], &str, &str); 3] = [
    (&["--auth", "ann:secret:rw"], "ann:wrong", "401"),
    (&["--read-only"], "", "405"),
    (&["--max-body", "1M"], "", "413"),
];

/// A server with a certificate. Calls the test with it, its URL, the login and the status.
fn for_each_refusal(mut test: impl FnMut(&ServedFolder, &str, &str, &str)) {
    let authority = CertificateAuthority::new();
    let files = authority.issue(&["127.0.0.1"]).write_files().unwrap();
    let (certificate, key) = (
        files.certificate.to_str().unwrap(),
        files.key.to_str().unwrap(),
    );
    for (flags, login, status) in REFUSALS {
        let tls = ["--cert", certificate, "--key", key];
        let serve = match flags {
            ["--read-only"] => ServedFolder::start_read_only(&tls),
            flags => ServedFolder::start(&[&tls, flags].concat()),
        };
        std::fs::write(serve.test_directory("ca.pem"), authority.certificate_pem()).unwrap();
        std::fs::write(serve.test_directory("upload"), vec![7; UPLOAD_BYTES]).unwrap();
        let url = serve.url("upload").replace("http:", "https:");
        for _ in 0..ROUNDS {
            test(&serve, &url, login, status);
        }
    }
}

#[test]
fn d16_curl_reads_why_its_upload_is_refused() {
    for_each_refusal(|serve, url, login, status| {
        let login = match login {
            "" => vec![],
            login => vec!["-u", login],
        };
        let flags = [
            "--cacert",
            "ca.pem",
            "-T",
            "upload",
            "-o",
            "out",
            "-w",
            "%{http_code} %{http_version}",
        ];
        let shown = serve.curl(&[&flags[..], &login, &[url]].concat());
        assert_eq!(shown, format!("{status} 2"));
    });
}

#[test]
fn d16_nghttp_reads_why_its_upload_is_refused() {
    for_each_refusal(|serve, url, _, status| {
        let flags = [
            "-v",
            "--no-verify-peer",
            "-d",
            "upload",
            "-H",
            ":method: PUT",
        ];
        let output = serve.run("nghttp", &[&flags[..], &[url]].concat());
        let status = format!(":status: {status}");
        assert!(output.stdout.contains(&status), "{output:?}");
    });
}

/// Sends the whole body before it reads the response.
const HTTPX: &str = r#"
import httpx, sys
url, login, status = sys.argv[1:]
with httpx.Client(http1=False, http2=True, verify="ca.pem", auth=tuple(login.split(":")) if login else None) as client:
    for _ in range(2):
        response = client.put(url, content=open("upload", "rb").read())
        assert (str(response.status_code), response.http_version) == (status, "HTTP/2"), response
        assert response.text.strip(), "the reason"
print("done")
"#;

#[test]
fn d16_httpx_reads_why_its_upload_is_refused() {
    let python = python();
    for_each_refusal(|serve, url, login, status| {
        let output = serve.run(python.to_str().unwrap(), &["-c", HTTPX, url, login, status]);
        assert_eq!(output.stdout, "done\n");
    });
}

/// The Python with httpx: of the environment that `scripts/test` makes, or the system's.
fn python() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let environment = target.join("python/bin/python3");
    if environment.exists() {
        environment
    } else {
        "python3".into()
    }
}
