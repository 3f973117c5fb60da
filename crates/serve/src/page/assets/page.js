"use strict";
// What the page can do with a script. It reads, sorts and turns pages without one, and can even take uploads.
(() => {
  const one = (selector, from = document) => from.querySelector(selector);
  const make = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  document.documentElement.classList.add("js");
  const rows = [...document.querySelectorAll("tbody tr:not(.up)")];
  const said = one("#said");
  const grouped = (number) => number.toLocaleString("en");
  const say = (text, kind = "") => { said.textContent = text; said.className = kind; };

  // Times, in the reader's own zone and habits.
  const times = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  for (const time of document.querySelectorAll("time")) {
    const date = new Date(time.dateTime);
    if (isNaN(date)) continue;
    time.title = time.textContent + " UTC";
    time.textContent = times.format(date);
  }

  // The filter, and the keys: a slash goes to it, arrows walk the list.
  const filter = one("#filter");
  const sift = () => {
    const words = filter.value.toLocaleLowerCase();
    let left = 0;
    for (const row of rows) {
      row.hidden = !one("bdi", row).textContent.toLocaleLowerCase().includes(words);
      left += !row.hidden;
    }
    say(words ? `${grouped(left)} of ${grouped(rows.length)} on this page` : "");
  };
  if (filter) {
    filter.hidden = rows.length === 0;
    filter.addEventListener("input", sift);
    if (filter.value) sift();
  }
  const walkable = () => [...document.querySelectorAll("tbody tr:not([hidden]) a")];
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && filter && !filter.hidden) {
      event.preventDefault();
      filter.focus();
      filter.select();
    } else if (event.key === "Escape" && event.target === filter) {
      filter.value = "";
      sift();
      filter.blur();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && (!typing || event.target === filter)) {
      const links = walkable();
      const at = links.indexOf(document.activeElement);
      if (at < 0 && event.target !== filter) return;
      const to = links[at + (event.key === "ArrowDown" ? 1 : -1)];
      if (to) {
        event.preventDefault();
        to.focus();
      }
    }
  });

  // What an answer that is no success means.
  const meanings = {
    0: "the connection broke", 401: "sign in first", 403: "not allowed", 404: "it is gone", 405: "not allowed here",
    409: "something else has that name", 412: "it exists already", 413: "larger than this server takes",
    414: "the name is too long", 429: "too many requests, try later", 507: "no space is left on the server",
  };
  const meaning = (status, text) => meanings[status] || `${status} ${(text || "").split("\n")[0].slice(0, 200)}`.trim();

  // Deletion.
  one("tbody")?.addEventListener("click", async (event) => {
    const button = event.target.closest("button.delete");
    if (!button) return;
    const row = button.closest("tr");
    const name = one("bdi", row).textContent;
    if (!confirm(`Delete \u201c${name}\u201d? This cannot be undone.`)) return;
    button.disabled = true;
    try {
      const answer = await fetch(one("a", row).href, { method: "DELETE" });
      if (answer.status === 409) throw "the folder is not empty";
      if (!answer.ok && answer.status !== 404) throw meaning(answer.status, await answer.text());
      // Whoever uses the keyboard stays in the list.
      const links = walkable();
      const at = links.indexOf(one("a", row));
      (links[at + 1] || links[at - 1] || document.body).focus();
      row.remove();
      rows.splice(rows.indexOf(row), 1);
      one(".sum").textContent = `${grouped(rows.length)} ${rows.length === 1 ? "entry" : "entries"} left on this page`;
      say(`\u201c${name}\u201d was deleted.`, "good");
    } catch (why) {
      button.disabled = false;
      say(`\u201c${name}\u201d was not deleted: ${typeof why === "string" ? why : meanings[0]}.`, "bad");
    }
  });

  // Uploads: a queue, three at a time, each a PUT of its own that does not replace what is there until told to.
  const form = one("form.upload");
  if (!form) return;
  const list = one("#uploads");
  const AT_ONCE = 3;
  const queue = [];
  let running = 0, done = 0, troubled = 0;

  const next = () => {
    while (running < AT_ONCE && queue.length) start(queue.shift());
    if (running || queue.length || !(done || troubled)) return;
    if (!troubled) return location.reload();
    const text = `${done} uploaded, ${troubled} not. `;
    say("");
    said.append(text, make("a", { href: "" }, "Show the folder as it is now"));
  };

  const add = (file, path) => {
    const state = make("span", { class: "state" }, "waiting");
    const bar = make("progress", { max: "1", value: "0", "aria-label": `Progress of ${path}` });
    const button = make("button", { type: "button", "aria-label": `Cancel ${path}` }, "Cancel");
    const item = make("li", {}, make("bdi", { class: "file" }, path), bar, state, button);
    const upload = { file, path, item, state, bar, button, request: null, replace: false };
    button.onclick = () => cancel(upload);
    list.append(item);
    list.hidden = false;
    queue.push(upload);
  };

  const cancel = (upload) => {
    const waits = queue.indexOf(upload);
    if (waits >= 0) queue.splice(waits, 1);
    if (upload.request) return upload.request.abort();
    upload.item.remove();
    list.hidden = !list.children.length;
    next();
  };

  const fail = (upload, text, again) => {
    troubled += 1;
    upload.state.textContent = text;
    upload.state.className = "state bad";
    upload.bar.hidden = true;
    upload.button.textContent = again;
    upload.button.setAttribute("aria-label", `${again} ${upload.path}`);
    upload.button.onclick = () => {
      troubled -= 1;
      upload.replace ||= again === "Replace";
      upload.state.className = "state";
      upload.bar.hidden = false;
      upload.button.textContent = "Cancel";
      upload.button.onclick = () => cancel(upload);
      queue.push(upload);
      next();
    };
  };

  const start = (upload) => {
    const request = upload.request = new XMLHttpRequest();
    running += 1;
    const end = (act) => {
      upload.request = null;
      running -= 1;
      act();
      next();
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
      if (request.status === 412) return fail(upload, meanings[412], "Replace");
      if (request.status < 200 || request.status > 299) return fail(upload, meaning(request.status, request.responseText), "Retry");
      done += 1;
      upload.bar.value = 1;
      upload.state.textContent = "done";
      upload.state.className = "state good";
      upload.button.hidden = true;
    });
    request.onerror = () => end(() => fail(upload, meanings[0], "Retry"));
    request.onabort = () => end(() => fail(upload, "cancelled", "Retry"));
    request.send(upload.file);
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const input = one("input", form);
    for (const file of input.files) add(file, file.name);
    input.value = "";
    next();
  });

  // Folders that are dropped are walked; a browser hands out their entries a few at a time.
  const walk = async (entry, above) => {
    const path = above + entry.name;
    if (entry.isFile) return add(await new Promise((ok, no) => entry.file(ok, no)), path);
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((ok, no) => reader.readEntries(ok, no));
      if (!some.length) return;
      for (const inner of some) await walk(inner, path + "/");
    }
  };
  const brings = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  const mark = (on) => document.body.classList.toggle("dropping", on);
  addEventListener("dragover", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    mark(true);
  });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) mark(false); });
  addEventListener("drop", async (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    mark(false);
    // Entries are there only until the handler first waits.
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    if (!entries.length) for (const file of event.dataTransfer.files) add(file, file.name);
    try {
      for (const entry of entries) await walk(entry, "");
    } catch {
      say("Some of what was dropped cannot be read.", "bad");
    }
    next();
  });
  addEventListener("beforeunload", (event) => { if (running) event.preventDefault(); });
})();
