"use strict";
/* The timeline: lanes of slices on a canvas. What is narrower than a pixel is drawn as the tone that fills most of it. */
(() => {
  const ROW = 17, HEAD = 22, GAP = 6, LEFT = 132, AXIS = 20, LEAST = 50, TALLEST = 6000;
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const make = (tag, attributes = {}, ...inside) => {
    const element = Object.assign(document.createElement(tag), attributes);
    element.append(...inside);
    return element;
  };
  const time = (ns) => {
    const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([least]) => Math.abs(ns) >= least) ?? [1, "ns"];
    return `${Number((ns / size).toPrecision(4))} ${unit}`;
  };
  const below = (array, value) => {
    let low = 0, high = array.length;
    while (low < high) { const middle = (low + high) >> 1; if (array[middle] < value) low = middle + 1; else high = middle; }
    return low;
  };

  class Lane {
    constructor(raw, strings) {
      const count = raw.start.length;
      this.name = strings[raw.name];
      this.group = strings[raw.group];
      this.start = new Float64Array(count);
      this.end = new Float64Array(count);
      this.reach = new Float64Array(count); /* the latest end so far: what lasts at a time stands behind the first that reaches it */
      this.thing = Int32Array.from(raw.thing);
      this.depth = Uint16Array.from(raw.depth ?? new Uint16Array(count));
      let at = 0, latest = -Infinity;
      for (let i = 0; i < count; i += 1) {
        at += raw.start[i];
        this.start[i] = at;
        this.end[i] = at + raw.spent[i];
        latest = this.reach[i] = Math.max(latest, this.end[i]);
      }
      this.rows = this.depth.reduce((most, depth) => Math.max(most, depth), 0) + 1;
    }
    /* The slices that may be seen in a time, as first and last place. */
    within(low, high) { return [below(this.reach, low), below(this.start, high)]; }
  }

  class Timeline {
    constructor(section, data) {
      Object.assign(this, { things: data.things, strings: data.strings, span: data.span, steps: data.steps });
      this.lanes = data.lanes.map((lane) => new Lane(lane, data.strings));
      [this.low, this.high] = data.view;
      this.found = null; /* of each thing, whether it is searched for; null where nothing is */
      this.chosen = null; /* lane and place */
      this.layout();
      this.canvas = make("canvas", { tabIndex: 0, role: "application", ariaLabel: "Timeline. Plus and minus zoom, left and right move, n and p go from slice to slice, up and down from lane to lane, 0 shows all" });
      this.tip = make("div", { className: "tip", hidden: true });
      this.status = make("p");
      this.status.setAttribute("role", "status");
      section.querySelector(".legend").before(this.tools(), make("div", {}, this.canvas, this.tip), this.status);
      this.listen();
      this.colours();
    }

    layout() {
      let y = AXIS, group = null;
      this.heads = [];
      for (const lane of this.lanes) {
        if (lane.group !== group) { y += group === null ? 0 : GAP; this.heads.push([lane.group, y]); y += HEAD; group = lane.group; }
        lane.top = y;
        y += lane.rows * ROW + 3;
      }
      this.height = Math.min(y + GAP, TALLEST);
    }

    tools() {
      const button = (text, label, act) => make("button", { type: "button", ariaLabel: label, title: label, onclick: act }, text);
      this.search = make("input", { type: "search", placeholder: "search", ariaLabel: "search the timeline", oninput: () => this.look(), onkeydown: (event) => { if (event.key === "Enter") this.go(event.shiftKey ? -1 : 1); } });
      this.hits = make("span");
      const bar = make("div", { className: "tools" }, button("+", "zoom in", () => this.zoom(.5)), button("\u2212", "zoom out", () => this.zoom(2)), button("all", "show all", () => this.show(0, this.span)));
      if (this.steps.length) {
        const select = make("select", { ariaLabel: "step", onchange: () => { const step = this.steps[select.value]; this.show(step[1], step[2]); } }, ...this.steps.map((step, at) => make("option", { value: at, selected: step[1] === this.low }, step[0])));
        bar.append(select);
      }
      bar.append(this.search, button("\u2190", "previous found", () => this.go(-1)), button("\u2192", "next found", () => this.go(1)), this.hits, make("span", { className: "dim" }, "wheel zooms once clicked, drag moves, shift and drag measures"));
      return bar;
    }

    colours() {
      const style = getComputedStyle(this.canvas);
      const get = (name) => style.getPropertyValue("--" + name).trim();
      this.paint = Object.fromEntries(["ink", "dim", "ground", "raised", "line", "link"].map((name) => [name, get(name)]));
      this.dark = style.colorScheme === "dark";
      this.tone = this.things.map(([name, tone]) => tone ? get(tone) : this.hue(this.strings[name]));
      this.font = `11px ${style.fontFamily}`;
      this.draw();
    }
    hue(text) {
      let hash = 7;
      for (let i = 0; i < text.length; i += 1) hash = (hash * 31 + text.charCodeAt(i)) >>> 0;
      return `hsl(${hash % 360} 38% ${this.dark ? 34 : 76}%)`;
    }

    listen() {
      const { canvas } = this;
      new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.colours());
      document.addEventListener("colours", () => this.colours());
      canvas.addEventListener("wheel", (event) => {
        const sideways = event.shiftKey ? event.deltaY : event.deltaX;
        if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) { event.preventDefault(); this.pan(sideways / this.width * (this.high - this.low)); return; }
        if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
        event.preventDefault();
        this.zoom(Math.exp(clamp(event.deltaY, -200, 200) / 300), this.at(event.offsetX));
      }, { passive: false });
      canvas.addEventListener("pointerdown", (event) => {
        canvas.setPointerCapture(event.pointerId);
        this.drag = { x: event.offsetX, low: this.low, high: this.high, measures: event.shiftKey, moved: false };
      });
      canvas.addEventListener("pointermove", (event) => { if (this.drag) this.dragged(event); else this.hover(event); });
      canvas.addEventListener("pointerup", (event) => {
        if (this.drag && !this.drag.moved) { const hit = this.hit(event.offsetX, event.offsetY); this.choose(hit); }
        this.drag = null;
      });
      canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      canvas.addEventListener("dblclick", () => { if (this.chosen) this.frame(); });
      canvas.addEventListener("keydown", (event) => {
        const step = (this.high - this.low) / 5;
        const acts = { "+": () => this.zoom(.5), "=": () => this.zoom(.5), "-": () => this.zoom(2), 0: () => this.show(0, this.span), ArrowLeft: () => this.pan(-step), ArrowRight: () => this.pan(step), n: () => this.next(1), p: () => this.next(-1), ArrowDown: () => this.other(1), ArrowUp: () => this.other(-1), Enter: () => this.frame(), Escape: () => this.choose(null), "/": () => this.search.focus() };
        const act = event.ctrlKey || event.metaKey || event.altKey ? null : acts[event.key];
        if (act) { event.preventDefault(); act(); }
      });
    }

    get width() { return Math.max(this.canvas.clientWidth - LEFT, 50); }
    at(x) { return this.low + (x - LEFT) / this.width * (this.high - this.low); }
    x(at) { return LEFT + (at - this.low) / (this.high - this.low) * this.width; }
    show(low, high) {
      const length = clamp(high - low, LEAST, this.span * 1.1), most = this.span * 1.05 - length;
      this.low = clamp(low, Math.min(-this.span * .05, most), Math.max(most, -this.span * .05));
      this.high = this.low + length;
      this.tip.hidden = true;
      if (!this.due) { this.due = true; requestAnimationFrame(() => { this.due = false; this.draw(); }); }
    }
    zoom(by, around = (this.low + this.high) / 2) { this.show(around - (around - this.low) * by, around + (this.high - around) * by); }
    pan(by) { this.show(this.low + by, this.high + by); }

    dragged(event) {
      const { drag } = this, ns = (this.drag.high - this.drag.low) / this.width;
      drag.moved ||= Math.abs(event.offsetX - drag.x) > 3;
      if (!drag.measures) { if (drag.moved) this.show(drag.low - (event.offsetX - drag.x) * ns, drag.high - (event.offsetX - drag.x) * ns); return; }
      this.draw();
      const context = this.context;
      context.globalAlpha = .25;
      context.fillStyle = this.paint.link;
      context.fillRect(drag.x, 0, event.offsetX - drag.x, this.height);
      context.globalAlpha = 1;
      this.status.textContent = `${time(Math.abs(event.offsetX - drag.x) * ns)} between the two ends`;
    }

    hit(x, y) {
      const lane = this.lanes.find((one) => y >= one.top && y < one.top + one.rows * ROW);
      if (!lane || x < LEFT) return null;
      const depth = Math.floor((y - lane.top) / ROW), near = 2 * (this.high - this.low) / this.width, at = this.at(x);
      const [first, last] = lane.within(at - near, at + near);
      let best = null, least = Infinity;
      for (let i = first; i < last; i += 1) {
        const off = Math.max(lane.start[i] - at, at - lane.end[i], 0);
        if (lane.depth[i] === depth && off <= near && off < least) { best = i; least = off; }
      }
      return best === null ? null : { lane, place: best };
    }
    words({ lane, place }, between) {
      const [name, , facts] = this.things[lane.thing[place]];
      const when = `${time(lane.end[place] - lane.start[place])}, from ${time(lane.start[place])}; ${lane.group}, ${lane.name}`;
      return [this.strings[name], when, ...facts.map((fact) => this.strings[fact])].join(between);
    }
    hover(event) {
      const hit = this.hit(event.offsetX, event.offsetY);
      this.tip.hidden = !hit;
      if (!hit) return;
      this.tip.textContent = this.words(hit, "\n");
      const room = this.canvas.clientWidth - this.tip.offsetWidth;
      this.tip.style.left = `${clamp(event.offsetX + 12, 0, Math.max(room, 0))}px`;
      this.tip.style.top = `${event.offsetY + 14}px`;
    }
    choose(hit) {
      this.chosen = hit;
      this.status.textContent = hit ? this.words(hit, "; ") : "";
      if (hit && (hit.lane.end[hit.place] < this.low || hit.lane.start[hit.place] > this.high)) this.center(hit); else this.draw();
    }
    center({ lane, place }) { const half = (this.high - this.low) / 2, middle = (lane.start[place] + lane.end[place]) / 2; this.show(middle - half, middle + half); }
    frame() { if (this.chosen) { const { lane, place } = this.chosen, room = Math.max((lane.end[place] - lane.start[place]) * .25, LEAST); this.show(lane.start[place] - room, lane.end[place] + room); } }
    next(by) {
      if (!this.chosen) { const lane = this.lanes.find((one) => one.name.startsWith("stream")) ?? this.lanes[0]; this.choose({ lane, place: clamp(below(lane.start, this.low), 0, lane.start.length - 1) }); return; }
      const { lane, place } = this.chosen;
      this.choose({ lane, place: clamp(place + by, 0, lane.start.length - 1) });
    }
    other(by) {
      const at = this.chosen ? clamp(this.lanes.indexOf(this.chosen.lane) + by, 0, this.lanes.length - 1) : 0, lane = this.lanes[at];
      const from = this.chosen ? this.chosen.lane.start[this.chosen.place] : this.low;
      this.choose({ lane, place: clamp(below(lane.start, from), 0, lane.start.length - 1) });
    }

    look() {
      const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.found = words.length ? this.things.map(([name, , facts]) => { const all = [name, ...facts].map((one) => this.strings[one]).join("\n").toLowerCase(); return words.every((word) => all.includes(word)); }) : null;
      let count = 0, spent = 0;
      this.matches = [];
      if (this.found) for (const lane of this.lanes) for (let i = 0; i < lane.start.length; i += 1) if (this.found[lane.thing[i]]) { count += 1; spent += lane.end[i] - lane.start[i]; this.matches.push({ lane, place: i }); }
      this.matches.sort((a, b) => a.lane.start[a.place] - b.lane.start[b.place]);
      this.hits.textContent = this.found ? `${count.toLocaleString("en")} slices, ${time(spent)} in all lanes` : "";
      this.turn = -1;
      this.draw();
    }
    go(by) {
      if (!this.matches?.length) return;
      this.turn = this.turn < 0 && by > 0 ? Math.max(this.matches.findIndex(({ lane, place }) => lane.end[place] >= this.low), 0) : (this.turn + by + this.matches.length) % this.matches.length;
      this.choose(this.matches[this.turn]);
    }

    draw() {
      const scale = devicePixelRatio || 1, wide = this.canvas.parentElement.clientWidth;
      const size = [Math.round(wide * scale), Math.round(this.height * scale)];
      if (this.canvas.width !== size[0] || this.canvas.height !== size[1]) {
        [this.canvas.width, this.canvas.height] = size;
        this.canvas.style.height = `${this.height}px`;
      }
      const context = this.context = this.canvas.getContext("2d", { alpha: false });
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.fillStyle = this.paint.ground;
      context.fillRect(0, 0, wide, this.height);
      context.font = this.font;
      context.textBaseline = "middle";
      this.axis(context);
      for (const lane of this.lanes) if (lane.top < this.height) this.lane(context, lane, LEFT + this.width);
      this.labels(context);
      if (this.chosen) {
        const { lane, place } = this.chosen, left = Math.max(this.x(lane.start[place]), LEFT), right = Math.min(this.x(lane.end[place]), LEFT + this.width);
        context.strokeStyle = this.paint.ink;
        context.lineWidth = 2;
        if (right >= left) context.strokeRect(left - 1, lane.top + lane.depth[place] * ROW, Math.max(right - left, 1) + 2, ROW - 1);
      }
    }

    axis(context) {
      const rough = (this.high - this.low) / this.width * 110, power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
      for (let at = Math.ceil(this.low / step) * step; at < this.high; at += step) {
        context.fillStyle = this.paint.line;
        context.fillRect(Math.round(this.x(at)), 0, 1, this.height);
        context.fillStyle = this.paint.dim;
        context.fillText(time(at) , this.x(at) + 4, AXIS / 2);
      }
    }

    lane(context, lane, right) {
      const [first, last] = lane.within(this.low, this.high), per = this.width / (this.high - this.low);
      const pixel = new Int32Array(lane.rows).fill(-1), sums = Array.from({ length: lane.rows }, () => new Map());
      const flush = (row) => {
        let best = null, most = 0, all = 0;
        for (const [tone, spent] of sums[row]) { all += spent; if (spent > most || best === null) { most = spent; best = tone; } }
        if (best !== null) { context.globalAlpha = clamp(all, .35, 1); context.fillStyle = best; context.fillRect(pixel[row], lane.top + row * ROW, 1, ROW - 2); }
        sums[row].clear();
      };
      const left = LEFT - this.low * per;
      for (let i = first; i < last; i += 1) {
        const row = lane.depth[i], from = left + lane.start[i] * per, wide = (lane.end[i] - lane.start[i]) * per, thing = lane.thing[i];
        if (from + wide < LEFT) continue;
        const faint = this.found && !this.found[thing];
        if (wide < 1.5) {
          const place = Math.max(Math.floor(from), LEFT);
          if (place !== pixel[row]) { flush(row); pixel[row] = place; }
          if (!faint) sums[row].set(this.tone[thing], (sums[row].get(this.tone[thing]) ?? 0) + Math.max(wide, .02));
          continue;
        }
        const begun = Math.max(from, LEFT), ended = Math.min(from + wide, right);
        context.globalAlpha = faint ? .15 : 1;
        context.fillStyle = this.tone[thing];
        context.fillRect(begun, lane.top + row * ROW, Math.max(ended - begun - .5, 1), ROW - 2);
        if (ended - begun > 34) this.label(context, this.strings[this.things[thing][0]], begun, ended, lane.top + row * ROW);
      }
      for (let row = 0; row < lane.rows; row += 1) flush(row);
      context.globalAlpha = 1;
    }
    label(context, text, begun, ended, top) {
      const share = (ended - begun - 8) / context.measureText(text).width, room = Math.floor(.93 * share * text.length);
      context.fillStyle = this.dark ? "#fff" : "#16191d";
      context.fillText(share >= 1 ? text : `${text.slice(0, Math.ceil(room * .6) - 1)}\u2026${room > 6 ? text.slice(-Math.floor(room * .4)) : ""}`, begun + 4, top + ROW / 2 - 1, ended - begun - 6);
    }
    labels(context) {
      context.globalAlpha = 1;
      context.fillStyle = this.paint.ground;
      context.fillRect(0, 0, LEFT - 2, this.height);
      context.fillStyle = this.paint.dim;
      for (const lane of this.lanes) context.fillText(lane.name.length > 21 ? lane.name.slice(0, 20) + "\u2026" : lane.name, 8, lane.top + ROW / 2);
      context.fillStyle = this.paint.ink;
      for (const [name, y] of this.heads) context.fillText(name, 4, y + HEAD / 2);
    }
  }

  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  };
  for (const section of document.querySelectorAll("section.timeline")) unpacked(section.querySelector("script").textContent).then((data) => new Timeline(section, data));
})();
