
  // The open sample: one transcript, or two of one question beside one another.
  class Dialog {
    constructor(all) {
      Object.assign(this, { all, row: undefined, shown: 0 });
      this.dialog = byId("transcript");
      this.show = byId("show");
      this.beside = byId("beside");
      this.show.addEventListener("change", () => this.open(this.all.answers(this.row).find((row) => this.all.run(row).name === this.show.value)));
      this.beside.addEventListener("change", () => { state.set({ beside: this.beside.value }); this.open(this.row); });
      byId("previous").addEventListener("click", () => this.step(-1));
      byId("next").addEventListener("click", () => this.step(1));
      byId("close").addEventListener("click", () => this.dialog.close());
      this.dialog.addEventListener("close", () => { this.row = undefined; state.set({ sample: "", show: "", beside: "" }); this.list.box.focus(); });
      this.dialog.addEventListener("keydown", (event) => {
        if (event.target.matches("select, input") || event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key === "ArrowLeft" || event.key === "ArrowRight") { this.step(event.key === "ArrowLeft" ? -1 : 1); event.preventDefault(); }
      });
    }

    step(by) {
      const at = this.list.shown.indexOf(this.row) + by, row = this.list.shown[at];
      if (row !== undefined) { this.list.go(at); this.open(row); }
    }

    async read(row) {
      const chunk = await unpack(`chunk${Math.floor(row / this.all.chunk)}`);
      return { name: this.all.run(row).name, result: this.all.result(row), sample: chunk[row % this.all.chunk] };
    }

    // Where runs are compared, the answer that this one is compared with stands beside it.
    async open(row) {
      const { all } = this, answers = all.answers(row);
      if (this.row === undefined && !state.get("beside") && (state.get("against") || state.get("flip"))) {
        const partner = all.partner(row, state.get("against"));
        if (partner !== undefined) state.set({ beside: all.run(partner).name });
      }
      this.row = row;
      const other = answers.find((one) => one !== row && all.run(one).name === state.get("beside"));
      const read = await Promise.all([row, other].filter((one) => one !== undefined).map((one) => this.read(one)));
      if (this.row !== row) return;
      byId("transcript-title").textContent = visible(`${all.run(row).split} ${all.uid(row)} · ${all.run(row).name}: ${all.result(row)}`);
      const names = answers.map((one) => all.run(one).name), others = names.filter((name) => name !== all.run(row).name);
      this.show.replaceChildren(...names.map((name) => option(name)));
      this.show.value = all.run(row).name;
      this.beside.replaceChildren(option("", "none"), ...others.map((name) => option(name)));
      this.beside.value = other === undefined ? "" : all.run(other).name;
      const sides = make("div", { className: read.length > 1 ? "sides two" : "sides" }, ...read.map(transcript));
      byId("transcript-body").replaceChildren(make("h3", {}, "Question"), ...question(read[0].sample), timeline(read), sides);
      const at = this.list.shown.indexOf(row);
      byId("previous").disabled = at <= 0;
      byId("next").disabled = at < 0 || at === this.list.shown.length - 1;
      if (!this.dialog.open) this.dialog.showModal();
      this.dialog.scrollTop = 0;
      state.set({ sample: all.name(row), show: all.run(row).name });
    }
  }

  const FILTERS = ["q", "split", "run", "result", "flip", "against", "error", "tag", "tools", "loss"];

  function fill(form, all) {
    const distinct = (texts) => [...new Set(texts)];
    const add = (select, names) => select.append(...names.map((name) => option(name)));
    form.split.append(...distinct(all.runs.map((run) => run.split)).map((split) => option(split, all.runs.find((run) => run.split === split).title)));
    add(form.run, distinct(all.runs.map((run) => run.name)));
    add(form.against, distinct(all.runs.map((run) => run.name)));
    add(form.error, all.errors);
    add(form.tag, [...all.tags].sort());
    for (const select of form.querySelectorAll("select")) select.parentElement.hidden = select.options.length < 2;
  }

  async function start() {
    const form = byId("filters"), all = new Samples(await unpack("index"));
    const dialog = new Dialog(all), list = new List(all, (row) => dialog.open(row));
    dialog.list = list;
    fill(form, all);
    const set = () => {
      state.set({ ...Object.fromEntries(FILTERS.map((name) => [name, form[name].value])), in: form.in.checked ? "transcripts" : "" });
      list.filter();
    };
    form.addEventListener("input", set);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(set));
    function fromAddress() {
      for (const name of FILTERS) form[name].value = state.get(name);
      form.in.checked = state.get("in") !== "";
      list.filter();
      const row = state.get("sample") ? all.find(state.get("sample"), state.get("show")) : undefined;
      if (row !== undefined) dialog.open(row);
      else if (dialog.dialog.open) dialog.dialog.close();
      // A sample that is not there is said, not passed over.
      if (state.get("sample") && row === undefined) byId("count").textContent += `; this report has no sample ${visible(state.get("sample"))} of run ${visible(state.get("show"))}`;
      if (FILTERS.some((name) => state.get(name))) byId("samples").scrollIntoView();
    }
    window.addEventListener("hashchange", () => { if (state.read()) { showTables(); fromAddress(); } });
    fromAddress();
  }

  state.read();
  tables.forEach(startTable);
  showTables();
  start().catch((error) => { byId("count").textContent = `The samples cannot be shown: ${error}`; });
