/** A user runs the kubectl plugin in a pod of Sluice, with the account of the pod. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { connect } from "../../functions/shared/kubernetes/client.ts";
import { run } from "../../triggers/plugin/command.ts";
import { connectionTo } from "../../triggers/plugin/terminal.ts";
import { writeKubeconfig } from "../controlplane/configuration.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { tokenOf } from "./installed.ts";
import type { Scene } from "./scene.ts";

/** Asks why the group of a scene waits, and why all groups of its namespace do, as an account of `namespace`. */
export async function askWhy({ api, controlPlane, group }: Scene, namespace: string, account: string): Promise<void> {
  const token = await tokenOf(api, namespace, account);
  for (const asked of [[group.name], []]) {
    const printed = await runPlugin(controlPlane, ["why", ...asked, "-n", group.namespace], group.namespace, token);
    assert.ok(printed.includes(group.name));
  }
}

/** What the plugin prints in a pod of `namespace` with the token of its account. Rejects if it ends with another code than 0. */
export async function runPlugin(
  { directory, url, caFile }: ControlPlane,
  words: readonly string[],
  namespace: string,
  token: string,
): Promise<string> {
  // Several scenes may ask at once, and each needs a file of its own.
  const kubeconfig = join(directory, `why-${namespace}.kubeconfig`);
  await writeKubeconfig(kubeconfig, url, token, caFile, namespace);
  const printed: string[] = [];
  const code = await run([...words], {
    async connect() {
      const cluster = await connect({ userAgent: "kubectl-sluice/test", kubeconfig });
      return connectionTo(cluster, namespace);
    },
    out: (text) => void printed.push(text),
    err: (line) => void printed.push(line),
    emphasize: (text) => text,
  });
  assert.equal(code, 0, printed.join("\n"));
  return printed.join("");
}
