"use strict";
// Text from models, subtitles and file names only ever becomes text nodes: no innerHTML, no URL, no
// attribute that runs. The page's policy would refuse anything else anyway.
(() => {
  const PER_PAGE = 100;
  const LONG = 20000;
  const RESULTS = ["right", "wrong", "unparsed", "error"];
  const LOSSES = [[1, "truncated"], [2, "frame loss"], [4, "dropped calls"], [8, "forced"], [16, "failed call"]];
  const byId = (id) => document.getElementById(id);
  const unpacked = new Map();

  async function unpack(id) {
    if (!unpacked.has(id)) {
      const packed = Uint8Array.from(atob(byId(id).textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      unpacked.set(id, await new Response(stream).json());
      // A few chunks are kept; a reader of ten thousand samples does not fill the memory.
      const old = [...unpacked.keys()].filter((key) => key !== "index");
      if (old.length > 8) unpacked.delete(old[0]);
    }
    return unpacked.get(id);
  }

  // What turns a line around or hides in it is shown by its code.
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
  const visible = (text) =>
    String(text).replace(HIDDEN, (c) => "\u27e8U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "\u27e9");

  function make(name, properties = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) element[key] = value;
    element.append(...children.map((child) => (child instanceof Node ? child : visible(child))));
    return element;
  }

  const SVG = "http://www.w3.org/2000/svg";
  function mark(name, attributes, tip) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (tip !== undefined) element.append(Object.assign(document.createElementNS(SVG, "title"), { textContent: visible(tip) }));
    return element;
  }

  function text(content) {
    const value = String(content ?? "");
    const block = make("pre", {}, value.slice(0, LONG));
    if (value.length <= LONG) return block;
    const all = make("button", { type: "button" }, `Show all ${value.length} characters`);
    all.addEventListener("click", () => { block.textContent = visible(value); all.remove(); });
    return make("div", {}, block, all);
  }

  const seconds = (value) => (value === null || value === undefined ? "?" : `${Math.round(value * 100) / 100} s`);

  function timeline(sample) {
    const ends = sample.tools.map((tool) => tool.end).concat(sample.evidence ?? []).filter(Number.isFinite);
    const length = sample.length ?? Math.max(0, ...ends);
    if (!(length > 0)) return "";
    const width = 700, row = 16, turns = Math.max(0, ...sample.tools.map((tool) => tool.turn + 1));
    const height = 40 + row * turns;
    const chart = mark("svg", { viewBox: `0 0 ${width + 20} ${height}`, width: width + 20, height, role: "img",
      "aria-label": "Tool windows and evidence over the video" });
    const x = (time) => 10 + width * Math.min(1, Math.max(0, time / length));
    const bar = (name, from, to, y, tall, tip) =>
      chart.append(mark("rect", { class: name, x: x(from), y, width: Math.max(2, x(to) - x(from)), height: tall }, tip));
    if (sample.evidence) bar("evidence", sample.evidence[0], sample.evidence[1], 2, height - 22, `evidence ${seconds(sample.evidence[0])} to ${seconds(sample.evidence[1])}`);
    chart.append(mark("line", { class: "grid", x1: 10, x2: 10 + width, y1: height - 18, y2: height - 18 }));
    for (const tool of sample.tools) {
      if (!Number.isFinite(tool.start) || !Number.isFinite(tool.end)) continue;
      const failed = tool.kind === "failed" || tool.kind === "malformed";
      bar(failed ? "window failed" : "window", tool.start, tool.end, 6 + row * tool.turn, row - 4,
        `turn ${tool.turn}, call ${tool.index}: ${seconds(tool.start)} to ${seconds(tool.end)}, ${tool.kind}`);
    }
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const tick = mark("text", { class: "tick", x: x(share * length), y: height - 4, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" });
      tick.textContent = seconds(Math.round(share * length));
      chart.append(tick);
    }
    const box = make("div", { className: "scroll chart" });
    box.append(chart);
    return make("div", {}, make("h3", {}, "Over the video"), box);
  }

  function frames(times) {
    const known = times.filter((time) => time !== null).map((time) => seconds(time));
    const label = `${times.length} frames` + (known.length ? ` at ${known.join(", ")}` : "");
    return make("p", { className: "frames" }, label);
  }

  // Thumbnails have names that the report made up: numbers in a folder beside the page.
  const THUMBNAIL = /^frames\/v\d+\/\d+\.jpg$/;
  function thumbnails(list) {
    const known = (list ?? []).filter(([, path]) => THUMBNAIL.test(path));
    if (!known.length) return "";
    const figure = ([time, path]) => make("figure", {}, make("img", { src: path, alt: `frame at ${seconds(time)}`, loading: "lazy" }), make("figcaption", {}, seconds(time)));
    return make("div", { className: "film" }, ...known.map(figure));
  }

  function part(value) {
    if (value.frames) return frames(value.frames);
    if (value.file !== undefined) return make("p", { className: "frames" }, `video ${value.file}` + (value.nframes ? `, ${value.nframes} frames` : ""));
    return text(value.text);
  }

  const said = (role, title, ...children) => make("div", { className: role === "assistant" ? "said assistant" : "said" }, make("h4", {}, title), ...children);

  function facts(pairs) {
    const list = make("dl", { className: "facts" });
    for (const [name, value] of pairs) {
      if (value === null || value === undefined || value === "" || value === false) continue;
      list.append(make("div", {}, make("dt", {}, name), make("dd", {}, value)));
    }
    return list;
  }

  function transcript(sample) {
    const letters = [...(sample.letters || "ABCDEFGHIJKLMNOPQRSTUVWXYZ")];
    const options = make("ol", { type: "A" }, ...sample.options.map((option) => make("li", {}, option)));
    const tokens = sample.calls.reduce((sum, call) => sum + (call.usage ? call.usage.prompt_tokens + call.usage.completion_tokens : 0), 0);
    const result = facts([
      ["answer", sample.answer ?? "none found"], ["gold", sample.gold], ["value", String(sample.value)],
      ["rule that matched", sample.rule], ["outcome", sample.outcome], ["letters", sample.options.length ? letters.join(" ") : ""],
      ["video", sample.video], ["subtitles", sample.subtitles ? `${sample.subtitles} characters` : ""],
      ["tags", Object.entries(sample.tags).map(([name, values]) => `${name}: ${values.join(", ")}`).join("; ")],
      ["flags", sample.flags.join(", ")], ["seconds", String(Math.round(sample.seconds * 100) / 100)], ["tokens", tokens ? String(tokens) : ""],
      ["error", sample.error && `${sample.error.class} at ${sample.error.step}: ${sample.error.message}`],
      ["frame loss", sample.frame_loss], ["truncated", sample.truncated && "yes"], ["dropped calls", sample.dropped ? String(sample.dropped) : ""],
      ["forced answer", sample.forced && "yes"],
    ]);
    const tools = sample.tools.map((tool) => said("tool", `Call ${tool.turn}.${tool.index}: ${tool.kind}, ${seconds(tool.start)} to ${seconds(tool.end)}`,
      text(JSON.stringify(tool.call, null, 1)), thumbnails(tool.thumbnails), ...(tool.frames.length ? [frames(tool.frames)] : []), ...(tool.text ? [text(tool.text)] : [])));
    const messages = sample.messages.map((message) => said(message.role, message.role, ...message.parts.map(part)));
    const calls = sample.calls.map((call) => said("call", `Model call ${call.step}: ${seconds(call.seconds)}` + (call.finish ? `, ended by ${typeof call.finish === "string" ? call.finish : JSON.stringify(call.finish)}` : ""),
      ...(call.text ? [text(call.text)] : []), ...(call.error ? [text(call.error)] : [])));
    return [
      result, make("h3", {}, "Question"), text(sample.question), ...(sample.options.length ? [options] : []),
      make("h3", {}, "Scored response"), text(sample.final),
      timeline(sample), thumbnails(sample.thumbnails),
      ...(tools.length ? [make("h3", {}, "Tool calls"), ...tools] : []),
      make("h3", {}, "Conversation"), ...messages,
      make("h3", {}, "Model calls"), ...calls,
    ];
  }

  async function start() {
    const index = await unpack("index");
    const rows = index.uid.map((_, row) => row);
    const form = byId("filters"), body = byId("list").tBodies[0], dialog = byId("transcript");
    let shown = rows, page = 0, open = -1;

    index.runs.forEach((run, number) => form.run.append(make("option", { value: String(number) }, `${run.task} · ${run.run} (${run.profile})`)));

    function matches(row) {
      const loss = index.loss[row], tools = form.tools.value;
      return (form.run.value === "" || index.run[row] === Number(form.run.value))
        && (form.result.value === "" || index.result[row] === Number(form.result.value))
        && (form.turned.value === "" || index.turned[row] === Number(form.turned.value))
        && (tools === "" || (tools === "some" ? index.calls[row] > 0 : tools === "none" ? index.calls[row] === 0 : (loss & 16) > 0))
        && (form.loss.value === "" || (loss & Number(form.loss.value)) > 0)
        && index.uid[row].toLowerCase().includes(form.uid.value.trim().toLowerCase());
    }

    function line(row) {
      const name = make("button", { type: "button" }, index.uid[row]);
      name.addEventListener("click", () => show(row));
      const result = RESULTS[index.result[row]];
      const notes = LOSSES.filter(([bit]) => index.loss[row] & bit).map(([, what]) => what);
      if (index.turned[row]) notes.unshift(index.turned[row] === 1 ? "wrong to right" : "right to wrong");
      const number = (value) => make("td", { className: "number" }, String(value));
      return make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, index.runs[index.run[row]].task),
        make("td", { className: result === "right" ? "right" : "wrong" }, result), make("td", {}, index.answer[row]), make("td", {}, index.gold[row]),
        number(index.value[row]), number(index.calls[row]), number(index.seconds[row]), make("td", {}, notes.join(", ")));
    }

    function draw() {
      const pages = Math.max(1, Math.ceil(shown.length / PER_PAGE));
      page = Math.min(page, pages - 1);
      body.replaceChildren(...shown.slice(page * PER_PAGE, (page + 1) * PER_PAGE).map(line));
      byId("count").textContent = `${shown.length} of ${rows.length} samples`;
      byId("page").textContent = `page ${page + 1} of ${pages}`;
      byId("previous").disabled = page === 0;
      byId("next").disabled = page === pages - 1;
    }

    function filter() { shown = rows.filter(matches); page = 0; draw(); }

    async function show(row) {
      open = row;
      const chunk = await unpack(`chunk${Math.floor(row / index.chunk)}`);
      if (open !== row) return;
      const run = index.runs[index.run[row]];
      byId("transcript-title").textContent = visible(`${run.task} ${index.uid[row]}: ${RESULTS[index.result[row]]}`);
      byId("transcript-body").replaceChildren(...transcript(chunk[row % index.chunk]));
      const at = shown.indexOf(row);
      byId("previous").disabled = at <= 0;
      byId("next").disabled = at < 0 || at === shown.length - 1;
      if (!dialog.open) dialog.showModal();
      dialog.scrollTop = 0;
      history.replaceState(null, "", `#sample=${index.run[row]}/${encodeURIComponent(index.uid[row])}`);
    }

    function fromAddress() {
      const found = /^#sample=(\d+)\/(.*)$/.exec(location.hash);
      if (!found) return;
      let uid = found[2];
      try { uid = decodeURIComponent(uid); } catch { return; }
      const row = rows.find((row) => index.run[row] === Number(found[1]) && index.uid[row] === uid);
      if (row !== undefined && row !== open) show(row);
    }

    form.uid.addEventListener("input", filter);
    // Leaving the text field is a change, too: drawing then would take the button away under a click.
    form.addEventListener("change", (event) => { if (event.target !== form.uid) filter(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    byId("previous").addEventListener("click", () => { page -= 1; draw(); });
    byId("next").addEventListener("click", () => { page += 1; draw(); });
    byId("close").addEventListener("click", () => dialog.close());
    const step = (by) => { const row = shown[shown.indexOf(open) + by]; if (row !== undefined) show(row); };
    byId("previous").addEventListener("click", () => step(-1));
    byId("next").addEventListener("click", () => step(1));
    dialog.addEventListener("close", () => { open = -1; history.replaceState(null, "", "#samples"); });
    window.addEventListener("hashchange", fromAddress);
    draw();
    fromAddress();
  }

  // What is folded on screen is still wanted on paper.
  window.addEventListener("beforeprint", () => document.querySelectorAll("main details").forEach((details) => { details.open = true; }));

  start().catch((error) => { byId("count").textContent = `The samples cannot be shown: ${error}`; });
})();
