// Small charts in SVG: the spectrum and histograms of concept scores.

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const svgText = (x, y, text, anchor = "start") => svg("text", { x, y, "text-anchor": anchor }, text);

/** Eigenvalues on a logarithmic axis, largest first, with the effective rank marked. */
function spectrumChart(values, effectiveRank) {
  const [width, height, left, right, top, bottom] = [460, 200, 46, 12, 14, 30];
  const positive = values.filter((v) => v > 0);
  const chart = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, role: "img", class: "chart",
    "aria-label": `${values.length} eigenvalues from ${number(values[0])} to ${number(values[values.length - 1])}, effective rank ${number(effectiveRank)}`,
  });
  if (!positive.length) return chart;
  const high = Math.log10(positive[0]);
  const low = Math.min(Math.log10(Math.max(positive[positive.length - 1], positive[0] * 1e-12)), high - 0.5);
  const step = (width - left - right) / values.length;
  const y = (v) => top + ((high - Math.max(Math.log10(v), low)) / (high - low)) * (height - top - bottom);
  const floor = height - bottom;
  for (let power = Math.ceil(low); power <= high; power++) {
    if (high - low > 6 && power % 2) continue;
    chart.append(svg("line", { x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power), class: "grid" }));
    chart.append(svgText(left - 6, y(10 ** power) + 4, `1e${power}`.replace("-", "−"), "end"));
  }
  values.forEach((v, i) => {
    if (v <= 0) return;
    const up = Math.min(y(v), floor - 1);
    chart.append(svg("rect", { x: left + i * step, y: up, width: Math.max(step - (step > 4 ? 1.5 : 0), 0.5), height: floor - up, class: "bar" }));
  });
  const mark = left + effectiveRank * step;
  chart.append(svg("line", { x1: mark, x2: mark, y1: top - 4, y2: floor, class: "mark" }));
  const leftSide = mark > width * 0.6;
  chart.append(svgText(mark + (leftSide ? -6 : 6), top + 6, `effective rank ${number(effectiveRank)}`, leftSide ? "end" : "start"));
  chart.append(svgText(left, height - 10, "1"), svgText(width - right, height - 10, String(values.length), "end"));
  chart.append(svgText((left + width - right) / 2, height - 10, "direction", "middle"));
  return chart;
}

/** Counts of values in 36 bins; those below zero in another colour. */
function histogram(values, name) {
  const [width, height, bottom, nBins] = [360, 110, 20, 36];
  const { low, high } = extent(values);
  const bins = new Array(nBins).fill(0);
  for (const v of values) bins[Math.min(nBins - 1, Math.floor(((v - low) / (high - low)) * nBins))]++;
  const most = Math.max(...bins);
  const x = (v) => ((v - low) / (high - low)) * width;
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "chart", "aria-label": `Histogram of ${name}: from ${number(low)} to ${number(high)}` });
  bins.forEach((size, i) => {
    const up = (size / most) * (height - bottom - 4);
    const middle = low + ((i + 0.5) / nBins) * (high - low);
    chart.append(svg("rect", { x: (i * width) / nBins + 0.5, y: height - bottom - up, width: width / nBins - 1, height: up, class: middle < 0 ? "negative" : "positive" }));
  });
  chart.append(svg("line", { x1: 0, x2: width, y1: height - bottom, y2: height - bottom, class: "grid" }));
  if (low < 0 && high > 0) {
    chart.append(svg("line", { x1: x(0), x2: x(0), y1: 0, y2: height - bottom, class: "mark" }));
    if (x(0) > 60 && x(0) < width - 60) chart.append(svgText(x(0), height - 5, "0", "middle"));
  }
  chart.append(svgText(0, height - 5, number(low)), svgText(width, height - 5, number(high), "end"));
  return chart;
}

function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return low === high ? { low: low - 1, high: high + 1 } : { low, high };
}
