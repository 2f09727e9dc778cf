// The panel of concepts: is it one of the data, how do the rows score, which have most and least of it?

function conceptCard(concept, d) {
  const order = Array.from(d.totals.keys()).sort((a, b) => d.totals[b] - d.totals[a]);
  const fact = (name, value, help) => el("div", { title: help }, el("dt", {}, name), el("dd", {}, value));
  const p = concept.p_value;
  return el("article", { class: "concept" },
    el("h3", {}, concept.name),
    el("dl", { class: "tiles small" },
      fact("accuracy", `${(100 * concept.accuracy).toFixed(1)} %`, "Balanced, on rows left out"),
      fact("p-value", p === null ? "–" : number(p), "Share of random labels that do as well"),
      fact("stability", concept.stability.toFixed(3), "Mean cosine with directions of bootstrap samples"),
      fact("examples", `${count(concept.n_positives)} / ${count(concept.n_negatives)}`, "Positives / negatives")),
    p !== null && p > 0.05 ? el("p", { class: "warning" }, "Random labels often do as well, so this may not be a real concept of the data.") : null,
    histogram(d.totals, `scores of ${concept.name}`),
    el("h4", {}, "Most of it"), el("div", { class: "examples" }, ...order.slice(0, 5).map((i) => rowButton(i, signed(d.totals[i])))),
    el("h4", {}, "Least of it"), el("div", { class: "examples" }, ...order.slice(-5).reverse().map((i) => rowButton(i, signed(d.totals[i])))));
}

function showConcepts() {
  byId("concepts").hidden = !report.concepts.length;
  byId("concept-cards").replaceChildren(...report.concepts.map((concept, k) => conceptCard(concept, conceptDirections[k])));
}
