
  // The transcript of one sample, and the time line of one or two.
  const LONG = 20000;

  function text(content) {
    const value = String(content ?? "");
    const block = make("pre", {}, value.slice(0, LONG));
    if (value.length <= LONG) return block;
    const all = make("button", { type: "button" }, `Show all ${value.length} characters`);
    all.addEventListener("click", () => { block.textContent = visible(value); all.remove(); });
    return make("div", {}, block, all);
  }

  // Times are stored as hundredths of a second after the one before.
  function times(steps) {
    let now = 0;
    return steps.map((step) => (step === null ? null : (now += step) / 100));
  }

  const failed = (tool) => tool.kind === "failed" || tool.kind === "malformed";
  const WIDTH = 900, TURN = 14, FRAMES = 12;

  // Lines of one sample: the overview's frames, then one line per turn with its windows and their frames.
  const linesOf = (sample) => 1 + Math.max(0, ...sample.tools.map((tool) => tool.turn + 1));

  function timeline(runs) {
    const ends = runs.flatMap(({ sample }) => sample.tools.map((tool) => tool.end).concat(sample.evidence ?? []));
    const lengths = runs.map(({ sample }) => sample.length).filter(Number.isFinite);
    const length = Math.max(0, ...(lengths.length ? lengths : ends.filter(Number.isFinite)));
    if (!(length > 0)) return "";
    const tall = runs.map(({ sample }) => 18 + FRAMES + TURN * (linesOf(sample) - 1));
    const height = tall.reduce((sum, one) => sum + one, 24);
    const chart = draw("svg", { viewBox: `0 0 ${WIDTH + 20} ${height}`, width: WIDTH + 20, height, role: "img",
      "aria-label": "Frames, tool windows and evidence over the video" });
    const x = (time) => 10 + WIDTH * Math.min(1, Math.max(0, time / length));
    const bar = (name, from, to, y, thick, tip) =>
      chart.append(draw("rect", { class: name, x: x(from), y, width: Math.max(2, x(to) - x(from)), height: thick }, tip));
    const ticks = (all, name, y, thick) => {
      for (const time of all.filter(Number.isFinite)) {
        chart.append(draw("line", { class: name, x1: x(time), x2: x(time), y1: y, y2: y + thick }, `frame at ${seconds(time)}`));
      }
    };
    const evidence = runs.map(({ sample }) => sample.evidence).find((known) => known);
    if (evidence) bar("evidence", evidence[0], evidence[1], 0, height - 20, `evidence ${seconds(evidence[0])} to ${seconds(evidence[1])}`);
    let top = 0;
    runs.forEach(({ name, sample }, number) => {
      const label = draw("text", { class: "tick", x: 10, y: top + 12 });
      label.textContent = visible(`${name}: ${seen(sample)}`);
      chart.append(label, draw("line", { class: "grid", x1: 10, x2: 10 + WIDTH, y1: top + 18 + FRAMES, y2: top + 18 + FRAMES }));
      ticks(times(sample.overview), "frame", top + 17, FRAMES);
      for (const tool of sample.tools) {
        const y = top + 18 + FRAMES + TURN * tool.turn + 2;
        if (Number.isFinite(tool.start) && Number.isFinite(tool.end)) {
          bar(failed(tool) ? "window failed" : "window", tool.start, tool.end, y, TURN - 3,
            `turn ${tool.turn}, call ${tool.index}: ${seconds(tool.start)} to ${seconds(tool.end)}, ${tool.kind}`);
        }
        ticks(times(tool.frames), "frame", y, TURN - 3);
      }
      top += tall[number];
    });
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const tick = draw("text", { class: "tick", x: x(share * length), y: height - 4, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" });
      tick.textContent = length >= LONG_VIDEO ? clock(share * length) : seconds(Math.round(share * length));
      chart.append(tick);
    }
    const box = make("div", { className: "scroll chart", tabIndex: 0, role: "region", "aria-label": "Over the video" });
    box.append(chart);
    const legend = "Lines across: frames that the model saw. Boxes: windows of tool calls, one line a turn, dashed where the call failed.";
    return make("div", {}, make("h3", {}, "Over the video"), box, make("p", { className: "under" }, evidence ? `${legend} Green: the evidence.` : legend));
  }

  function seen(sample) {
    const names = ["frames of the overview", "of crops", "by sub-agents"];
    const known = sample.seen.map((count, at) => `${count} ${names[at]}`).filter((_, at) => sample.seen[at] > 0);
    return known.join(", ") || "no recorded frame";
  }

  function frames(steps, ofImages) {
    const all = times(steps), known = all.filter((time) => time !== null);
    if (ofImages || !known.length) return make("p", { className: "frames" }, `${all.length} ${all.length === 1 ? "image" : "images"}`);
    const list = make("details", { className: "frames" }, make("summary", {}, `${all.length} frames from ${seconds(known[0])} to ${seconds(known.at(-1))}`));
    list.append(known.map((time) => seconds(time)).join(", "));
    return list;
  }

  // Thumbnails have names that the report made up: numbers in a folder beside the page.
  const THUMBNAIL = /^frames\/v\d+\/\d+\.jpg$/;
  function thumbnails(list, ofImages) {
    const known = (list ?? []).filter(([, path]) => THUMBNAIL.test(path));
    if (!known.length) return "";
    const image = (alt, path) => make("img", { src: path, alt, loading: "lazy" });
    const figure = ([time, path]) => ofImages ? make("figure", {}, image("image of the question", path))
      : make("figure", {}, image(`frame at ${seconds(time)}`, path), make("figcaption", {}, seconds(time)));
    return make("div", { className: "film" }, ...known.map(figure));
  }

  function part(value, ofImages) {
    if (value.frames) return frames(value.frames, ofImages);
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

  // The question, which the runs of a pair share.
  function question(sample) {
    const letters = [...(sample.letters || "ABCDEFGHIJKLMNOPQRSTUVWXYZ")];
    const options = make("ol", { type: "A" }, ...sample.options.map((one) => make("li", {}, one)));
    return [
      text(sample.question), ...(sample.options.length ? [options] : []),
      facts([
        ["gold", sample.gold], ["letters", sample.options.length ? letters.join(" ") : ""], [sample.images > 1 ? `first of ${sample.images} images` : sample.images ? "image" : "video", sample.video],
        ["length", sample.length === null ? "" : seconds(sample.length)], ["subtitles", sample.subtitles ? `${sample.subtitles} characters` : ""],
        ["tags", Object.entries(sample.tags).map(([name, values]) => `${name}: ${values.join(", ")}`).join("; ")], ["flags", sample.flags.join(", ")],
      ]),
    ];
  }

  function transcript({ name, result, sample }) {
    const tokens = sample.calls.reduce((sum, call) => sum + (call.usage ? call.usage.prompt_tokens + call.usage.completion_tokens : 0), 0);
    const outcome = facts([
      ["answer", sample.answer ?? "none found"], ["value", String(rounded(sample.value))], ["rule that matched", sample.rule],
      ["outcome", sample.outcome], ["frames", sample.images ? "" : seen(sample)], ["seconds", String(rounded(sample.seconds))], ["tokens", tokens ? String(tokens) : ""],
      ["error", sample.error && `${sample.error.class} at ${sample.error.step}: ${sample.error.message}`],
      ["frame loss", sample.frame_loss], ["truncated", sample.truncated && "yes"], ["dropped calls", sample.dropped ? String(sample.dropped) : ""],
      ["forced answer", sample.forced && "yes"],
    ]);
    // Code of the model has no window.
    const code = (tool) => tool.call && typeof tool.call.code === "string" ? tool.call.code : undefined;
    const tools = sample.tools.map((tool) => said("tool", `Call ${tool.turn}.${tool.index}: ${tool.kind}` + (code(tool) === undefined ? `, ${seconds(tool.start)} to ${seconds(tool.end)}` : ""),
      text(code(tool) ?? JSON.stringify(tool.call, null, 1)), thumbnails(tool.thumbnails), ...(tool.frames.length ? [frames(tool.frames)] : []), ...(tool.text ? [text(tool.text)] : [])));
    const messages = sample.messages.map((message) => said(message.role, message.role, ...message.parts.map((one) => part(one, sample.images > 0))));
    const calls = sample.calls.map((call) => said("call", `Model call ${call.step}: ${seconds(call.seconds)}` + (call.finish ? `, ended by ${typeof call.finish === "string" ? call.finish : JSON.stringify(call.finish)}` : ""),
      ...(call.text ? [text(call.text)] : []), ...(call.error ? [text(call.error)] : [])));
    return make("article", {},
      make("h3", {}, `${name}: `, make("span", { className: result === "right" ? "right" : "wrong" }, result)),
      outcome, make("h4", {}, "Scored response"), text(sample.final), thumbnails(sample.thumbnails, sample.images > 0),
      ...(tools.length ? [make("h4", {}, "Tool calls"), ...tools] : []),
      make("h4", {}, "Conversation"), ...messages,
      make("h4", {}, "Model calls"), ...calls);
  }
