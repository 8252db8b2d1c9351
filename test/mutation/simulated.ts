/** The simulation for mutants: seeds of the default plan, and of the scenarios aimed at rules, with every rule kept. */
import { pathToFileURL } from "node:url";

export interface Scenario {
  /** 0 for the default plan, otherwise the number of the scenario, from 1. */
  readonly scenario: number;
  /** The rule that the scenario is aimed at; empty for the default plan. */
  readonly rule: string;
  readonly seed: number;
}

export interface Simulation {
  /** The rules that the scenarios are aimed at, in order. */
  readonly rules: readonly string[];
  /** Throws if the seed breaks a promise. */
  run(scenario: Scenario): Promise<void>;
}

interface Exports {
  readonly simulate: (
    seed: number,
    options: { readonly aim?: unknown },
  ) => Promise<{ readonly violations: readonly { readonly invariant: string; readonly message: string }[] }>;
  readonly removedRules: readonly { readonly rule: string; readonly aim: unknown }[];
}

/** Imports `simulation.ts` and `rules-evictions.ts` of a folder. */
export async function loadSimulation(root: string, folder: string): Promise<Simulation> {
  const open = async (name: string) => (await import(pathToFileURL(`${root}/${folder}/${name}`).href)) as Exports;
  const { simulate } = await open("simulation.ts");
  const { removedRules } = await open("rules-evictions.ts");
  return {
    rules: removedRules.map(({ rule }) => rule),
    async run({ scenario, seed }) {
      const aimed = removedRules[scenario - 1];
      const { violations } = await simulate(seed, aimed === undefined ? {} : { aim: aimed.aim });
      const [violation] = violations;
      if (violation !== undefined) throw new Error(`${violation.invariant}: ${violation.message}`);
    },
  };
}
