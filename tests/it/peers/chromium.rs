//! Chromium without a window, driven through its own protocol: it opens a page, clicks, and evaluates expressions in it.
//!
//! The protocol (Chrome `DevTools`) is JSON, a NUL after each message, over two pipes that a browser expects as descriptors 3 and 4:
//! no port, no WebSocket, and the browser ends when they close. A shell puts them in place. Commands are sent one after another; events
//! that come in between are kept until somebody looks for them.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use haul_lab::within;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Nothing that a page does here takes longer, and neither does the start of a browser on a machine with more to do.
const LIMIT: Duration = Duration::from_secs(30);

/// Puts the ends of the pipes where a browser looks for them.
const SHELL: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

/// No sandbox, as tests may be run by root; no questions, and no talk with anybody but the page's server.
const FLAGS: [&str; 12] = [
    "--remote-debugging-pipe",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--lang=en-GB",
];

/// A browser with one tab.
pub(crate) struct Chromium {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// The identifier of the last command. Its response has the same.
    id: u64,
    /// The session of the tab.
    tab: Option<String>,
    /// What happened and was not looked for yet.
    events: Vec<Value>,
    /// What the browser complained about.
    complaints: Vec<String>,
    /// Killed when dropped, should closed pipes not have been enough.
    _child: Child,
    /// Its profile.
    _home: TempDir,
}

/// The error instead of a result.
type BrowserError = String;

