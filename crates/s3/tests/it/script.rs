//! A server that gives one response after another, and records the heads of requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_lab::within;
use haul_net::{ClientConfig, Login, Secret};
use haul_s3::{S3Client, S3Config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The time limit of a test's requests.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A running script.
pub(crate) struct ScriptedStore {
    pub(crate) url: String,
    heads: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl ScriptedStore {
    /// Gives these responses, each to one request, and the last one to all others.
    pub(crate) async fn start(responses: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut tasks = JoinSet::new();
        let recorded = Arc::clone(&heads);
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
            heads,
            _tasks: tasks,
        }
    }

    /// The heads of all requests so far, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Answers one request and closes.
async fn serve(mut stream: TcpStream, responses: &[String], heads: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let number = {
        let mut heads = heads.lock().unwrap();
        heads.push(String::from_utf8(head).unwrap().to_ascii_lowercase());
        heads.len() - 1
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

/// An error document.
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

/// A client.
pub(crate) async fn connect(config: S3Config) -> S3Client {
    within(LIMIT, Box::pin(config.connect(ClientConfig::default())))
        .await
        .unwrap()
}
