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
      this.bar.append(make("span", { className: "pager" }, this.back, this.count, this.next));
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
      const whole = () => this.names.map((name, at) => `${name}\t${this.text(row, at)}\n`).join("");
      const copy = make("button", { type: "button", onclick: () => navigator.clipboard?.writeText(whole()) }, "copy row");
      const cell = make("td", { colSpan: this.heads.length }, make("dl", {}, ...pairs, ...this.related(row)), copy);
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

  /* Figures as the reports write them: a tie goes to the even digit. */
  const fixed = (value, places) => (value * 8 % 1 === 0 && value * 10 ** places % 1 === .5 ? 2 * Math.round(value * 10 ** places / 2) / 10 ** places : value).toFixed(places);
  const duration = (ns) => {
    const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([least]) => ns >= least * .9995) ?? [1, "ns"], scaled = ns / size;
    return `${size === 1 && scaled < 100 ? Number(scaled.toPrecision(3)) : fixed(scaled, size === 1 || scaled >= 99.95 ? 0 : scaled < 9.995 ? 2 : 1)} ${unit}`;
  };
  const percent = (share) => (share > 0 && share < 0.05 ? "<0.1" : share >= 99.95 && share < 100 ? ">99.9" : fixed(share, 1));
  const percents = (low, high) => {
    const [least, most] = [percent(low), percent(high)];
    return `${least === most ? most : `${least}${/[<>]/.test(least + most) ? " to " : "-"}${most}`} %`;
  };
  const quantile = (ordered, share) => {
    const place = (ordered.length - 1) * share, at = Math.floor(place), low = ordered[at];
    return low + ((ordered[at + 1] ?? low) - low) * (place - at);
  };
  /* A typical length as the analysis has it: the median; of unlike ones, the ends apart, the mean. */
  const typical = (lengths) => {
    const ordered = lengths.toSorted((a, b) => a - b), count = ordered.length, ends = Math.max(1, Math.floor(count / 10));
    if (!count) return "";
    const uneven = count >= 5 && ordered.at(-1 - ends) > 1.5 * ordered[ends];
    const [low, high] = [.1, .9].map((share) => duration(quantile(ordered, share)));
    const middle = duration(uneven ? ordered.reduce((all, one) => all + one, 0) / count : quantile(ordered, .5));
    return low === high ? middle : `${middle} (${low} to ${high})`;
  };
  /* The figures of other steps than those that count, as `report --iter-start --iter-stop` has them. */
  const windowed = (chart) => {
    const { columns, timed, counted, labels, gpus, step } = JSON.parse(chart.querySelector("script").textContent), numbers = columns.iteration;
    const get = (name, at) => columns[name]?.[at] ?? NaN, held = (at) => columns.steps?.[at] ?? 1;
    const last = (at) => numbers[at] + held(at) - 1, span = (first, end) => (first === end ? `iteration ${first}` : `iterations ${first} to ${end}`);
    const usual = counted.length ? [numbers[counted[0]], last(counted.at(-1))] : [numbers[0], last(numbers.length - 1)];
    const asked = /^(\d+)_(\d+)$/.exec(state.get("window"))?.slice(1) ?? usual;
    const box = (label, value) => make("input", { type: "number", ariaLabel: label, min: numbers[0], max: last(numbers.length - 1), value, oninput: () => tell() });
    const from = box("first iteration", asked[0]), to = box("last iteration", asked[1]);
    const output = make("output"), note = make("p", { className: "chosen", role: "status" });
    const told = (rows) => {
      const total = (name) => rows.reduce((sum, at) => sum + get(name, at), 0);
      const [all, on, length] = ["sum_ns", "tc_ns", "span_ns"].map(total);
      return {
        tc_kernel_time_pct: all > 0 && on >= 0 ? percents(100 * on / all, 100 * (on + total("unknown_ns")) / all) : "",
        gpu_busy_pct: length > 0 && total("busy_ns") >= 0 ? `${percent(100 * total("busy_ns") / length / gpus)} %` : "",
        step_time_ns: step === "" ? typical(rows.flatMap((at) => (timed[at] && columns.span_ns ? [get("span_ns", at) / held(at)] : []))) : step ?? "",
        window_ns: length > 0 ? duration(length) : "",
        kernel_time_ns: all >= 0 ? duration(all) : "",
        kernels: total("launches") >= 0 ? total("launches").toLocaleString("en") : "",
      };
    };
    const tell = () => {
      const [low, high] = [from.valueAsNumber, to.valueAsNumber], rows = numbers.flatMap((number, at) => (last(at) >= low && number <= high ? [at] : []));
      const figures = rows.length ? told(rows) : {}, other = rows.length > 0 && (low !== usual[0] || high !== usual[1]);
      const pairs = Object.entries(labels).flatMap(([name, label]) => (figures[name] ? [make("dt", {}, label), make("dd", {}, figures[name])] : []));
      output.replaceChildren(rows.length ? make("dl", {}, ...pairs) : `none of these was recorded: choose from ${from.min} to ${from.max}`);
      note.hidden = !other;
      const whose = `Only the figures below the bars are of ${span(low, high)}, as chosen; all others on this page are of ${counted.length ? span(...usual) : "the whole capture"}. All of the choice: `;
      const options = [`--iter-start ${low}`, " ", `--iter-stop ${high}`].map((text) => make("span", { className: "option" }, text));
      note.replaceChildren(...(other ? [whose, make("code", {}, "tcprobe report PATH ", ...options)] : []));
      if (other) state.set("window", `${low}_${high}`); else state.delete("window");
    };
    chart.append(make("div", { className: "tools" }, make("span", {}, "Iterations"), from, "to", to), output);
    document.querySelector("main").prepend(note);
    for (const one of [from, to]) one.addEventListener("input", save);
    tell();
  };

  /* Light or dark as the system has it, or the other. */
  const paper = document.querySelector(".tcprobe"), system = matchMedia("(prefers-color-scheme: dark)");
  const turn = make("button", { type: "button", onclick: () => {
    state.set("colours", turn.textContent);
    save();
    colour();
  } });
  const colour = () => {
    paper.dataset.colours = state.get("colours") ?? "";
    turn.textContent = (state.get("colours") ?? (system.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
    turn.ariaLabel = `${turn.textContent} colours`;
    document.dispatchEvent(new Event("colours"));
  };
  system.addEventListener("change", colour);
  document.querySelector("h1")?.append(turn);
  colour();

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
  const chart = document.querySelector(".columns:has(script)");
  if (chart) windowed(chart);
  const at = tables.get(state.get("at"));
  if (at) reveal(at);
})();
