"use strict";
/* Curves on canvases (uPlot), in place of the pictures that stand there without a script: what a step had, zoom by drag. */
(() => {
  const TONES = ["link", "off", "used", "slow", "unknown", "copy", "communication", "dim"], TALL = 190;
  const number = (value) => (value == null ? "-" : Number(value.toPrecision(5)).toString());

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.series = JSON.parse(figure.querySelector("script").textContent);
      this.data = uPlot.join(this.series.map(({ steps, values }) => [steps, values]));
      this.holder = figure.querySelector(".plot");
      this.holder.tabIndex = 0;
      this.holder.setAttribute("role", "application");
      this.holder.setAttribute("aria-label", `${figure.querySelector("figcaption b").textContent}: left and right go from step to step, 0 shows all`);
      this.holder.addEventListener("keydown", (event) => this.key(event));
      this.build();
      new ResizeObserver(() => { if (this.holder.clientWidth) this.plot.setSize({ width: this.holder.clientWidth, height: TALL }); }).observe(this.holder);
    }
    build() {
      const style = getComputedStyle(this.figure), tone = (name) => style.getPropertyValue("--" + name).trim();
      const axis = { stroke: tone("dim"), grid: { stroke: tone("line"), width: 1 }, ticks: { stroke: tone("line"), width: 1 } };
      const lines = this.series.map(({ label }, at) => ({ label, stroke: tone(TONES[at % TONES.length]), width: 1.5, spanGaps: false, value: (_, value) => number(value) }));
      this.plot?.destroy();
      this.figure.querySelectorAll("svg, small").forEach((node) => node.remove());
      this.plot = new uPlot({
        width: this.holder.clientWidth, height: TALL, scales: { x: { time: false } }, cursor: { sync: { key: "steps" } },
        hooks: { setCursor: [(plot) => { if (plot.cursor.idx == null) plot.setLegend({ idx: plot.data[0].length - 1 }); }] },
        series: [{ label: "step" }, ...lines], axes: [{ ...axis, size: 32 }, { ...axis, size: 58, values: (_, values) => values.map(number) }],
      }, this.data, this.holder);
      this.plot.setLegend({ idx: this.data[0].length - 1 });
    }
    key(event) {
      const { plot } = this, steps = this.data[0], by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "0") plot.setScale("x", { min: steps[0], max: steps.at(-1) });
      if (!by) return;
      event.preventDefault();
      const at = Math.min(Math.max((plot.cursor.idx ?? (by > 0 ? -1 : steps.length)) + by, 0), steps.length - 1);
      plot.setCursor({ left: plot.valToPos(steps[at], "x"), top: 0 });
    }
  }

  const charts = [...document.querySelectorAll(".charts > figure")].map((figure) => new Chart(figure));
  const again = () => charts.forEach((chart) => chart.build());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  document.addEventListener("colours", again);
})();
