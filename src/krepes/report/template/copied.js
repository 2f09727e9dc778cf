// The explanation of a row as plain text, to be copied into a letter or a ticket.

function rowText(i) {
  const lines = [`${document.title}: row ${rowNumbers[i]}${labels ? `, ${labels.name} ${valueOf(labels, i)}` : ""}`];
  lines.push(`Coverage ${coverage[i].toFixed(3)}${coverage[i] < report.low_coverage ? ": unlike every landmark, the rest says little" : ""}.`);
  if (rebuilt) lines.push(`Rebuilt with error ${rebuilt.error[i].toFixed(3)}, expected ${rebuilt.expected[i].toFixed(3)}.`);
  lines.push("", `${headline.title}. ${headline.about}`);
  for (const { landmark, value } of topsOf(headline, i)) {
    const agreed = agreementWords(agreements(i, (feature) => feature.ofLandmarks[landmark]).slice(0, 3));
    const label = labels && landmarkLabels ? `, ${levelOf(labels, landmarkLabels[landmark])}` : "";
    lines.push(`  ${percent(value)}  ${landmarkName(landmark)}${label}${agreed ? `. ${agreed}` : ""}`);
  }
  lines.push("", "Nearest rows (1 is the usual distance between two rows):");
  for (const { row, distance } of nearestTo(i)) lines.push(`  ${number(distance)}  ${rowName(row)}${labels ? `, ${valueOf(labels, row)}` : ""}`);
  const d = directions[directionFor(i)];
  if (d) {
    lines.push("", `Contributions along ${d.name}, which add up to ${signed(d.totals[i])}:`);
    for (const { landmark, value } of topsOf(d, i)) lines.push(`  ${signed(value)}  ${landmarkName(landmark)}`);
    const shown = topsOf(d, i).reduce((sum, top) => sum + top.value, 0);
    lines.push(`  ${signed(d.totals[i] - d.constant - shown)}  all other landmarks`, `  ${signed(d.constant)}  constant`);
  }
  if (features.length) {
    lines.push("", hasHeat(i) ? "Columns, and how far the row would move with the column at its mean:" : "Columns:");
    const order = [...features.keys()].sort((a, b) => (hasHeat(i) ? heatOf(i, b) - heatOf(i, a) : a - b));
    for (const k of order) lines.push(`  ${features[k].name}: ${featureText(features[k], features[k].values[i])}${hasHeat(i) ? ` (${number(heatOf(i, k), 2)})` : ""}`);
  }
  return lines.join("\n");
}

/** Into the clipboard; where a browser forbids that, by a selected text that it lets us copy. */
async function copyRow(i) {
  const text = rowText(i);
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied the explanation of row ${rowNumbers[i]}.`);
  } catch {
    const area = el("textarea", { class: "copied", "aria-label": "Explanation as text" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    say(done ? `Copied the explanation of row ${rowNumbers[i]}.` : "This browser does not let pages copy text.");
  }
}
