"use strict";

const dark = matchMedia("(prefers-color-scheme: dark)");
const coarse = matchMedia("(pointer: coarse)");
const drawn = new Set();
const ZOOM = ["zoomIn2d", "zoomOut2d", "resetScale2d"];
let figures = {};
let DataTable, details;

// ---- Plots: drawn when they come into view, in the colors of the page ----

function template(isDark) {
  const [text, grid, line] = isDark ? ["#c9ced8", "#30353f", "#4a515e"] : ["#3c424d", "#e6e8ec", "#c3c8d0"];
  const axis = { gridcolor: grid, linecolor: line, zerolinecolor: grid, automargin: true, ticks: "", title: { standoff: 8 } };
  return {
    layout: {
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: text },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 8, r: 8, t: 8, b: 8 },
      hovermode: "closest",
      hoverlabel: { bgcolor: isDark ? "#22262e" : "#ffffff", bordercolor: line, font: { color: text } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: line, activecolor: text },
      xaxis: axis,
      yaxis: axis,
    },
    data: { heatmap: [{ colorbar: { tickfont: { size: 11 }, outlinewidth: 0 } }] },
  };
}

function draw(element) {
  const figure = figures[element.id];
  if (!figure || drawn.has(element)) return;
  drawn.add(element);
  // A finger scrolls the page; it zooms by the buttons.
  const layout = { ...figure.layout, template: template(dark.matches), dragmode: coarse.matches ? false : "zoom" };
  Plotly.newPlot(element, figure.data, layout, {
    responsive: true,
    displaylogo: false,
    displayModeBar: true,
    modeBarButtons: [coarse.matches ? ZOOM : ["zoom2d", "pan2d", ...ZOOM, "toImage"]],
  });
}

// Plots and tables get ready shortly before they come into view: opening the page stays quick.
const watcher = new IntersectionObserver(
  (entries) => entries.filter((each) => each.isIntersecting).forEach(({ target }) => {
    watcher.unobserve(target);
    if (target.matches(".plot")) draw(target);
    else arrange(target);
  }),
  { rootMargin: "500px" },
);

function recolor(isDark) {
  drawn.forEach((element) => Plotly.relayout(element, { template: template(isDark) }));
}

dark.addEventListener("change", () => recolor(dark.matches));
addEventListener("beforeprint", () => {
  document.querySelectorAll("main .plot").forEach(draw);
  recolor(false);
});
addEventListener("afterprint", () => recolor(dark.matches));

// ---- Tables: DataTables sorts and filters ----

function arrange(table) {
  const filters = "filter" in table.dataset;
  new DataTable(table, {
    paging: false,
    info: filters,
    searching: filters,
    order: [],
    autoWidth: false,
    layout: { topStart: null, topEnd: null, bottomStart: null, bottomEnd: null, top1Start: filters ? "search" : null, top1End: filters ? "info" : null },
    language: { search: "Filter", searchPlaceholder: "all of these words …", info: "_TOTAL_ lines", infoEmpty: "no lines", infoFiltered: "of _MAX_", zeroRecords: "No line has all these words." },
  });
}

// ---- Details: what a link to a run opens ----

const dialog = document.getElementById("detail");
const content = document.getElementById("detail-content");

async function follow() {
  const identity = location.hash.startsWith("#run-") ? location.hash.slice(5) : null;
  await ready;
  if (identity !== null && !details) {
    const unpacked = await unpack("details");
    details = unpacked.details;
    figures = { ...figures, ...unpacked.plots };
  }
  if (identity === null || !Object.hasOwn(details, identity)) {
    if (dialog.open) dialog.close();
    return;
  }
  content.querySelectorAll(".plot").forEach((element) => { if (drawn.delete(element)) Plotly.purge(element); });
  // Made by the template, which escapes all that comes from files.
  content.innerHTML = details[identity];
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  content.querySelectorAll(".plot").forEach(draw);
  content.querySelector("h2").focus();
}

dialog.addEventListener("close", () => {
  if (location.hash.startsWith("#run-")) history.replaceState(null, "", location.pathname + location.search);
});
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
document.getElementById("close-detail").addEventListener("click", () => dialog.close());
addEventListener("hashchange", follow);

// ---- Contents ----

const contents = document.getElementById("contents");
const button = document.getElementById("contents-button");

function unfold(isOpen) {
  contents.classList.toggle("open", isOpen);
  button.setAttribute("aria-expanded", String(isOpen));
}

button.addEventListener("click", () => unfold(!contents.classList.contains("open")));
contents.addEventListener("click", (event) => { if (event.target.closest("a")) unfold(false); });

const places = new IntersectionObserver(
  (entries) => entries.forEach((each) => {
    const link = contents.querySelector(`a[href="#${CSS.escape(each.target.id)}"]`);
    if (link) link.classList.toggle("here", each.isIntersecting);
  }),
  { rootMargin: "-20% 0px -70% 0px" },
);
document.querySelectorAll("main > section").forEach((section) => places.observe(section));

// ---- Begin ----

async function unpack(id) {
  const letters = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(letters.length);
  for (let index = 0; index < letters.length; index += 1) bytes[index] = letters.charCodeAt(index);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

// From its own text: a page that is opened from disk may load no other file.
const address = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));

function run(text) {
  return new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = address(text);
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });
}

const ready = (async () => {
  const [{ plots }, libraries] = await Promise.all([unpack("plots"), unpack("libraries")]);
  figures = { ...figures, ...plots };
  await run(libraries.plotly);
  ({ default: DataTable } = await import(address(libraries.datatables)));
  document.querySelectorAll("main .plot, main table").forEach((element) => watcher.observe(element));
  document.documentElement.dataset.ready = "";
})();
ready.then(follow);
