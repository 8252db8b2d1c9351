/** `kubectl sluice` over a small world in virtual time: a command line in, what is printed and the exit code out. */
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { type ExitCode, run } from "../../../../triggers/plugin/command.ts";
import { namespace, type Passes, played } from "../../shared/reconcile/passes.ts";

export interface Printed {
  readonly code: ExitCode;
  readonly out: string;
  /** What went to standard error, line by line. */
  readonly said: readonly string[];
}

/** Runs a command line against the world of `passes`, or against another cluster on the same timeline. */
export async function sluice(passes: Passes, line: string, cluster: Cluster = passes.cluster): Promise<Printed> {
  let out = "";
  const said: string[] = [];
  const terminal = {
    connect: async () => ({ cluster, namespace, close: async () => {} }),
    out(text: string) {
      out += text;
    },
    err: (sentence: string) => void said.push(sentence),
    emphasize: (text: string) => text,
  };
  const code = await played(passes.timeline, run(line.split(" ").filter(Boolean), terminal));
  return { code, out, said };
}

/** The verbs of all calls that change something. */
export function writes(passes: Passes): string[] {
  return passes.words.filter((words) => /^(create|patch|delete) /.test(words));
}