impl Chromium {
    /// Starts one. Its tab is empty.
    pub(crate) async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", SHELL, "chromium"]).args(FLAGS);
        command.arg(format!("--user-data-dir={}", home.path().display()));
        command.env("HOME", home.path()).env("TZ", "UTC");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut chromium = Self {
            to: child.stdin.take().unwrap(),
            from: BufReader::new(child.stdout.take().unwrap()),
            id: 0,
            tab: None,
            events: Vec::new(),
            complaints: Vec::new(),
            _child: child,
            _home: home,
        };
        let tab = chromium
            .call("Target.createTarget", json!({ "url": "about:blank" }))
            .await;
        let parameters = json!({ "targetId": tab["targetId"], "flatten": true });
        let session = chromium.call("Target.attachToTarget", parameters).await;
        chromium.tab = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "DOM", "Network"] {
            chromium.call(&format!("{domain}.enable"), json!({})).await;
        }
        chromium
    }

    async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.id += 1;
        let mut message = json!({ "id": self.id, "method": method, "params": params });
        if let Some(tab) = &self.tab {
            message["sessionId"] = json!(tab);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).await.unwrap();
        self.id
    }

    /// The next response. Events before it are kept.
    async fn receive(&mut self) -> Option<Value> {
        let mut bytes = Vec::new();
        let read = within(LIMIT, self.from.read_until(0, &mut bytes));
        read.await.unwrap();
        let end = bytes.pop();
        assert_eq!(end, Some(0), "chromium ended; scripts/test installs it");
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        if message.get("method").is_none() {
            return Some(message);
        }
        if is_console_error(&message) {
            self.complaints.push(message["params"].to_string())
        } else {
            self.events.push(message)
        }
        None
    }

    async fn command(&mut self, method: &str, params: Value) -> Result<Value, BrowserError> {
        let id = self.send(method, params).await;
        loop {
            // Clicks have a response, too, which is late if the page opened a dialogue. Nobody waits for that.
            let response = self.receive().await;
            if let Some(mut response) = response.filter(|response| response["id"] == id) {
                return match response.get("error") {
                    Some(error) => Err(format!("{method}: {error}")),
                    None => Ok(response["result"].take()),
                };
            }
        }
    }

    /// Asks for what must succeed.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        self.command(method, params).await.unwrap()
    }

    /// Waits for an event, if it has not come yet, and takes it and all before it off the list.
    pub(crate) async fn event(&mut self, method: &str) -> Value {
        loop {
            let is_it = |event: &Value| event["method"] == method;
            if let Some(at) = self.events.iter().position(is_it) {
                let mut taken = self.events.drain(..=at);
                return taken.next_back().unwrap()["params"].take();
            }
            self.receive().await;
        }
    }

    /// The complaints of the browser since the last call: exceptions, errors on the console, violations of the policy.
    pub(crate) async fn console_errors(&mut self) -> Vec<String> {
        // Events before this response have been received.
        self.eval("1").await;
        std::mem::take(&mut self.complaints)
    }

    /// Goes to a page and waits until all of it is there.
    pub(crate) async fn open(&mut self, url: &str) {
        self.events.clear();
        let went = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(went.get("errorText").is_none(), "{url}: {went}");
        self.event("Page.loadEventFired").await;
    }

    /// What an expression of the page comes to. It may be a promise.
    async fn try_eval(&mut self, expression: &str) -> Result<Value, BrowserError> {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut response = self.command("Runtime.evaluate", params).await?;
        match response.get("exceptionDetails") {
            Some(details) => Err(format!("{expression}: {details}")),
            None => Ok(response["result"]["value"].take()),
        }
    }

    /// The same for what must not throw.
    pub(crate) async fn eval(&mut self, expression: &str) -> Value {
        self.try_eval(expression).await.unwrap()
    }

    /// The same, as text.
    pub(crate) async fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression).await;
        value
            .as_str()
            .unwrap_or_else(|| panic!("{expression}: {value}"))
            .to_owned()
    }

    /// The same, as many texts: what an expression is for each element that a selector finds.
    pub(crate) async fn eval_each(&mut self, selector: &str, expression: &str) -> Vec<String> {
        let selector = json!(selector);
        let all =
            format!("[...document.querySelectorAll({selector})].map((it) => String({expression}))");
        serde_json::from_value(self.eval(&all).await).unwrap()
    }

    /// Waits until an expression is true, on this page or on one that it leads to.
    pub(crate) async fn wait_until(&mut self, expression: &str) {
        let wait = format!(
            "new Promise((so) => {{ const look = () => ({expression}) ? so(true) : setTimeout(look, 5); look(); }})"
        );
        let turned = async {
            // A command that waits on a page is refused when the page is left, and is sent again to the next page.
            while let Err(refused) = self.try_eval(&wait).await {
                let is_gone = ["destroyed", "navigated", "Cannot find", "not found"];
                assert!(is_gone.iter().any(|why| refused.contains(why)), "{refused}");
            }
        };
        if tokio::time::timeout(LIMIT, turned).await.is_err() {
            panic!("did not become true: {expression}");
        }
    }

    /// Gives an input of the page the files that a person would choose.
    pub(crate) async fn choose(&mut self, selector: &str, files: &[&Path]) {
        let document = self.call("DOM.getDocument", json!({})).await;
        let parameters = json!({ "nodeId": document["root"]["nodeId"], "selector": selector });
        let node = self.call("DOM.querySelector", parameters).await;
        let parameters = json!({ "nodeId": node["nodeId"], "files": files });
        self.call("DOM.setFileInputFiles", parameters).await;
    }

    /// Scrolls an element into view. Returns its centre.
    async fn element_position(&mut self, selector: &str) -> (Value, Value) {
        let selector = json!(selector);
        let middle = format!(
            "(() => {{ const it = document.querySelector({selector}); it.scrollIntoView({{ block: 'center' }});
             const box = it.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let middle = self.eval(&middle).await;
        (middle[0].clone(), middle[1].clone())
    }

    /// Clicks an element with the mouse. Does not wait for the effect: the page may open a dialog first.
    pub(crate) async fn click(&mut self, selector: &str) {
        let (x, y) = self.element_position(selector).await;
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.send("Input.dispatchMouseEvent", params).await;
        }
    }

    /// Clicks an element whose request is challenged for a login, and enters that login.
    pub(crate) async fn click_and_log_in(&mut self, selector: &str, user: &str, password: &str) {
        self.call("Fetch.enable", json!({ "handleAuthRequests": true }))
            .await;
        self.click(selector).await;
        let request = self.event("Fetch.requestPaused").await;
        let request = json!({ "requestId": request["requestId"] });
        self.call("Fetch.continueRequest", request).await;
        let challenged = self.event("Fetch.authRequired").await;
        let response =
            json!({ "response": "ProvideCredentials", "username": user, "password": password });
        let params =
            json!({ "requestId": challenged["requestId"], "authChallengeResponse": response });
        self.call("Fetch.continueWithAuth", params).await;
        self.call("Fetch.disable", json!({})).await;
    }

    /// Presses a key: a character, or one by its name.
    pub(crate) async fn press(&mut self, key: &str) {
        let mut params = json!({ "type": "keyDown", "key": key });
        if key.chars().count() == 1 {
            params["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", params).await;
        let params = json!({ "type": "keyUp", "key": key });
        self.call("Input.dispatchKeyEvent", params).await;
    }

    /// Answers a question of the page's, and says what it was.
    pub(crate) async fn response(&mut self, accept: bool) -> String {
        let dialogue = self.event("Page.javascriptDialogOpening").await;
        let params = json!({ "accept": accept });
        self.call("Page.handleJavaScriptDialog", params).await;
        dialogue["message"].as_str().unwrap().to_owned()
    }

    /// Drags files from outside over the element of a selector, and drops them there if `drop` says so.
    pub(crate) async fn drag(&mut self, files: &[&Path], selector: &str, steps: &[&str]) {
        let (x, y) = self.element_position(selector).await;
        for step in steps {
            let data = json!({ "items": [], "files": files, "dragOperationsMask": 1 });
            let params = json!({ "type": step, "x": x, "y": y, "data": data });
            self.call("Input.dispatchDragEvent", params).await;
        }
    }

    /// Sends no faster than this from now on, bytes a second; `None` is as fast as it goes.
    pub(crate) async fn send_at(&mut self, rate: Option<u32>) {
        let rate = rate.map_or(-1, i64::from);
        let params = json!({ "offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": rate });
        self.call("Network.emulateNetworkConditions", params).await;
    }

    /// A window of this size.
    pub(crate) async fn resize(&mut self, width: u32, height: u32) {
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", params)
            .await;
    }

    /// Sets the preferred colour scheme, light or dark.
    pub(crate) async fn set_color_scheme(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let params = json!({ "features": features });
        self.call("Emulation.setEmulatedMedia", params).await;
    }

    /// Keeps a screenshot for people, in the directory `HAUL_SCREENSHOTS`.
    pub(crate) async fn screenshot(&mut self, name: &str) {
        let Some(dir) = std::env::var_os("HAUL_SCREENSHOTS") else {
            return;
        };
        let shot = self.call("Page.captureScreenshot", json!({})).await;
        let png = BASE64_STANDARD
            .decode(shot["data"].as_str().unwrap())
            .unwrap();
        std::fs::write(Path::new(&dir).join(format!("{name}.png")), png).unwrap();
    }
}

fn is_console_error(event: &Value) -> bool {
    let params = &event["params"];
    match event["method"].as_str() {
        Some("Runtime.exceptionThrown") => true,
        Some("Runtime.consoleAPICalled") => params["type"] != "log",
        Some("Log.entryAdded") => params["entry"]["level"] != "verbose",
        _ => false,
    }
}
