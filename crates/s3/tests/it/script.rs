//! A server that gives one response after another, and records requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_digest::{DigestSet, hex};
use haul_lab::within;
use haul_net::{ClientConfig, Login, Secret};
use haul_plan::DigestAlgorithm;
use haul_s3::{S3Client, S3Config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The time limit of a test's requests.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A running script.
pub(crate) struct ScriptedStore {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl ScriptedStore {
    /// Gives these responses, each to one request, and the last one to all others.
    pub(crate) async fn start(responses: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut tasks = JoinSet::new();
        let recorded = Arc::clone(&requests);
        tasks.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                serve(stream, &responses, &recorded).await;
            }
        });
        Self {
            url,
            requests,
            _tasks: tasks,
        }
    }

    /// The heads of all requests so far, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        let head = |request: &String| {
            let (head, _) = request.split_once("\r\n\r\n").unwrap();
            head.to_ascii_lowercase()
        };
        self.requests.lock().unwrap().iter().map(head).collect()
    }

    /// The only request so far, as far as it is the same each time: its target, the header fields that say what it is, and its body. Asserts
    /// that the signature covers these fields, and the digest the body.
    pub(crate) fn only_request(&self) -> String {
        const OTHERS: [&str; 7] = [
            "accept",
            "accept-encoding",
            "authorization",
            "host",
            "user-agent",
            "x-amz-content-sha256",
            "x-amz-date",
        ];
        let requests = self.requests.lock().unwrap();
        let [request] = &requests[..] else {
            panic!("{requests:#?}");
        };
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let (target, fields) = head.split_once(" HTTP/1.1\r\n").unwrap();
        let fields: BTreeMap<&str, &str> = fields
            .lines()
            .map(|line| line.split_once(": ").unwrap())
            .collect();
        let mut digest = DigestSet::new([DigestAlgorithm::Sha256]);
        digest.update(body.as_bytes());
        let [digest] = &digest.finish()[..] else {
            panic!("one digest");
        };
        assert_eq!(fields["x-amz-content-sha256"], hex(&digest.digest));
        let signed: Vec<&str> = fields["authorization"].split(['=', ';', ',']).collect();
        let mut lines = vec![target.to_owned()];
        for (name, value) in &fields {
            let is_signed = signed.contains(name);
            assert!(is_signed || !name.starts_with("x-amz-"), "{name}: {head}");
            if !OTHERS.contains(name) {
                lines.push(format!("{name}: {value}"));
            }
        }
        lines.push(body.to_owned());
        lines.join("\n")
    }
}

/// Answers one request and closes.
async fn serve(mut stream: TcpStream, responses: &[String], requests: &Mutex<Vec<String>>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(request.clone())
        .unwrap()
        .to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    if stream.read_exact(&mut body).await.is_err() {
        return;
    }
    request.extend(body);
    let number = {
        let mut requests = requests.lock().unwrap();
        requests.push(String::from_utf8(request).unwrap());
        requests.len() - 1
    };
    let response = responses.get(number).or_else(|| responses.last()).unwrap();
    // The client may have closed.
    let _ = stream.write_all(response.as_bytes()).await;
}

/// A response with fields and a body, after which the connection ends.
pub(crate) fn response(status: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{fields}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

pub(crate) fn error(status: &str, fields: &str, code: &str) -> String {
    let body = format!("<Error><Code>{code}</Code><Message>m</Message></Error>");
    response(status, fields, &body)
}

/// The settings for a scripted endpoint.
pub(crate) fn config(url: &str) -> S3Config {
    S3Config {
        endpoint_url: Some(url.parse().unwrap()),
        region: Some("us-east-1".to_owned()),
        access_key: Some(Login {
            user: "KEY".to_owned(),
            password: Secret::new("s3cret".to_owned()),
        }),
        ..S3Config::default()
    }
}

pub(crate) async fn connect(config: S3Config) -> S3Client {
    within(LIMIT, Box::pin(config.connect(ClientConfig::default())))
        .await
        .unwrap()
}
