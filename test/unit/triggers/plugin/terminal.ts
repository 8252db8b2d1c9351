/** `kubectl sluice` in a fake cluster in virtual time: it gets a command line, and returns its output and exit code. */
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { run } from "../../../../triggers/plugin/command.ts";
import type { ApiConnection, ExitCode, Terminal } from "../../../../triggers/plugin/terminal.ts";
import { type Harness, namespace, played } from "../../shared/reconcile/harness.ts";

export interface Printed {
  readonly code: ExitCode;
  readonly out: string;
  /** Lines on standard error. */
  readonly err: readonly string[];
}

/** Runs a command line against the cluster of `passes`, or against another cluster on the same timeline. */
export async function sluice(
  harness: Harness,
  line: string,
  cluster: Cluster = harness.cluster,
  calls: Partial<ApiConnection> = {},
  rest: Partial<Terminal> = {},
): Promise<Printed> {
  let out = "";
  const reported: string[] = [];
  const terminal = {
    connect: async () => ({
      cluster,
      namespace,
      askEviction: async () => {},
      ready: async () => ({}),
      close: async () => {},
      ...calls,
    }),
    out(text: string) {
      out += text;
    },
    err: (message: string) => void reported.push(message),
    emphasize: (text: string) => text,
    ...rest,
  };
  const code = await played(harness.timeline, run(line.split(" ").filter(Boolean), terminal));
  return { code, out, err: reported };
}

/** The verbs of all calls that change something. */
export function writes(harness: Harness): string[] {
  return harness.requests.filter((request) => /^(create|patch|delete) /.test(request));
}
