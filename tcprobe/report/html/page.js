"use strict";
/* Tables that sort, search, filter, choose columns, turn pages and open rows; all of it stands in the address. */
(() => {
  const PAGE = 20, CHOICES = 9, SHORT = 8, LISTED = 5;
  const LINKS = ["op", "layer", "kernel"];
  const state = new URLSearchParams(location.hash.slice(1));
  const tables = new Map();

  const make = (tag, attributes = {}, ...inside) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name in element && name !== "list") element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...inside);
    return element;
  };
  const save = () => history.replaceState(null, "", "#" + state);
  const heading = (node) => {
    const over = node.closest("details")?.querySelector("summary") ?? node.parentElement.previousElementSibling;
    return over && /^(SUMMARY|H\d)$/.test(over.tagName) ? over.textContent.split(" (")[0] : node.id;
  };

  class Table {
    constructor(node) {
      this.node = node;
      this.id = node.id;
      this.title = heading(node);
      this.body = node.tBodies[0];
      this.heads = [...node.tHead.rows[0].cells];
      this.names = this.heads.map((head) => head.textContent);
      this.columns = this.heads.map((head) => head.dataset.c ?? "");
      this.rows = [...this.body.rows];
      this.texts = new Map();
      this.rows.forEach((row, at) => { row.dataset.at = at; });
      this.initial = this.heads.map((_, at) => !node.classList.contains("h" + (at + 1)));
      this.heads.forEach((head, at) => this.sortable(head, at));
      this.tools();
      this.body.addEventListener("click", (event) => this.clicked(event));
      this.draw();
    }

    get(key) { return state.get(this.id + "." + key) ?? ""; }
    put(key, value) {
      const name = this.id + "." + key;
      if (value) state.set(name, value); else state.delete(name);
      if (key !== "page" && key !== "row" && key !== "columns") state.delete(this.id + ".page");
      save();
      this.draw();
    }

    text(row, at) { return row.cells[at].textContent; }
    whole(row) {
      if (!this.texts.has(row)) this.texts.set(row, row.textContent.toLowerCase());
      return this.texts.get(row);
    }
    value(row, at) {
      const raw = row.cells[at].dataset.v, text = this.text(row, at);
      return raw !== undefined ? Number(raw) : text === "-" || text === "" ? NaN : text;
    }

    sortable(head, at) {
      const name = head.textContent;
      head.replaceChildren(make("button", { type: "button", onclick: () => {
        const numbers = this.rows.some((row) => row.cells[at].dataset.v !== undefined);
        const orders = numbers ? [at + "d", at + "a", ""] : [at + "a", at + "d", ""];
        this.put("sort", orders[(orders.indexOf(this.get("sort")) + 1) % 3]);
      } }, name));
    }

    tools() {
      const scroll = this.node.parentElement, label = this.title;
      this.bar = make("div", { className: "tools" });
      this.count = make("span", { role: "status" });
      if (this.rows.length >= SHORT) {
        this.search = make("input", { type: "search", placeholder: "search", ariaLabel: "search " + label,
          oninput: () => this.put("search", this.search.value) });
        this.bar.append(this.search, ...this.filters());
      }
      this.bar.append(this.chooser(label), make("button", { type: "button", onclick: () => this.download() }, "CSV"));
      this.back = make("button", { type: "button", ariaLabel: "previous page", onclick: () => this.turn(-1) }, "\u2190");
      this.next = make("button", { type: "button", ariaLabel: "next page", onclick: () => this.turn(1) }, "\u2192");
      this.bar.append(this.back, this.count, this.next);
      scroll.before(this.bar);
    }

    filters() {
      this.selects = [];
      this.heads.forEach((_, at) => {
        if (this.rows.some((row) => row.cells[at].dataset.v !== undefined)) return;
        const values = [...new Set(this.rows.map((row) => this.text(row, at)))].sort();
        const mine = this.get("is." + at);
        if ((values.length < 2 || values.length > CHOICES) && !mine && !LINKS.includes(this.columns[at])) return;
        const options = values.length > CHOICES ? (mine ? [mine] : []) : values;
        const select = make("select", { onchange: () => this.put("is." + at, select.value) },
          make("option", { value: "" }, "all"), ...options.map((one) => make("option", { value: one }, one)));
        const shown = make("label", { hidden: values.length > CHOICES }, this.names[at], select);
        this.selects.push({ at, select, shown, fixed: values.length <= CHOICES });
      });
      return this.selects.map(({ shown }) => shown);
    }

    visible() {
      const asked = this.get("columns");
      return asked ? this.initial.map((_, at) => asked.split("_").includes(String(at))) : this.initial;
    }
    chooser(label) {
      this.boxes = this.names.map((name, at) => make("input", { type: "checkbox", disabled: at === 0, onchange: () => {
        const chosen = this.boxes.flatMap((box, place) => (box.checked ? [place] : []));
        this.put("columns", chosen.join("_"));
      } }));
      const labels = this.boxes.map((box, at) => make("label", {}, box, this.names[at]));
      return make("details", {}, make("summary", { ariaLabel: "columns of " + label }, "columns"), make("div", {}, ...labels));
    }

    turn(by) { this.put("page", String(this.page + by)); }

    chosen() {
      const words = this.get("search").toLowerCase().split(/\s+/).filter(Boolean);
      const wanted = this.heads.map((_, at) => this.get("is." + at));
      const kept = this.rows.filter((row) => words.every((word) => this.whole(row).includes(word))
        && wanted.every((text, at) => !text || this.text(row, at) === text));
      const sort = this.get("sort"), at = parseInt(sort, 10), sign = sort.endsWith("d") ? -1 : 1;
      if (!(at < this.heads.length)) return kept;
      const keyed = kept.map((row) => [this.value(row, at), row]);
      const absent = (value) => (Number.isNaN(value) ? 1 : 0);
      keyed.sort(([a], [b]) => absent(a) - absent(b)
        || (typeof a === "number" && typeof b === "number" ? sign * (a - b) || 0 : sign * String(a).localeCompare(String(b))));
      return keyed.map(([, row]) => row);
    }

    draw() {
      const rows = this.chosen(), pages = Math.max(1, Math.ceil(rows.length / PAGE));
      this.page = Math.min(pages, Math.max(1, parseInt(this.get("page"), 10) || 1));
      const start = (this.page - 1) * PAGE, shown = rows.slice(start, start + PAGE);
      this.visible().forEach((seen, at) => {
        this.node.classList.toggle("h" + (at + 1), !seen);
        this.boxes[at].checked = seen;
      });
      for (const row of shown) {
        const first = row.cells[0];
        if (!first.querySelector(".open")) first.prepend(make("button", { type: "button", className: "open", ariaLabel: "details" }));
        first.querySelector(".open").setAttribute("aria-expanded", String(row.dataset.at === this.get("row")));
      }
      this.body.replaceChildren(...shown.flatMap((row) => (row.dataset.at === this.get("row") ? [row, this.more(row)] : [row])));
      const sort = this.get("sort");
      this.heads.forEach((head, at) => {
        if (parseInt(sort, 10) === at) head.setAttribute("aria-sort", sort.endsWith("d") ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      this.count.textContent = rows.length <= PAGE && rows.length === this.rows.length ? "" :
        `${rows.length ? start + 1 : 0} to ${start + shown.length} of ${rows.length}`;
      this.back.hidden = this.next.hidden = pages === 1;
      this.back.disabled = this.page === 1;
      this.next.disabled = this.page === pages;
      if (this.search && this.search.value !== this.get("search")) this.search.value = this.get("search");
      for (const { at, select, shown: label, fixed } of this.selects ?? []) {
        const text = this.get("is." + at);
        if (text && ![...select.options].some((option) => option.value === text)) select.append(make("option", { value: text }, text));
        select.value = text;
        label.hidden = !fixed && !text;
      }
    }

    clicked(event) {
      const row = event.target.closest("tr");
      if (!row || row.classList.contains("more") || String(getSelection())) return;
      const opened = this.get("row") === row.dataset.at;
      this.put("row", opened ? "" : row.dataset.at);
      if (event.target.classList.contains("open")) row.querySelector(".open")?.focus();
    }

    more(row) {
      const pairs = this.names.flatMap((name, at) => {
        const text = this.text(row, at);
        if (text === "-" || text === "") return [];
        const copy = text.length > 40 ? [" ", make("button", { type: "button", onclick: () => navigator.clipboard?.writeText(text) }, "copy")] : [];
        return [make("dt", {}, name), make("dd", {}, text, ...copy)];
      });
      const cell = make("td", { colSpan: this.heads.length }, make("dl", {}, ...pairs, ...this.related(row)));
      return make("tr", { className: "more" }, cell);
    }

    related(row) {
      return this.columns.flatMap((column, at) => {
        const text = this.text(row, at);
        if (!LINKS.includes(column) || text === "-") return [];
        return [...tables.values()].flatMap((other) => {
          const place = other.columns.indexOf(column);
          if (other === this || place < 0) return [];
          const found = other.rows.filter((one) => other.text(one, place) === text);
          if (!found.length) return [];
          const lines = found.slice(0, LISTED).map((one) => make("div", {}, [0, ...other.initial.keys()].filter((n, i, all) =>
            other.initial[n] && n !== place && all.indexOf(n) === i).slice(0, 4).map((n) => `${other.names[n]}: ${other.text(one, n)}`).join("; ")));
          const go = make("button", { type: "button", className: "link", onclick: () => other.show(place, text) }, `show ${found.length} there`);
          return [make("dt", {}, `${other.title}, same ${this.names[at]}`), make("dd", {}, ...lines, go)];
        });
      });
    }

    show(at, text) {
      this.put("is." + at, text);
      reveal(this);
    }

    download() {
      const raw = (row, at) => row.cells[at].dataset.v ?? (this.text(row, at) === "-" ? "" : this.text(row, at));
      const safe = (text) => (/^[=+@\t\r\n-]/.test(text) && Number.isNaN(Number(text)) ? "'" + text : text);
      const field = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
      const lines = [this.names, ...this.chosen().map((row) => this.heads.map((_, at) => raw(row, at)))];
      const text = lines.map((line) => line.map((one) => field(safe(one))).join(",")).join("\n") + "\n";
      const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: this.id + ".csv" });
      link.click();
      URL.revokeObjectURL(link.href);
    }
  }

  const reveal = (table) => {
    const fold = table.node.closest("main > details");
    if (fold) fold.open = true;
    (fold ?? table.node).scrollIntoView();
    state.set("at", table.id);
    save();
  };

  const duration = (ns) => {
    const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([least]) => ns >= least * .9995) ?? [1, "ns"], scaled = ns / size;
    return `${size === 1 ? scaled : scaled.toFixed(scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0)} ${unit}`;
  };
  /* The figures of other steps than those that count, as `report --iter-start --iter-stop` has them. */
  const windowed = (chart, table) => {
    const [number, counts, sum, tc, unknown, launches] = ["iteration", "in_window", "sum_ns", "tc_ns", "unknown_ns", "launches"].map((name) => table.columns.indexOf(name));
    if (Math.min(number, sum, tc) < 0) return;
    const figure = (row, at) => (at < 0 ? 0 : Number(row.cells[at].dataset.v ?? NaN));
    const steps = table.rows.map((row) => ({ n: figure(row, number), row }));
    const counted = steps.filter(({ row }) => counts >= 0 && table.text(row, counts) === "yes");
    const [first, last] = (state.get("window") ?? "").split("_").map(Number);
    const usual = counted.length ? counted : steps;
    const percent = (share) => (share > 0 && share < 0.05 ? "<0.1" : share >= 99.95 && share < 100 ? ">99.9" : share.toFixed(1));
    const box = (label, value) => make("input", { type: "number", ariaLabel: label, min: steps[0].n, max: steps.at(-1).n, value, oninput: () => tell(true) });
    const from = box("first iteration", first || usual[0].n), to = box("last iteration", last || usual.at(-1).n);
    const output = make("output");
    const tell = (typed) => {
      const chosen = steps.filter(({ n }) => n >= from.valueAsNumber && n <= to.valueAsNumber).map(({ row }) => row);
      const total = (at) => chosen.reduce((whole, row) => whole + figure(row, at), 0);
      const [all, on, perhaps, many] = [sum, tc, unknown, launches].map(total);
      const low = percent((100 * on) / all), high = percent((100 * (on + perhaps)) / all);
      output.textContent = all > 0 && on >= 0 ? `${low === high ? low : `${low}-${high}`} % of the kernel time on Tensor Cores; ${duration(all)} of ${many.toLocaleString("en")} kernels; all else: tcprobe report --iter-start ${from.value} --iter-stop ${to.value}` : "no kernel time is known of these";
      if (typed) { state.set("window", `${from.value}_${to.value}`); save(); }
    };
    chart.append(make("div", { className: "tools" }, make("span", {}, "Iterations"), from, "to", to, output));
    tell(false);
  };

  for (const node of document.querySelectorAll("table.data")) tables.set(node.id, new Table(node));
  const first = document.querySelector("main > details");
  if (first && tables.size > 1) {
    const links = [...tables.values()].map((table) => make("button", { type: "button", className: "link", onclick: () => reveal(table) }, table.title));
    first.before(make("nav", { className: "contents", ariaLabel: "Tables" }, ...links));
  }
  for (const circle of document.querySelectorAll("circle[data-op]")) circle.addEventListener("click", () => {
    const ops = tables.get("ops");
    if (ops) ops.show(ops.columns.indexOf("op"), circle.dataset.op);
  });
  const chart = document.querySelector(".columns"), steps = tables.get("iterations");
  if (chart && steps) windowed(chart, steps);
  const at = tables.get(state.get("at"));
  if (at) reveal(at);
})();
