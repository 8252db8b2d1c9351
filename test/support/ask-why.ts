/** A user runs the kubectl plugin in a pod of Sluice, with the account of the pod. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { connect } from "../../functions/shared/kubernetes/client.ts";
import { run } from "../../triggers/plugin/command.ts";
import { writeKubeconfig } from "../controlplane/configuration.ts";
import { tokenOf } from "./installed.ts";
import type { Scene } from "./scene.ts";

/** Asks why the group of a scene waits, and why all groups of its namespace do, as an account of `namespace`. */
export async function askWhy(scene: Scene, namespace: string, account: string): Promise<void> {
  const { api, controlPlane, group } = scene;
  // Several scenes may ask at once, and each needs a file of its own.
  const kubeconfig = join(controlPlane.directory, `why-${group.namespace}.kubeconfig`);
  const token = await tokenOf(api, namespace, account);
  await writeKubeconfig(kubeconfig, controlPlane.url, token, controlPlane.caFile, group.namespace);
  for (const asked of [[group.name], []]) {
    const printed: string[] = [];
    const code = await run(["why", ...asked, "-n", group.namespace], {
      async connect() {
        const cluster = await connect({ userAgent: "kubectl-sluice/test", kubeconfig });
        return { cluster, namespace: group.namespace, close: () => cluster.close() };
      },
      out: (text) => void printed.push(text),
      err: (line) => void printed.push(line),
      emphasize: (text) => text,
    });
    assert.equal(code, 0, printed.join("\n"));
    assert.ok(printed.join("").includes(group.name));
  }
}
