// A click on a heading sorts its table; without scripts the tables stay in the order of the run.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const heads = [...[...table.tHead.rows].at(-1).cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const numeric = head.hasAttribute("data-numeric");
    const value = (row) => {
      const cell = row.cells[column];
      const text = cell.dataset.value ?? cell.textContent.trim();
      if (!numeric) return text;
      const number = parseFloat(text.replace(/[<,]/g, "").replace("−", "-"));
      return Number.isNaN(number) ? -Infinity : number;
    };
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === (numeric ? "descending" : "ascending");
      const sign = (numeric ? -1 : 1) * (down ? -1 : 1);
      const order = (a, b) => {
        const [x, y] = [value(a), value(b)];
        return sign * (numeric ? (x > y) - (x < y) : x.localeCompare(y));
      };
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      for (const body of table.tBodies) body.append(...[...body.rows].sort(order));
    });
  });
}
