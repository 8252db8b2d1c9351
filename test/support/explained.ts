/** Compares the guards that functions produce with the guards that their definitions explain. */
import { globSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { AdmissionHandler } from "../../functions/shared/admission/definition.ts";
import type { Guards } from "../../functions/shared/base/guards.ts";

export interface ExplainedVerdict {
  readonly function: string;
  readonly guard: string;
}

/** Of each function that ships. The data alone is loaded, because the functions take longer than most tests that need this. */
const explained: ReadonlyMap<string, Guards> = await loadGuards();

async function loadGuards(): Promise<ReadonlyMap<string, Guards>> {
  const folder = join(import.meta.dirname, "../../functions");
  const files = globSync("*/guards.ts", { cwd: folder });
  const modules = await Promise.all(files.map((file) => import(join(folder, file))));
  return new Map(files.map((file, at) => [basename(dirname(file)), modules[at].guards as Guards]));
}

/** Why a verdict breaks the rule that its function explains its guard; undefined for a function that does not ship. */
export function unexplained({ function: by, guard }: ExplainedVerdict): string | undefined {
  const guards = explained.get(by);
  const isKnown = guards === undefined || Object.hasOwn(guards, guard);
  return isKnown ? undefined : `${by} does not explain its guard ${guard}`;
}

/** The handler of a webhook function: a review rejects if the function does not explain the guard of its answer. */
export function explaining(by: string, handler: AdmissionHandler): AdmissionHandler {
  return {
    async review(request) {
      const answer = await handler.review(request);
      const why = unexplained({ function: by, guard: answer.guard });
      if (why !== undefined) throw new Error(why);
      return answer;
    },
    stop: () => handler.stop?.(),
  };
}
