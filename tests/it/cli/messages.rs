//! What went wrong, with what, and what to do: message by message.

use haul_lab::{HttpProxy, Origin, OriginResource, RequestMatcher, faults};
use serde_json::Value;

use crate::cli::harness::{HaulDirectory, content, start_origin};

/// An origin whose paths fail, each differently.
async fn breaking_origin() -> Origin {
    let with = |status, name, value: &str| {
        let rule = faults::status_with_header(status, name, value.to_owned());
        OriginResource::new(content()).rule(RequestMatcher::always(), rule)
    };
    let realm = "Basic realm=\"vault\"";
    Origin::builder()
        .resource("/nowhere", with(302, "X-Location", "/f.bin"))
        .resource("/far", with(302, "Location", &"x".repeat(20_000)))
        .resource("/odd", with(302, "Location", "http://["))
        .resource("/mail", with(302, "Location", "mailto:me@h.test"))
        .resource("/401", with(401, "WWW-Authenticate", realm))
        .resource("/403", with(403, "X-Why", "no"))
        .resource("/f.bin", OriginResource::new(content()))
        .start()
        .await
}

/// A server that answers whatever it is sent as nginx answers a TLS hello on a port for http, a few times.
pub(crate) fn plain_http_server() -> std::net::SocketAddr {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(4) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                .unwrap();
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_about_the_network_and_the_origin() {
    let origin = breaking_origin().await;
    let port = origin.address().port();
    let plain = plain_http_server();
    let haul = HaulDirectory::new();
    let named = format!("files.test:{port}:127.0.0.1");
    let mut outputs = Vec::new();
    for (url, flags) in [
        (origin.url("/nowhere"), &[][..]),
        (origin.url("/far"), &[]),
        (origin.url("/odd"), &[]),
        (origin.url("/mail"), &[]),
        (origin.url("/401"), &[]),
        (origin.url("/401"), &["-u", "me:s3cret"]),
        (origin.url("/401"), &["-H", "Authorization: s3cret"]),
        (origin.url("/403"), &[]),
        (origin.url("/403"), &["--bearer", "s3cret"]),
        (origin.url("/f.bin"), &["-6"]),
        (format!("http://[::1]:{port}/f.bin"), &["-4"]),
        (
            format!("http://files.test:{port}/f.bin"),
            &["-6", "--resolve", &named],
        ),
        (format!("https://{plain}/f.bin"), &[]),
        ("http://127.0.0.1:1/f".into(), &[]),
    ] {
        let output = haul.get(&url, &[flags, &["--retries", "0"]].concat()).await;
        output.assert_code(5);
        assert_eq!(output.stderr.lines().count(), 2, "{output:#?}");
        let text = output
            .stderr_text(&haul, Some(&origin))
            .replace(&port.to_string(), "[PORT]")
            .replace(&plain.to_string(), "[PLAIN]");
        let flags = flags.join(" ").replace(&port.to_string(), "[PORT]");
        outputs.push(format!("$ {flags}\n{text}"));
    }
    insta::assert_snapshot!(outputs.join("\n"));
    assert!(haul.listing().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_about_proxies_name_the_proxy_and_its_source() {
    let login = faults::RequiredLogin::basic("me", "right");
    let proxy = HttpProxy::builder().require_login(login).start().await;
    let origin = breaking_origin().await;
    let port = proxy.address().port().to_string();
    let (plain, tls) = (origin.url("/f.bin"), "https://files.test/f".to_owned());
    let no_tls = plain_http_server();
    let wrong = proxy.url_with_login("me", "s3cret");
    let dead = "http://me:s3cret@127.0.0.1:1";
    let mut outputs = Vec::new();
    for (variable, flag, url) in [
        (dead, None, &plain),
        ("", Some(dead), &plain),
        ("", Some("socks5h://me:s3cret@127.0.0.1:1"), &plain),
        ("", Some("http://nowhere.invalid:8080"), &tls),
        (&*proxy.url(), None, &plain),
        (&wrong, None, &plain),
        ("", Some(&*proxy.url()), &tls),
        ("", Some(&*wrong), &tls),
        ("", Some(&*format!("https://{no_tls}")), &tls),
    ] {
        let haul = HaulDirectory::new().with_variable("http_proxy", variable);
        let mut flags = vec!["--retries", "0"];
        flags.extend(flag.map(|flag| ["--proxy", flag]).iter().flatten());
        let output = haul.get(url, &flags).await;
        output.assert_code(5);
        assert!(!output.stderr.contains("s3cret"), "{output:#?}");
        let text = output
            .stderr_text(&haul, Some(&origin))
            .replace(&no_tls.to_string(), "[PLAIN]");
        outputs.push(text.replace(&port, "[PORT]"));
    }
    insta::assert_snapshot!(outputs.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_about_files_and_directories_in_the_way() {
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin");
    let haul = HaulDirectory::new();
    haul.write("file", "");
    std::fs::create_dir(haul.path("a.haul-part")).unwrap();
    std::fs::create_dir(haul.path("b.haul-journal")).unwrap();
    let mut outputs = Vec::new();
    for flags in [
        &["-d", "file"][..],
        &["-d", "file/below/it"],
        &["-o", "a"],
        &["-o", "b"],
        #[cfg(target_os = "linux")]
        &["-o", "/dev/full"],
    ] {
        let output = haul.get(&url, flags).await;
        output.assert_code(4);
        outputs.push(format!("$ {}\n{}", flags.join(" "), output.stderr));
    }
    insta::assert_snapshot!(outputs.join("\n"));
    assert!(!haul.path("a").exists() && !haul.path("b").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_about_two_urls_with_one_file_name() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let (one, two) = (origin.url("/f.bin?1"), origin.url("/f.bin?2"));
    haul.run(&["get", &one, &two, &one])
        .await
        .assert_code(2)
        .assert_stderr_has("/f.bin?1 is given twice")
        .assert_stderr_has("hint: leave one out");
    assert!(origin.requests().is_empty());
    for flags in [&[][..], &["--overwrite"], &["--update"]] {
        let output = haul.run(&[&["get", &one, &two], flags].concat()).await;
        output
            .assert_code(1)
            .assert_stderr_has("would be saved as f.bin, which another URL already uses")
            .assert_stderr_has("hint: choose another name with -o");
        assert!(!output.stderr.contains("another haul"), "{output:#?}");
        haul.assert_file("f.bin", &content());
        std::fs::remove_file(haul.path("f.bin")).unwrap();
    }
    // Which names they come to is for the origin to say.
    let named = |name| {
        OriginResource::new(content())
            .rule(RequestMatcher::always(), faults::content_disposition(name))
    };
    let origin = Origin::builder()
        .resource("/a/f", named("one"))
        .resource("/b/f", named("two"))
        .start()
        .await;
    haul.run(&["get", &origin.url("/a/f"), &origin.url("/b/f")])
        .await
        .assert_code(0);
    assert_eq!(haul.listing(), ["one", "two"]);
}

/// The only line, as an object.
#[track_caller]
fn object(text: &str) -> Value {
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_errors_in_the_requested_format() {
    let haul = HaulDirectory::new();
    haul.write("file", "");
    let url = "http://h.test/f";
    for (args, code, class) in [
        (&[][..], 2, "usage"),
        (&[url, "--bogus"], 2, "usage"),
        (&[url, "-x", "0"], 2, "usage"),
        (&[url, url], 2, "usage"),
        (&[url, "--cert", "file"], 2, "usage"),
        (&[url, "--cacert", "file"], 2, "usage"),
        (&[url, "-d", "file"], 4, "local_io"),
    ] {
        let get = |more: &[&'static str]| [&["get"], more, args].concat();
        let plain = haul.run(&get(&[])).await;
        plain.assert_code(code);
        let words: Vec<&str> = plain.stderr.lines().collect();
        let message = words[0].strip_prefix("haul: error: ").unwrap();
        let hint = words
            .get(1)
            .map(|line| line.strip_prefix("hint: ").unwrap());

        let result = haul.run(&get(&["--json"])).await;
        result.assert_code(code);
        assert_eq!(result.stderr, plain.stderr);
        let result_object = object(&result.stdout);
        assert_eq!(result_object["url"], Value::Null);
        assert_eq!(result_object["error"]["class"], class);
        assert_eq!(result_object["error"]["message"], message);
        assert_eq!(result_object["error"]["hint"].as_str(), hint);

        let progress = haul.run(&get(&["--progress", "json"])).await;
        progress.assert_code(code);
        assert_eq!(progress.stdout, "");
        let event = object(&progress.stderr);
        assert_eq!(
            (&event["event"], &event["class"], &event["job"]),
            (&"failed".into(), &class.into(), &Value::Null)
        );
        assert_eq!(event["message"], message);
        assert_eq!(event["at_ms"], 0);
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warnings_and_digests_as_objects() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let flags = [
        "-k",
        "--progress",
        "json",
        "-o",
        "-",
        "--checksum",
        "crc32c",
    ];
    let url = origin.url("/f.bin");
    let args = [&["get", &url], &flags[..]].concat();
    let output = haul.run_redirected(">/dev/null", &args).await;
    output.assert_code(0);
    let objects: Vec<Value> = output
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (first, last) = (&objects[0], &objects[objects.len() - 1]);
    assert_eq!(
        (&first["event"], &first["job"]),
        (&"warning".into(), &Value::Null)
    );
    assert_eq!(
        (&last["event"], &last["job"]),
        (&"checksums".into(), &0.into())
    );
    let digest = last["checksums"]["crc32c"].as_str().unwrap();
    assert_eq!(digest.len(), 8, "{last}");
    let missing = origin.url("/missing");
    let output = haul.get(&missing, &["--progress", "json"]).await;
    let failed = output.assert_code(5).stderr.lines().last().unwrap();
    let failed: Value = serde_json::from_str(failed).unwrap();
    assert_eq!(failed["event"], "failed");
    for object in objects.iter().chain([&failed]) {
        assert!(
            object["at_ms"].is_u64() && object["schema"] == 1,
            "{object}"
        );
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fifo_named_dash_is_named_in_messages() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let line = format!(
        "mkfifo ./- && cat ./- >copy & {} get {} -o ./- --checksum md5; wait",
        env!("CARGO_BIN_EXE_haul"),
        origin.url("/f.bin")
    );
    let output = haul.shell(&line).await;
    output.assert_code(0).assert_stderr_has("./-  1.0 MiB in");
    assert!(output.stdout.ends_with("  ./-\n"), "{output:#?}");
    haul.assert_file("copy", &content());
}
