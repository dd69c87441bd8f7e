
  // Tables are sorted by a click on a title and filtered by words; a table's order and filter are in the address under
  // its name. Numbers were rounded before: rows that show the same keep their order.
  const tables = [...document.querySelectorAll("table[data-table]")].map((table) => {
    const rows = [], heads = new Map();
    let head = null;
    for (const row of table.tBodies[0].rows) {
      if (row.className === "span") head = row;
      else { rows.push(row); heads.set(row, head); }
    }
    const texts = rows.map((row) => `${heads.get(row)?.textContent ?? ""} ${row.textContent}`.toLowerCase());
    return { name: table.dataset.table, table, rows, heads, texts, titles: [...[...table.tHead.rows].at(-1).cells] };
  });

  function asNumber(text) {
    const found = /[-+]?\d[\d.]*(e[-+]?\d+)?/i.exec(text);
    return found ? Number(found[0]) - (text.startsWith("<") ? 1e-9 : 0) : NaN;
  }

  // Nothing and words stand below the numbers of a column, whatever its order.
  function comparing(column, isNumber, sign) {
    const text = (row) => row.cells[column].textContent;
    return (a, b) => {
      if (!isNumber) return sign * text(a).localeCompare(text(b), "en", { numeric: true });
      const [x, y] = [asNumber(text(a)), asNumber(text(b))];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return sign * (x - y);
    };
  }

  // Rows below one title stay there, in their order among themselves.
  function showTable({ name, table, rows, heads, texts, titles }) {
    const order = state.get(`sort.${name}`), words = state.get(`find.${name}`).toLowerCase().split(/\s+/);
    const column = titles.findIndex((title) => title.dataset.column === order.replace(/^-/, ""));
    const sign = order.startsWith("-") ? -1 : 1;
    titles.forEach((title, at) => title.setAttribute("aria-sort", at !== column ? "none" : sign < 0 ? "descending" : "ascending"));
    const kept = rows.filter((_, at) => words.every((word) => texts[at].includes(word)));
    if (column >= 0) {
      const order = comparing(column, titles[column].classList.contains("number"), sign), places = [...new Set(heads.values())];
      const place = (row) => places.indexOf(heads.get(row));
      kept.sort((a, b) => place(a) - place(b) || order(a, b));
    }
    const titled = kept.flatMap((row, at) => (heads.get(row) && heads.get(row) !== heads.get(kept[at - 1]) ? [heads.get(row), row] : [row]));
    table.tBodies[0].replaceChildren(...titled);
  }

  // By a click ascending, descending, then as it was.
  const nextOrder = (order, column) => (order === column ? `-${column}` : order === `-${column}` ? "" : column);

  function sortButton(title, pressed) {
    const button = make("button", { type: "button", title: "sort" }, ...title.childNodes);
    button.addEventListener("click", pressed);
    title.replaceChildren(button);
  }

  const FEW = 6;
  function startTable(shown) {
    const { name, table, rows, titles } = shown;
    const again = () => tables.filter((other) => other.name === name).forEach(showTable);
    for (const title of titles) {
      sortButton(title, () => { state.set({ [`sort.${name}`]: nextOrder(state.get(`sort.${name}`), title.dataset.column) }); again(); });
    }
    if (rows.length > FEW) {
      const field = make("input", { type: "search", placeholder: "filter rows", value: state.get(`find.${name}`), "aria-label": `Filter rows of ${name}` });
      field.addEventListener("input", () => { state.set({ [`find.${name}`]: field.value }); again(); });
      table.closest(".table").querySelector(".tools").prepend(field);
      shown.field = field;
    }
    showTable(shown);
  }

  function showTables() {
    for (const shown of tables) {
      if (shown.field) shown.field.value = state.get(`find.${shown.name}`);
      showTable(shown);
      const folded = shown.table.closest("details");
      if (folded && (state.get(`sort.${shown.name}`) || state.get(`find.${shown.name}`))) folded.open = true;
    }
  }
