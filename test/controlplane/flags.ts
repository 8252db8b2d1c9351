import { parseArgs } from "node:util";

/** The flags of a command line, by name. */
export type Flags = Readonly<Record<string, { readonly type: "string" | "boolean" }>>;

/** A command line that was read. */
export class CommandLine {
  readonly #values = new Map<string, string | true>();
  /** A line for each mistake: the values are valid only without one. */
  readonly mistakes: string[] = [];

  constructor(args: readonly string[], flags: Flags) {
    const { tokens } = parseArgs({ args: [...args], options: flags, strict: false, tokens: true });
    for (const token of tokens) {
      if (token.kind === "positional") this.mistakes.push(`${token.value}: not a flag; see --help`);
      if (token.kind !== "option") continue;
      const flag = Object.hasOwn(flags, token.name) ? flags[token.name] : undefined;
      if (!flag) this.mistakes.push(`${token.rawName}: no such flag; see --help`);
      else if (flag.type === "string" && !token.value) this.mistakes.push(`${token.rawName}: needs a value`);
      else if (flag.type === "boolean" && token.value !== undefined)
        this.mistakes.push(`${token.rawName}: takes no value`);
      else this.#values.set(token.name, token.value ?? true);
    }
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  text(name: string): string | undefined {
    const value = this.#values.get(name);
    return typeof value === "string" ? value : undefined;
  }

  /** A whole number within limits; `otherwise` if the flag is missing. */
  whole(name: string, otherwise: number, least: number, most: number): number {
    const text = this.text(name);
    if (text === undefined) return otherwise;
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return value;
    this.mistakes.push(`--${name} ${text}: must be a whole number from ${least} to ${most}`);
    return otherwise;
  }

  /** One of a few words; the first if the flag is missing. */
  word<Word extends string>(name: string, words: readonly [Word, ...Word[]]): Word {
    const text = this.text(name);
    const word = words.find((one) => one === text);
    if (text !== undefined && word === undefined)
      this.mistakes.push(`--${name} ${text}: must be ${words.join(" or ")}`);
    return word ?? words[0];
  }
}
