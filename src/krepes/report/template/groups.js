// Two groups of rows, A and B: drawn on the map, chosen by a filter, or row by row; and what differs between them.

const GROUP_NAMES = ["A", "B"];
const GROUP_COLOURS = ["--first", "--second"];
const groups = [new Set(), new Set()];
let activeGroup = 0;
let onlyGroups = false;

/** Rows of both groups that are compared: B is all other rows where it is empty. */
function comparedGroups() {
  const [a, b] = groups.map((group) => [...group].sort((x, y) => x - y));
  if (!a.length) return null;
  const rest = b.length ? b : Array.from({ length: n }, (_, i) => i).filter((i) => !groups[0].has(i));
  return rest.length ? { rows: [a, rest], names: ["A", b.length ? "B" : "the rest"] } : null;
}

/** Put rows into a group, add them, or take them out. A row is in one group at most. */
function changeGroup(which, rows, how) {
  const [group, other] = [groups[which], groups[1 - which]];
  if (how === "set") group.clear();
  for (const i of rows) {
    if (how === "remove") group.delete(i);
    else {
      group.add(i);
      other.delete(i);
    }
  }
  groupsChanged();
  say(`Group ${GROUP_NAMES[which]}: ${plural(group.size, "row")}.`);
}

function markRow(which) {
  if (map.row < 0) return say("Select a row first.");
  changeGroup(which, [map.row], groups[which].has(map.row) ? "remove" : "add");
}

function clearGroups() {
  for (const group of groups) group.clear();
  onlyGroups = false;
  groupsChanged();
  say("No groups.");
}

function groupsChanged() {
  if (!groups.some((group) => group.size)) onlyGroups = false;
  map.groups = groups.map((rows, k) => ({ rows, colour: cssColour(GROUP_COLOURS[k]) }));
  recolour();
  showGroups();
}

const inGroups = (i) => groups[0].has(i) || groups[1].has(i);

function toggleLasso() {
  map.drawing = !map.drawing;
  byId("lasso").setAttribute("aria-pressed", String(map.drawing));
  byId("map").classList.toggle("drawing", map.drawing);
  say(map.drawing ? `Draw a line around rows: they become group ${GROUP_NAMES[activeGroup]}. Shift adds, Alt takes out.` : "Dragging moves the map.");
}

// The panel

function showGroups() {
  const sizes = groups.map((group) => group.size);
  const chip = (k) => {
    const mark = el("span", { class: "swatch" });
    mark.style.setProperty("--mark", cssColour(GROUP_COLOURS[k]));
    return el("span", { class: "badge", id: `group-${GROUP_NAMES[k]}` }, mark, `Group ${GROUP_NAMES[k]}: ${plural(sizes[k], "row")}`);
  };
  const any = sizes[0] + sizes[1] > 0;
  byId("group-sizes").replaceChildren(chip(0), chip(1),
    el("button", { type: "button", id: "only-groups", "aria-pressed": String(onlyGroups), disabled: !any, onclick: toggleOnly }, "Show only these"),
    el("button", { type: "button", id: "clear-groups", disabled: !any, onclick: clearAndFocus }, "Clear"));
  const found = comparedGroups();
  byId("comparison").replaceChildren(...(found ? comparisonParts(found) : [el("p", { class: "help" }, sizes[1] ? "Group A is empty." : "No group yet.")]));
}

function comparisonParts({ rows, names }) {
  const [first, second] = rows;
  return [
    meanImages(rows, names),
    differenceTable(first, second, names),
    landmarkTable(first, second, names),
    el("section", {}, el("h3", {}, "Some rows of A"), el("div", { class: "examples" }, ...first.slice(0, 6).map((i) => rowButton(i, "")))),
  ].filter(Boolean);
}

function toggleOnly() {
  onlyGroups = !onlyGroups;
  recolour();
  showGroups();
  saySeen();
  byId("only-groups").focus();
}

function clearAndFocus() {
  clearGroups();
  byId("filter-field").focus();
}

// The filter: rows by a column's level, range or text

const FOUND = "found"; // the rows of the last search
const filterField = () => fields[Number(byId("filter-field").value)] ?? null;

function showFilterValues() {
  const chosen = filterField();
  const place = byId("filter-values");
  if (!chosen) {
    place.replaceChildren(el("span", { class: "help" }, found.query ? `“${found.query}”` : "(nothing searched yet)"));
    return;
  }
  if (chosen.levels) {
    const codes = [...new Set(chosen.values)].sort((a, b) => (a < 0) - (b < 0) || a - b);
    place.replaceChildren(el("label", { class: "field" }, "is ", el("select", { id: "filter-level" },
      ...codes.map((code) => el("option", { value: code }, levelOf(chosen, code))))));
    return;
  }
  const bound = (id, words, value) => el("label", { class: "field" }, words, el("input", { id, type: "number", step: "any", placeholder: plain(value) }));
  const { low, high } = extent(Array.from(chosen.values).filter(Number.isFinite));
  place.replaceChildren(bound("filter-low", "from ", low), bound("filter-high", "to ", high));
}

/** The rows that the filter asks for, among those that are visible. */
function filteredRows() {
  const chosen = filterField();
  const all = Array.from({ length: n }, (_, i) => i).filter((i) => map.visible[i]);
  if (!chosen) return all.filter((i) => found.rows.includes(i));
  if (chosen.levels) return all.filter((i) => chosen.values[i] === Number(byId("filter-level").value));
  const bound = (id, none) => (byId(id).value === "" ? none : Number(byId(id).value));
  const [low, high] = [bound("filter-low", -Infinity), bound("filter-high", Infinity)];
  return all.filter((i) => chosen.values[i] >= low && chosen.values[i] <= high);
}

function fillFilter() {
  byId("filter-field").append(...fieldOptions(), el("option", { value: FOUND }, "the search matches"));
  byId("filter-field").addEventListener("change", showFilterValues);
  byId("filter-group").addEventListener("change", (event) => (activeGroup = Number(event.target.value)));
  byId("filter").addEventListener("submit", (event) => {
    event.preventDefault();
    changeGroup(activeGroup, filteredRows(), event.submitter?.value ?? "set");
  });
  byId("lasso").addEventListener("click", toggleLasso);
  showFilterValues();
  showGroups();
}
