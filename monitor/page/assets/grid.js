// What tables of samples by something share: their order, and the cell that is chosen and read out.

import { byId } from "./dom.js";

export const byText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** The order of samples: barcode2 before barcode10. */
export const bySample = (a, b) => a.localeCompare(b, "en", { numeric: true }) || byText(a, b);

/** The cell of a table that arrow keys, in its frame, or a click have chosen. */
export class Chosen {
  #cells = []; // of the body, by row and column
  #row = 0;
  #column = 0;
  #node = null;
  #tell;

  /** `tell(row, column)` says what the cell rests on. */
  constructor(frame, table, tell) {
    this.#tell = tell;
    frame.addEventListener("keydown", (e) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -1e6], End: [0, 1e6], PageUp: [-10, 0], PageDown: [10, 0] }[e.key];
      if (!step || e.ctrlKey || e.metaKey || e.altKey) return;
      e.preventDefault();
      this.#choose(this.#row + step[0], this.#column + step[1], true);
    });
    frame.addEventListener("focus", () => this.#choose(this.#row, this.#column, false));
    table.tBodies[0].addEventListener("click", (e) => {
      const cell = e.target.closest("td");
      if (cell) this.#choose(Number(cell.parentElement.dataset.row), cell.cellIndex - 1, false);
    });
  }

  /** Puts new cells in place of all; none of them is chosen yet. */
  replace(cells) {
    this.#cells = cells;
    this.#node = null;
    this.#row = Math.min(this.#row, cells.length - 1);
    this.#column = Math.min(this.#column, cells[0].length - 1);
  }

  /** Says again what the chosen cell rests on, if one is. */
  tell() {
    if (this.#node) this.#tell(this.#row, this.#column);
  }

  #choose(row, column, scroll) {
    if (this.#cells.length === 0) return;
    this.#node?.removeAttribute("data-chosen");
    this.#row = Math.max(0, Math.min(this.#cells.length - 1, row));
    this.#column = Math.max(0, Math.min(this.#cells[this.#row].length - 1, column));
    this.#node = this.#cells[this.#row][this.#column];
    this.#node.setAttribute("data-chosen", "");
    if (scroll) this.#node.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.tell();
  }
}

/** Brings a section into view and its table's frame into focus, if it is shown. */
export function focusGrid(section, frame) {
  if (byId(section).hidden) return;
  byId(section).scrollIntoView({ block: "start" });
  byId(frame).focus({ preventScroll: true });
}
