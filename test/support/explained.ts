/** Compares the guards that functions produce with the guards that their definitions explain. */
import { table } from "../../triggers/table.ts";

export interface ExplainedVerdict {
  readonly function: string;
  readonly guard: string;
}

const explained = new Map(table.map(({ name, guards }) => [name, new Set(Object.keys(guards))]));

/** Why a verdict breaks the rule that its function explains its guard; undefined for a function that does not ship. */
export function unexplained({ function: by, guard }: ExplainedVerdict): string | undefined {
  return explained.get(by)?.has(guard) === false ? `${by} does not explain its guard ${guard}` : undefined;
}
