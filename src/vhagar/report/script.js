"use strict";
(() => {
  const root = document.documentElement;
  root.classList.remove("no-js");
  const all = (query, within = document) => [...within.querySelectorAll(query)];

  // A set of figures of which one is shown: its controls name what is wanted.
  for (const set of all("[data-pick]")) {
    const items = all(":scope > .pick > *", set);
    const controls = all(":scope > .controls [data-name]", set);
    const wanted = () => controls.map((control) => [control.dataset.name, valueOf(control)]);
    const show = () => {
      const choice = wanted();
      let found = null;
      for (const item of items) {
        const fits = choice.every(([name, value]) => item.dataset[name] === value);
        item.classList.toggle("on", fits && !found);
        if (fits && !found) found = item;
      }
      const missing = set.querySelector(":scope > .missing");
      if (missing) missing.hidden = Boolean(found);
    };
    for (const control of controls) {
      control.addEventListener("change", show);
      for (const button of all("button", control)) {
        button.addEventListener("click", () => {
          for (const other of all("button", control)) {
            other.setAttribute("aria-pressed", String(other === button));
          }
          show();
        });
      }
    }
    show();
  }

  function valueOf(control) {
    if (control.tagName === "SELECT") return control.value;
    return control.querySelector('[aria-pressed="true"]').dataset.value;
  }

  // One problem is shown at a time; the address says which.
  const picker = document.querySelector("#problem-picker");
  const problems = all(".problem");
  function openProblem(scroll) {
    const name = location.hash.startsWith("#problem-") ? location.hash.slice(1) : "";
    const chosen = problems.find((problem) => problem.id === name) 
      || (scroll ? null : document.querySelector(".problem[data-first]") || problems[0]);
    if (!chosen) return;
    for (const problem of problems) problem.classList.toggle("on", problem === chosen);
    if (picker) picker.value = chosen.id;
    if (name && scroll) document.querySelector("#problems").scrollIntoView();
  }
  if (picker) picker.addEventListener("change", () => { location.hash = picker.value; });
  addEventListener("hashchange", () => openProblem(true));
  openProblem(false);
  if (location.hash.startsWith("#problem-")) openProblem(true);

  // A table that sorts by the column whose head is clicked, and shows what contains the text.
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0];
    all("thead th", table).forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
        const numeric = head.classList.contains("number");
        const rows = [...body.rows].sort((a, b) => {
          const [one, two] = [key(a), key(b)];
          return numeric ? Number(one) - Number(two) : one.localeCompare(two, "en", { numeric: true });
        });
        if (down) rows.reverse();
        body.append(...rows);
      });
    });
  }
  const filter = document.querySelector("#filter");
  if (filter) {
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of document.querySelector("table.sortable").tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
  }

  const more = document.querySelector("#more-cards");
  if (more) {
    more.addEventListener("click", () => {
      document.querySelector(".cards").classList.add("all");
      more.remove();
    });
  }

  const theme = document.querySelector("#theme");
  if (theme) {
    theme.addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    });
  }
})();
