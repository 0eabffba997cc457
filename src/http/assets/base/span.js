// Durations and sizes in words, as in `src/http/pages/parts/time.rs`.

/** Returns a duration: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function span(ms) {
  const both = (large, unit, small, sub) => `${large} ${unit}${small ? ` ${small} ${sub}` : ""}`;
  const seconds = Math.floor(ms / 1_000);
  if (ms < 100) return "less than 0.1 s";
  if (ms < 1_000) return `${seconds}.${Math.floor((ms % 1_000) / 100)} s`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return both(Math.floor(seconds / 60), "min", seconds % 60, "s");
  return both(Math.floor(seconds / 3_600), "h", Math.floor((seconds % 3_600) / 60), "min");
}

/** Returns a number with its digits in groups of three. */
export function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}
