// Where channels lie on a flow cell. Pure. The geometries are in ../../API.md.

/**
 * The places of channels 1 to count: `{columns, rows, x, y}`, x[i] and y[i] those of
 * channel i+1, counted from the top left.
 */
export function layout(name, columns, rows, count) {
  const x = new Uint16Array(count);
  const y = new Uint16Array(count);
  if (name === "promethion" && count <= 3000) {
    for (let c = 0; c < count; c++) {
      x[c] = 10 * Math.floor(c / 250) + (c % 10);
      y[c] = Math.floor((c % 250) / 10);
    }
    return { columns: 120, rows: 25, x, y };
  }
  if (name === "minion" && count <= 512) {
    const place = (channel, column, row) => {
      if (channel > count) return;
      x[channel - 1] = column;
      y[channel - 1] = row;
    };
    [33, 481, 417, 353, 289, 225, 161, 97].forEach((first, block) => {
      for (let n = 0; n < 4; n++) {
        for (let row = 0; row < 8; row++) {
          place(first + 8 * n + row, 4 * block + n, row);
          place(first + 8 * n - 25 - row, 4 * block + n, 8 + row);
        }
      }
    });
    return { columns: 32, rows: 16, x, y };
  }
  if (name === "flongle" && count <= 126) {
    // The corners on the right are cut: two rows of 12 at the top, and two at the bottom.
    let c = 0;
    for (let row = 0; row < 10; row++) {
      for (let column = 0; column < (row < 2 || row > 7 ? 12 : 13) && c < count; column++, c++) {
        x[c] = column;
        y[c] = row;
      }
    }
    return { columns: 13, rows: 10, x, y };
  }
  const across = columns > 0 ? columns : Math.ceil(Math.sqrt(2 * count)) || 1;
  for (let c = 0; c < count; c++) {
    x[c] = c % across;
    y[c] = Math.floor(c / across);
  }
  return { columns: across, rows: Math.max(rows || 0, Math.ceil(count / across)), x, y };
}

/**
 * A wide flow cell folded into bands, one below the other, if its cells become larger by
 * that: the number of bands, and of columns in each. PromethION's twelve blocks of ten
 * columns stay whole.
 */
export function fold(columns, rows, width, height, gap) {
  let best = { bands: 1, columns, cell: 0 };
  for (const bands of [1, 2, 3, 4]) {
    const across = columns / bands;
    if (bands > 1 && (across % 10 !== 0 || columns < 60)) continue;
    const cell = Math.min(width / across, (height - gap * (bands - 1)) / (rows * bands));
    if (cell > best.cell * 1.05) best = { bands, columns: across, cell };
  }
  return best;
}
