/** What kubectl sluice shows of the status, and whether it may be relied on: the real kubectl, and a real API server. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Api, eventually } from "../controlplane/api.ts";
import { changeTemplate, waitForGroupReady } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { guardEvictions } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { Plugin } from "../support/plugin.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";
import { kubectl } from "./kubectl.ts";

/** A `kubectl` that forwards nothing, and prints what the real one prints. `kubectl sluice` is the real one's own. */
const forwardingKubectl = `#!/bin/sh
case "$*" in
*port-forward*) echo "$*" >>"$(dirname "$0")/forwarded"; echo "Forwarding from 127.0.0.1:4711 -> 8002"; exec sleep 600 ;;
esac
exit 1
`;

describe("kubectl sluice shows the status", { skip: await skipWithoutControlPlane() }, () => {
  let stage: EvictionStage;
  let plugin: Plugin;

  before(async () => {
    stage = await startEvictionStage();
    plugin = await Plugin.build(stage.controlPlane);
  });

  after(async () => {
    await plugin?.remove();
    await stage?.stop();
  });

  /** Starts it in the background, and collects its output. */
  function start(line: string, path = plugin.path): { readonly program: ChildProcess; printed(): string } {
    const { kubectl, kubeconfig } = stage.controlPlane;
    const env = { ...process.env, PATH: path, KUBECONFIG: kubeconfig, HOME: plugin.folder };
    const program = spawn(kubectl, ["sluice", ...line.split(" ")], { env, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    for (const stream of [program.stdout, program.stderr])
      stream.on("data", (chunk) => {
        text += chunk;
      });
    return { program, printed: () => text };
  }

  function ended(program: ChildProcess): Promise<number | null> {
    return new Promise((resolve) => program.once("close", resolve));
  }

  test("status shows a group at rest, and -w into a pipe each change of its rollout, until Ctrl-C", async () => {
    // Longer than the command takes from read to read.
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "3000" };
    await play(stage.controlPlane, "shown", { zones: 2, pods: 1, podAnnotations }, async (scene) => {
      await scene.waitForOldLedger(await scene.serve());
      const rest = await plugin.sluice("status -n shown");
      assert.deepEqual([rest.code, rest.stderr], [0, ""]);
      assert.match(
        rest.stdout,
        /^Status of namespace shown at \S+Z\n\nNothing needs you\.\n\nAT REST +ZONES +READY +LAST POD READY\n/,
      );
      assert.match(rest.stdout, /^shown\/shown +2 +2\/2 +\d+ \S+ ago\n/m);
      const watching = start("status shown -n shown -w");
      await eventually(
        "the first line",
        20_000,
        async () => /shown\/shown: idle/.test(watching.printed()) || undefined,
      );
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      await eventually(
        "the rollout",
        20_000,
        async () => /Z shown\/shown: working, [01] of 2 updated, .+\n/.test(watching.printed()) || undefined,
      );
      await waitForGroupReady(stage.controlPlane, scene.group, { updated: true });
      await eventually(
        "the end of the rollout",
        20_000,
        async () => /2 of 2 updated[^\n]*\n$/.test(watching.printed()) || undefined,
      );
      watching.program.kill("SIGINT");
      assert.equal(await ended(watching.program), 0);
      const all = await plugin.sluice("status -A -o json");
      const { groups } = JSON.parse(all.stdout);
      assert.ok(
        groups.some(({ group }: { group: string }) => group === "shown"),
        all.stdout,
      );
      assert.equal((await plugin.sluice("status other -n shown")).code, 1);
      assert.equal((await plugin.sluice("status -A -n shown")).code, 2);
    });
  });

  test("page runs the kubectl on PATH with the namespace of a ready replica, takes another one, and Ctrl-C ends both", async () => {
    const folder = join(plugin.folder, "forwarding");
    await mkdir(folder);
    await writeFile(join(folder, "kubectl"), forwardingKubectl);
    await chmod(join(folder, "kubectl"), 0o755);
    const api = await Api.open(stage.controlPlane, { userAgent: "sluice-test-status" });
    const pods = "/api/v1/namespaces/paged/pods";
    const add = async (name: string) => {
      const env = [{ name: "STATUS_LISTEN", value: "127.0.0.1:8002" }];
      await api.post(pods, {
        ...{ apiVersion: "v1", kind: "Pod" },
        metadata: { name, labels: { "app.kubernetes.io/name": "sluice" } },
        spec: { containers: [{ name: "sluice", image: "registry.invalid/sluice:0.1.0", env }] },
      });
      const conditions = [{ type: "Ready", status: "True", lastTransitionTime: new Date().toISOString() }];
      await api.patch(`${pods}/${name}/status`, { status: { phase: "Running", conditions } });
    };
    try {
      await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "paged" } });
      const none = await plugin.sluice("page -n paged");
      assert.deepEqual(
        [none.code, none.stderr],
        [1, "kubectl-sluice: there is no replica of Sluice: see kubectl sluice check\n"],
      );
      await add("sluice-0");
      const paging = start("page -n paged --port 0", [folder, plugin.path].join(":"));
      const shown = (name: string) => async () =>
        paging.printed().includes(`http://127.0.0.1:4711/ shows the page of paged/${name};`) || undefined;
      await eventually("the URL", 20_000, shown("sluice-0"));
      await add("sluice-1");
      await api.delete(`${pods}/sluice-0?gracePeriodSeconds=0`);
      await eventually("the URL by another replica", 20_000, shown("sluice-1"));
      paging.program.kill("SIGINT");
      assert.equal(await ended(paging.program), 0, paging.printed());
      assert.equal((await plugin.sluice("page --port http")).code, 2);
    } finally {
      await api.close();
      await rm(folder, { recursive: true, force: true });
    }
  });

  test("check finds what is registered, what answers and which rights there are, and what is wrong once the webhook is gone", async () => {
    const options = { zones: 2, pods: 1, zoneBudget: { maxUnavailable: 1 } };
    await play(stage.controlPlane, "checked", options, async (scene) => {
      const server = await guardEvictions(scene, stage.certificate);
      await scene.waitForGuard("done");
      const configuration = "mutatingwebhookconfiguration/pod-eviction-checked";
      await kubectl(stage.controlPlane, ["label", configuration, "grafana.com/namespace=checked"]);
      const { code, stdout, stderr } = await plugin.sluice("check -n checked");
      assert.deepEqual([code, stderr], [1, ""], stdout);
      assert.match(stdout, /^ok +CRD +zoneawarepoddisruptionbudgets are served in v1$/m);
      assert.match(stdout, /^wrong +replicas +there is no replica of Sluice\. To mend it: kubectl apply /m);
      assert.match(stdout, /^ok +versions +plugin \d+\.\d+\.\d+, replicas unknown, API server v1\./m);
      assert.match(stdout, /^unknown +certificate +there is no Secret /m);
      assert.match(stdout, /^ok +webhooks registered +1 configurations of checked: pod-eviction-checked$/m);
      assert.match(stdout, /^unknown +webhooks trusted +each has a caBundle, /m);
      assert.match(stdout, /^ok +webhooks answer +the eviction of checked-zone-\S+ would be allowed now$/m);
      assert.match(stdout, /^ok +your rights +you have the \d+ rights /m);
      assert.match(stdout, /^ok +rollout-operator .+\nok +your rights .+\nok +rights of Sluice /m);
      await server.stop();
      const without = await plugin.sluice("check -n checked");
      assert.match(
        without.stdout,
        /^wrong +webhooks answer .+failed calling webhook .+To mend it: kubectl get endpointslices /m,
      );
      assert.equal((await plugin.sluice("check now")).code, 2);
    });
  });
});
