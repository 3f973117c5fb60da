"use strict";
// Optional enhancements: the page reads, sorts, turns pages and uploads without a script, too.
(() => {
  const select = (selector, from = document) => from.querySelector(selector);
  const createElement = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  document.documentElement.classList.add("js");
  const rows = [...document.querySelectorAll("tbody tr:not(.up)")];
  const statusLine = select("#status");
  const formatNumber = (number) => number.toLocaleString("en");
  const showStatus = (text, kind = "") => { statusLine.textContent = text; statusLine.className = kind; };

  // Times in the user's time zone and locale.
  const times = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  for (const time of document.querySelectorAll("time")) {
    const date = new Date(time.dateTime);
    if (isNaN(date)) continue;
    time.title = time.textContent + " UTC";
    time.textContent = times.format(date);
  }

  // The filter and the keyboard: a slash focuses the filter, arrows move through the list.
  const filter = select("#filter");
  const applyFilter = () => {
    const text = filter.value.toLocaleLowerCase();
    let visible = 0;
    for (const row of rows) {
      row.hidden = !select("bdi", row).textContent.toLocaleLowerCase().includes(text);
      visible += !row.hidden;
    }
    showStatus(text ? `${formatNumber(visible)} of ${formatNumber(rows.length)} on this page` : "");
  };
  if (filter) {
    filter.hidden = rows.length === 0;
    filter.addEventListener("input", applyFilter);
    if (filter.value) applyFilter();
  }
  const visibleLinks = () => [...document.querySelectorAll("tbody tr:not([hidden]) a")];
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && filter && !filter.hidden) {
      event.preventDefault();
      filter.focus();
      filter.select();
    } else if (event.key === "Escape" && event.target === filter) {
      filter.value = "";
      applyFilter();
      filter.blur();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && (!typing || event.target === filter)) {
      const links = visibleLinks();
      const index = links.indexOf(document.activeElement);
      if (index < 0 && event.target !== filter) return;
      const target = links[index + (event.key === "ArrowDown" ? 1 : -1)];
      if (target) {
        event.preventDefault();
        target.focus();
      }
    }
  });

  // Texts for statuses that are not successful.
  const statusTexts = {
    0: "the connection failed", 401: "log in first", 403: "not allowed", 404: "it no longer exists", 405: "not allowed here",
    409: "the name is in use", 412: "it exists already", 413: "too large for this server",
    414: "the name is too long", 429: "too many requests, try later", 507: "no space is left on the server",
  };
  const statusText = (status, text) => statusTexts[status] || `${status} ${(text || "").split("\n")[0].slice(0, 200)}`.trim();

  // Deletion.
  select("tbody")?.addEventListener("click", async (event) => {
    const button = event.target.closest("button.delete");
    if (!button) return;
    const row = button.closest("tr");
    const name = select("bdi", row).textContent;
    if (!confirm(`Delete \u201c${name}\u201d? This cannot be undone.`)) return;
    button.disabled = true;
    try {
      const response = await fetch(select("a", row).href, { method: "DELETE" });
      if (response.status === 409) throw "the folder is not empty";
      if (!response.ok && response.status !== 404) throw statusText(response.status, await response.text());
      // Keep the keyboard focus in the list.
      const links = visibleLinks();
      const index = links.indexOf(select("a", row));
      (links[index + 1] || links[index - 1] || document.body).focus();
      row.remove();
      rows.splice(rows.indexOf(row), 1);
      select(".sum").textContent = `${formatNumber(rows.length)} ${rows.length === 1 ? "entry" : "entries"} left on this page`;
      showStatus(`\u201c${name}\u201d was deleted.`, "good");
    } catch (error) {
      button.disabled = false;
      showStatus(`\u201c${name}\u201d was not deleted: ${typeof error === "string" ? error : statusTexts[0]}.`, "bad");
    }
  });

  // Uploads: a queue, three at a time, each by a PUT that replaces an existing file only on request.
  const form = select("form.upload");
  if (!form) return;
  const list = select("#uploads");
  const MAX_RUNNING = 3;
  const queue = [];
  let running = 0, done = 0, failed = 0;

  const startNext = () => {
    while (running < MAX_RUNNING && queue.length) start(queue.shift());
    if (running || queue.length || !(done || failed)) return;
    if (!failed) return location.reload();
    const text = `${done} uploaded, ${failed} not. `;
    showStatus("");
    statusLine.append(text, createElement("a", { href: "" }, "Reload the folder"));
  };

  const add = (file, path) => {
    const state = createElement("span", { class: "state" }, "waiting");
    const bar = createElement("progress", { max: "1", value: "0", "aria-label": `Progress of ${path}` });
    const button = createElement("button", { type: "button", "aria-label": `Cancel ${path}` }, "Cancel");
    const item = createElement("li", {}, createElement("bdi", { class: "file" }, path), bar, state, button);
    const upload = { file, path, item, state, bar, button, request: null, replace: false };
    button.onclick = () => cancel(upload);
    list.append(item);
    list.hidden = false;
    queue.push(upload);
  };

  const cancel = (upload) => {
    const index = queue.indexOf(upload);
    if (index >= 0) queue.splice(index, 1);
    if (upload.request) return upload.request.abort();
    upload.item.remove();
    list.hidden = !list.children.length;
    startNext();
  };

  const fail = (upload, text, retryLabel) => {
    failed += 1;
    upload.state.textContent = text;
    upload.state.className = "state bad";
    upload.bar.hidden = true;
    upload.button.textContent = retryLabel;
    upload.button.setAttribute("aria-label", `${retryLabel} ${upload.path}`);
    upload.button.onclick = () => {
      failed -= 1;
      upload.replace ||= retryLabel === "Replace";
      upload.state.className = "state";
      upload.bar.hidden = false;
      upload.button.textContent = "Cancel";
      upload.button.onclick = () => cancel(upload);
      queue.push(upload);
      startNext();
    };
  };

  const start = (upload) => {
    const request = upload.request = new XMLHttpRequest();
    running += 1;
    const end = (handle) => {
      upload.request = null;
      running -= 1;
      handle();
      startNext();
    };
    request.open("PUT", upload.path.split("/").map(encodeURIComponent).join("/"));
    if (!upload.replace) request.setRequestHeader("If-None-Match", "*");
    upload.state.textContent = "0 %";
    request.upload.onprogress = (event) => {
      if (!event.lengthComputable || !event.total) return;
      upload.bar.value = event.loaded / event.total;
      upload.state.textContent = event.loaded < event.total ? `${Math.floor(100 * event.loaded / event.total)} %` : "being stored";
    };
    request.onload = () => end(() => {
      if (request.status === 412) return fail(upload, statusTexts[412], "Replace");
      if (request.status < 200 || request.status > 299) return fail(upload, statusText(request.status, request.responseText), "Retry");
      done += 1;
      upload.bar.value = 1;
      upload.state.textContent = "done";
      upload.state.className = "state good";
      upload.button.hidden = true;
    });
    request.onerror = () => end(() => fail(upload, statusTexts[0], "Retry"));
    request.onabort = () => end(() => fail(upload, "cancelled", "Retry"));
    request.send(upload.file);
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const input = select("input", form);
    for (const file of input.files) add(file, file.name);
    input.value = "";
    startNext();
  });

  // Dropped folders are walked; a browser returns their entries a few at a time.
  const walk = async (entry, parent) => {
    const path = parent + entry.name;
    if (entry.isFile) return add(await new Promise((resolve, reject) => entry.file(resolve, reject)), path);
    const reader = entry.createReader();
    for (;;) {
      const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!entries.length) return;
      for (const inner of entries) await walk(inner, path + "/");
    }
  };
  const hasFiles = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  const setDropping = (on) => document.body.classList.toggle("dropping", on);
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    setDropping(true);
  });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) setDropping(false); });
  addEventListener("drop", async (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setDropping(false);
    // The entries are available only until the handler first awaits.
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    if (!entries.length) for (const file of event.dataTransfer.files) add(file, file.name);
    try {
      for (const entry of entries) await walk(entry, "");
    } catch {
      showStatus("Some dropped items cannot be read.", "bad");
    }
    startNext();
  });
  addEventListener("beforeunload", (event) => { if (running) event.preventDefault(); });
})();
