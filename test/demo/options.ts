/** The command line of the demo. */
import { parseArgs } from "node:util";

export interface DemoOptions {
  /** True: plain lines, also in a terminal. */
  readonly headless: boolean;
  /** Decides which events are lost, how long pods take, and which pod breaks. */
  readonly seed: number;
  /** Number of pods in each of the three zones. */
  readonly pods: number;
  /** Share of watch events that never reach Sluice, from 0 to 0.9. */
  readonly drop: number;
  /** True: Sluice shows its page, and goes on with that when the story has ended. */
  readonly page: boolean;
}

export interface ReadOptions {
  readonly options: DemoOptions;
  readonly help: boolean;
  /** A line for each mistake. The options may be used only if there is none. */
  readonly mistakes: readonly string[];
}

export const help = `npm run demo -- [--headless] [--seed N] [--pods N] [--drop SHARE] [--page]

Sluice, as npm start runs it, rolls three zones of pods against an embedded cluster, while a share of the
watch events is lost, one pod breaks, and nodes of all zones are drained at once. Then a zone is made smaller: each
pod is an HTTP server, is told before it leaves, and one of them refuses at first. Every deletion and eviction is
decided by the checkers of invariants Z1 to Z4, E1 and E2; D1 is that no pod leaves before it has said that it may.

  --headless     plain lines, one for each change, as when the output is no terminal
  --seed N       which events are lost and which pod breaks (default 1)
  --pods N       pods in each zone, 1 to 60 (default 8); a quarter of them, but at least one, may be down
  --drop SHARE   share of the watch events that is lost, 0 to 0.9 (default 0.33)
  --page         prints the URL of the page that shows all of it in a browser; it stays until Ctrl-C
  --help         this text

Exit code 0: rolled and drained in time and no invariant broken; 1: otherwise; 2: an option is wrong; 130: Ctrl-C before
the end.`;

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;

/** Reads the arguments after the script's name. */
export function readOptions(argv: readonly string[]): ReadOptions {
  const mistakes: string[] = [];
  let values: { headless?: boolean; seed?: string; pods?: string; drop?: string; page?: boolean; help?: boolean } = {};
  try {
    const options = {
      headless: flag,
      seed: text,
      pods: text,
      drop: text,
      page: flag,
      help: { ...flag, short: "h" },
    } as const;
    ({ values } = parseArgs({ args: [...argv], options }));
  } catch (error) {
    mistakes.push((error as Error).message);
  }
  const number = (name: "seed" | "pods" | "drop", grammar: RegExp, least: number, most: number, fallback: number) => {
    const given = values[name];
    if (given === undefined) return fallback;
    const value = grammar.test(given) ? Number(given) : Number.NaN;
    if (value >= least && value <= most) return value;
    const kind = name === "drop" ? "a number" : "a whole number";
    mistakes.push(`--${name} is ${JSON.stringify(given)}, and must be ${kind} from ${least} to ${most}`);
    return fallback;
  };
  const options = {
    headless: values.headless ?? false,
    seed: number("seed", /^\d+$/, 0, 2 ** 32 - 1, 1),
    pods: number("pods", /^\d+$/, 1, 60, 8),
    drop: number("drop", /^(\d+\.?\d*|\.\d+)$/, 0, 0.9, 0.33),
    page: values.page ?? false,
  };
  return { options, help: values.help ?? false, mistakes };
}
