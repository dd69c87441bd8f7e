
  // The state of the page is its address: filters, order, open sample and pair of runs, order and filter of tables.
  // Runs, splits and samples are in it by name, which stays when a run is added.
  const state = {
    values: new Map(),
    // A name of a section alone (#claims) is no state: the browser goes there, and everything else stays.
    read() {
      const address = location.hash.slice(1);
      if (address.includes("=")) this.values = new Map(new URLSearchParams(address));
      return address.includes("=");
    },
    get(name) { return this.values.get(name) ?? ""; },
    set(changes) {
      for (const [name, value] of Object.entries(changes)) {
        if (value === "" || value === undefined) this.values.delete(name);
        else this.values.set(name, String(value));
      }
      history.replaceState(null, "", `#${new URLSearchParams([...this.values])}`);
    },
  };
