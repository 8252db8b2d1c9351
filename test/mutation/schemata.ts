/**
 * One script that contains all mutants of a source. With `run` it asks at each place which mutant is active; with `record`
 * none is active, and it notes at each place which mutants would have been felt.
 */
import { parse } from "acorn";
import type { MutatedPlace, MutatedSource } from "./mutants.ts";
import type { Range } from "./mutators.ts";
import { otherOperators } from "./mutators.ts";

export type Build = "run" | "record";

/** The script of a source whose first mutant has the number `first`. `runtime`: URL of `runtime.ts`. Throws SyntaxError. */
export function render(source: MutatedSource, first: number, build: Build, runtime: string): string {
  const numbers = new Map<MutatedPlace, number>();
  let next = first;
  for (const place of source.places) {
    numbers.set(place, next);
    next += place.mutants.length;
  }
  const text = new Rendering(source, numbers, build).whole();
  const script = `import { state as __m } from ${JSON.stringify(runtime)};${text}`;
  // A script that cannot be imported would fail every test, and so kill every mutant.
  parse(script, { ecmaVersion: "latest", sourceType: "module" });
  return script;
}

interface Loop extends Range {
  readonly isLoop: true;
}

class Rendering {
  readonly #script: string;
  readonly #places: readonly (MutatedPlace | Loop)[];
  readonly #numbers: ReadonlyMap<MutatedPlace, number>;
  readonly #build: Build;

  constructor({ script, places, loops }: MutatedSource, numbers: ReadonlyMap<MutatedPlace, number>, build: Build) {
    this.#script = script;
    // The outermost first: by start, and the longest of one start first. Places of one range keep their order.
    const bodies = loops.map(({ start, end }): Loop => ({ start, end, isLoop: true }));
    this.#places = [...bodies, ...places].sort((one, other) => one.start - other.start || other.end - one.end);
    this.#numbers = numbers;
    this.#build = build;
  }

  whole(): string {
    return this.#range({ start: 0, end: this.#script.length }, 0);
  }

  /** The text of a range, with the places from index `from` on inside it. */
  #range({ start, end }: Range, from: number): string {
    let text = "";
    let at = start;
    for (let index = from; index < this.#places.length; index++) {
      const place = this.#places[index] as MutatedPlace | Loop;
      if (place.start >= end) break;
      if (place.start < at || place.end > end) continue;
      text += this.#script.slice(at, place.start) + this.#place(place, index);
      at = place.end;
    }
    return text + this.#script.slice(at, end);
  }

  #place(place: MutatedPlace | Loop, index: number): string {
    if ("isLoop" in place) return `{__m.turn();${this.#range(place, index + 1)}}`;
    const number = this.#numbers.get(place) as number;
    if (this.#build === "record") return this.#recorded(place, index, number);
    const inner = this.#range(place, index + 1);
    if (place.isStatement) return `{if(__m.on!==${number}){${inner}}}`;
    const choices = place.replacements.map((text, nth) => `__m.on===${number + nth}?(${text}):`);
    return `(${choices.join("")}(${inner}))`;
  }

  #recorded(place: MutatedPlace, index: number, number: number): string {
    const { felt, mutants, replacements } = place;
    if (felt.kind === "operands") {
      const alternatives = JSON.stringify(otherOperators(felt.operator));
      const [left, right] = [felt.left, felt.right].map((side) => this.#range(side, index + 1));
      return `__m.operands(${number},${JSON.stringify(felt.operator)},${alternatives},(${left}),(${right}))`;
    }
    const inner = this.#range(place, index + 1);
    if (felt.kind === "truth") {
      const numbers = ["true", "false"].map((text) =>
        replacements.includes(text) ? number + replacements.indexOf(text) : 0,
      );
      return `__m.truth(${numbers.join()},(${inner}))`;
    }
    if (felt.kind === "present") return `__m.present(${number},(${inner}))`;
    if (place.isStatement) return `{__m.reach(${number},1);${inner}}`;
    return `(__m.reach(${number},${mutants.length}),(${inner}))`;
  }
}
