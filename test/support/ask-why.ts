/** A user runs the kubectl plugin in a pod of Sluice, with the account of the pod. */
import assert from "node:assert/strict";
import { connect } from "../../functions/shared/kubernetes/client.ts";
import { run } from "../../triggers/plugin/command.ts";
import type { FixtureGroup } from "../controlplane/fixtures.ts";

/** Asks why a group waits, and why all groups of its namespace do. */
export async function askWhy({ name, namespace }: FixtureGroup, kubeconfig: string): Promise<void> {
  for (const asked of [[name], []]) {
    const printed: string[] = [];
    const code = await run(["why", ...asked, "-n", namespace], {
      async connect() {
        const cluster = await connect({ userAgent: "kubectl-sluice/test", kubeconfig });
        return { cluster, namespace, close: () => cluster.close() };
      },
      out: (text) => void printed.push(text),
      err: (line) => void printed.push(line),
      emphasize: (text) => text,
    });
    assert.equal(code, 0, printed.join("\n"));
    assert.ok(printed.join("").includes(name));
  }
}
