/** A picture in a terminal that is redrawn in its place. */
import type { WriteStream } from "node:tty";

const hideCursor = "\x1b[?25l";
const showCursor = "\x1b[?25h";
const toEndOfLine = "\x1b[K";
const toEndOfScreen = "\x1b[J";
const clear = "\x1b[2J\x1b[H";
/** Terminals that know this sequence show the following output at once; others ignore it. */
const beginUpdate = "\x1b[?2026h";
const endUpdate = "\x1b[?2026l";

export class Screen {
  readonly #stream: WriteStream;
  #height = 0;
  #shown = "";
  #isStale = false;
  readonly #onResize = (): void => {
    this.#isStale = true;
  };

  constructor(stream: WriteStream) {
    this.#stream = stream;
    stream.on("resize", this.#onResize);
    stream.write(hideCursor);
  }

  get columns(): number {
    return this.#stream.columns || 80;
  }

  /** Draws over the last picture. Lines must not be wider than the terminal. */
  draw(lines: readonly string[]): void {
    const fitting = lines.slice(0, Math.max(1, (this.#stream.rows || 24) - 1));
    const text = fitting.map((line) => `${line}${toEndOfLine}\n`).join("");
    if (text === this.#shown && !this.#isStale) return;
    // After a resize the terminal has wrapped the old lines anew, and their place is unknown.
    const start = this.#isStale ? clear : this.#height > 0 ? `\x1b[${this.#height}F` : "";
    this.#isStale = false;
    this.#height = fitting.length;
    this.#shown = text;
    this.#stream.write(`${beginUpdate}${start}${text}${toEndOfScreen}${endUpdate}`);
  }

  /** Leaves the last picture where it is. */
  close(): void {
    this.#stream.off("resize", this.#onResize);
    this.#stream.write(showCursor);
  }
}
