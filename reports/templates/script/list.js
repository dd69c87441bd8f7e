
  // The samples: filtered and sorted by columns that are there at once, drawn as far as they are in view.
  const RESULTS = ["right", "wrong", "unparsed", "error"];
  const LOSSES = [[1, "truncated"], [2, "frame loss"], [4, "dropped calls"], [8, "forced answer"], [16, "failed call"]];
  const BEYOND = 8;

  class Samples {
    constructor(index) {
      Object.assign(this, { chunk: index.chunk, runs: index.runs, errors: index.errors, tags: index.tags });
      Object.assign(this, { questions: index.questions, columns: index.samples });
      this.rows = this.columns.question.map((_, row) => row);
      this.first = new Map();
      this.columns.question.forEach((question, row) => { if (!this.first.has(question)) this.first.set(question, row); });
      // What words are looked for in without opening a transcript.
      this.words = this.questions.text.map((words, at) => `${this.questions.uid[at]} ${words} ${this.questions.gold[at]}`.toLowerCase());
      this.said = [];
    }

    uid(row) { return this.questions.uid[this.columns.question[row]]; }
    run(row) { return this.runs[this.columns.run[row]]; }
    name(row) { return `${this.run(row).split}/${this.uid(row)}`; }
    result(row) { return RESULTS[this.columns.result[row]]; }

    // All answers to a row's question.
    answers(row) {
      const question = this.columns.question[row], rows = [];
      for (let at = this.first.get(question); this.columns.question[at] === question; at += 1) rows.push(at);
      return rows;
    }

    find(name, run) { return this.rows.find((row) => (!run || this.run(row).name === run) && this.name(row) === name); }

    // The answer that a row is compared with: that of a named run, or of the first run of its split.
    partner(row, against) {
      const { split, against: first } = this.run(row);
      const run = against === "" ? first : this.runs.findIndex((other) => other.split === split && other.name === against);
      return run === null || run < 0 ? undefined : this.answers(row).find((other) => other !== row && this.columns.run[other] === run);
    }

    flip(row, against) {
      const other = this.partner(row, against);
      if (other === undefined) return "";
      const [before, after] = [other, row].map((one) => this.columns.result[one] === 0);
      return before === after ? "" : after ? "gained" : "lost";
    }

    notes(row, against) {
      const notes = LOSSES.filter(([bit]) => this.columns.loss[row] & bit).map(([, what]) => what);
      const flip = this.flip(row, against), error = this.columns.error[row];
      if (error !== null) notes.unshift(this.errors[error]);
      if (flip) notes.unshift(flip === "gained" ? "wrong to right" : "right to wrong");
      return notes.join(", ");
    }

    // Whether a row passes all filters but that of words in transcripts.
    matching() {
      const { columns, runs } = this, wanted = (name) => state.get(name);
      const [split, run, result, flip, against, tools, loss] = ["split", "run", "result", "flip", "against", "tools", "loss"].map(wanted);
      const error = wanted("error"), tag = this.tags.indexOf(wanted("tag"));
      const words = wanted("in") ? [] : wanted("q").toLowerCase().split(/\s+/).filter(Boolean);
      const bit = LOSSES.find(([, what]) => what === loss)?.[0];
      const tests = [];
      if (split) tests.push((row) => runs[columns.run[row]].split === split);
      if (run) tests.push((row) => runs[columns.run[row]].name === run);
      if (result) tests.push((row) => RESULTS[columns.result[row]] === result);
      if (error) tests.push((row) => columns.error[row] !== null && this.errors[columns.error[row]] === error);
      if (wanted("tag")) tests.push((row) => this.questions.tags[columns.question[row]].includes(tag));
      if (tools) tests.push((row) => (tools === "failed call" ? (columns.loss[row] & 16) > 0 : (columns.calls[row] > 0) === (tools === "used")));
      if (bit) tests.push((row) => (columns.loss[row] & bit) > 0);
      if (flip) tests.push((row) => { const found = this.flip(row, against); return flip === "any" ? found !== "" : found === flip; });
      if (words.length) tests.push((row) => words.every((word) => this.words[columns.question[row]].includes(word) || columns.answer[row].toLowerCase().includes(word)));
      return (row) => tests.every((test) => test(row));
    }

    // The texts of a chunk in lower case, which are kept: a second search does not unpack.
    async texts(number) {
      if (!this.said[number]) {
        const strings = (value) => (typeof value === "string" ? [value] : value && typeof value === "object" ? Object.values(value).flatMap(strings) : []);
        const all = ({ question, options, messages, tools, calls, final, error }) =>
          strings([question, options, messages, tools.map(({ call, text }) => [call, text]), calls.map(({ text, error }) => [text, error]), final, error]);
        this.said[number] = (await unpack(`chunk${number}`)).map((sample) => all(sample).join("\n").toLowerCase());
      }
      return this.said[number];
    }
  }

  // What the columns show and are sorted by, in the order of their titles.
  const COLUMNS = [
    ["sample", (all, row) => all.uid(row)], ["question", (all, row) => all.questions.text[all.columns.question[row]]],
    ["run", (all, row) => all.run(row).name], ["result", (all, row) => all.result(row)],
    ["answer", (all, row) => all.columns.answer[row]], ["gold", (all, row) => all.questions.gold[all.columns.question[row]]],
    ["value", (all, row) => all.columns.value[row]], ["notes", (all, row) => all.notes(row, state.get("against"))],
    ["split", (all, row) => all.run(row).split], ["calls", (all, row) => all.columns.calls[row]],
    ["seconds", (all, row) => all.columns.seconds[row]], ["length", (all, row) => all.columns.length[row]],
  ];
  const NUMBERS = ["value", "calls", "seconds", "length"];

  function sorted(all, rows) {
    const order = state.get("sort"), column = COLUMNS.find(([name]) => name === order.replace(/^-/, ""));
    if (!column) return rows;
    const sign = order.startsWith("-") ? -1 : 1, collator = new Intl.Collator("en", { numeric: true });
    const keys = new Map(rows.map((row) => [row, column[1](all, row)]));
    const compare = (a, b) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "number" ? a - b : collator.compare(a, b));
    };
    return rows.sort((a, b) => compare(keys.get(a), keys.get(b)) || a - b);
  }

  // The list in view. Its rows are one height, so that the place of each is known without drawing it.
  class List {
    constructor(all, open) {
      Object.assign(this, { all, open, shown: all.rows, drawn: [], active: 0, search: 0 });
      this.box = byId("list");
      this.body = byId("rows");
      this.height = 2 * parseFloat(getComputedStyle(document.documentElement).fontSize);
      for (const title of byId("titles").children) {
        sortButton(title, () => { state.set({ sort: nextOrder(state.get("sort"), title.dataset.column) }); this.filter(); });
      }
      this.box.addEventListener("scroll", () => this.moved(), { passive: true });
      window.addEventListener("resize", () => this.moved());
      this.box.addEventListener("keydown", (event) => this.key(event));
      this.body.addEventListener("click", (event) => {
        const row = event.target.closest("[role=row]");
        if (row) { this.active = Number(row.dataset.at); this.draw(); this.open(this.shown[this.active]); }
      });
    }

    filter() {
      const search = (this.search += 1), rows = this.all.rows.filter(this.all.matching());
      for (const title of byId("titles").children) {
        const [name, order] = [title.dataset.column, state.get("sort")];
        title.setAttribute("aria-sort", order === name ? "ascending" : order === `-${name}` ? "descending" : "none");
      }
      if (state.get("q").trim() && state.get("in")) this.read(search, rows);
      else this.show(rows, `${rows.length} of ${this.all.rows.length} samples`);
    }

    // Transcripts are unpacked chunk by chunk; what was found is shown meanwhile, and another filter ends the search.
    async read(search, rows) {
      const words = state.get("q").toLowerCase().split(/\s+/).filter(Boolean), found = [];
      const said = (at) => this.show([...found], `${found.length} found, transcripts read: ${at} of ${rows.length}`);
      let chunk = -1, texts = [], drawn = performance.now();
      said(0);
      for (const [at, row] of rows.entries()) {
        const number = Math.floor(row / this.all.chunk);
        if (number !== chunk) {
          texts = await this.all.texts(number);
          chunk = number;
          if (this.search !== search) return;
          if (performance.now() - drawn > 150) { said(at); drawn = performance.now(); }
        }
        const answer = `${this.all.words[this.all.columns.question[row]]} ${texts[row % this.all.chunk]}`;
        if (words.every((word) => answer.includes(word))) found.push(row);
      }
      this.show(found, `${found.length} of ${this.all.rows.length} samples`);
    }

    show(rows, count) {
      this.shown = sorted(this.all, rows);
      this.active = 0;
      byId("count").textContent = count;
      this.body.style.height = `${this.height * rows.length}px`;
      this.box.setAttribute("aria-rowcount", rows.length + 1);
      this.box.scrollTop = 0;
      this.draw();
    }

    // The rows to be drawn: those in view and some beyond, in steps, so that most movements draw nothing.
    range() {
      const step = (pixels) => Math.floor(pixels / this.height / BEYOND) * BEYOND;
      const top = this.box.scrollTop;
      return [Math.max(0, step(top) - BEYOND), Math.min(this.shown.length, step(top + this.box.clientHeight) + 2 * BEYOND)];
    }

    moved() {
      if (this.range().join() !== this.drawn.join()) this.draw();
    }

    draw() {
      const [from, to] = (this.drawn = this.range());
      const rows = [];
      for (let at = from; at < to; at += 1) rows.push(this.line(at));
      this.body.replaceChildren(...rows);
      if (this.shown.length) this.box.setAttribute("aria-activedescendant", `row${this.active}`);
      else this.box.removeAttribute("aria-activedescendant");
    }

    line(at) {
      const row = this.shown[at];
      const cells = COLUMNS.map(([name, value], number) => {
        const shown = String(value(this.all, row) ?? "");
        const tone = name !== "result" ? "" : shown === "right" ? "right" : "wrong";
        return make("span", { role: number ? "gridcell" : "rowheader", className: NUMBERS.includes(name) ? "number" : tone, title: visible(shown) }, shown);
      });
      const line = make("div", { role: "row", id: `row${at}`, className: at === this.active ? "line active" : "line", "aria-rowindex": at + 2, "aria-selected": at === this.active, "data-at": at }, ...cells);
      line.style.top = `${this.height * at}px`;
      return line;
    }

    key(event) {
      if (event.target !== this.box || event.ctrlKey || event.metaKey || event.altKey) return;
      const page = Math.max(1, Math.floor(this.box.clientHeight / this.height) - 2), last = this.shown.length - 1;
      const to = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: last }[event.key];
      if (event.key === "Enter" && last >= 0) this.open(this.shown[this.active]);
      else if (to === undefined) return;
      else this.go(Math.min(last, Math.max(0, to)));
      event.preventDefault();
    }

    // The header covers the first row of the box.
    go(at) {
      this.active = Math.max(0, at);
      const top = this.height * this.active, room = this.box.clientHeight - 2 * this.height;
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      else if (top > this.box.scrollTop + room) this.box.scrollTop = top - room;
      this.draw();
    }
  }
