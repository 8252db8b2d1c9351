/** Sizes that follow on a real control plane, as kubectl shows them. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Api, eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { kubectl } from "./kubectl.ts";

const leaderKey = "grafana.com/rollout-downscale-leader";
const forceKey = "grafana.com/rollout-force-replicas";

describe("followers on a real control plane", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-follow" });
  });

  after(async () => {
    await api?.close();
    await controlPlane?.stop();
  });

  /** Three zones: b follows a, and c follows b. */
  async function chain(namespace: string, pods: number, servers: number) {
    const group = await createGroup(controlPlane, { name: "db", namespace, zones: 3, pods });
    const [a = "", b = "", c = ""] = group.statefulSets;
    const run = (...args: string[]) => kubectl(controlPlane, ["-n", namespace, ...args]);
    await run("annotate", "statefulset", b, `${leaderKey}=${a}`);
    await run("annotate", "statefulset", c, `${leaderKey}=${b}`);
    await waitForGroupReady(controlPlane, group);
    const started = await Promise.all(
      Array.from({ length: servers }, () =>
        Server.start({
          kubeconfig: controlPlane.kubeconfig,
          namespace,
          settings: { FUNCTION: "follow-replicas,keep-ledgers" },
        }),
      ),
    );
    await Promise.all(started.map((server) => server.ready()));
    const sizes = async () => {
      const shown = await run("get", "statefulset", a, b, c, "-o", "jsonpath={.items[*].spec.replicas}");
      return shown.split(" ").map(Number);
    };
    const come = (wanted: readonly number[]) =>
      eventually(
        `the sizes ${wanted.join(", ")}`,
        60_000,
        async () => ((await sizes()).join() === wanted.join() ? true : undefined),
        100,
      );
    return { a, b, c, run, come, stop: () => Promise.all(started.map((server) => server.stop())) };
  }

  test("a chain of followers gets larger and smaller with its leader, one zone after the other, and a forced size overrides it", async () => {
    const { a, c, run, come, stop } = await chain("chain", 3, 2);
    try {
      await run("scale", "statefulset", a, "--replicas=5");
      await come([5, 5, 5]);
      await run("annotate", "statefulset", c, `${forceKey}=4`);
      await come([5, 5, 4]);
      await run("annotate", "statefulset", c, `${forceKey}-`);
      await come([5, 5, 5]);
      const from = await auditPosition(controlPlane.auditLog);
      await run("scale", "statefulset", a, "--replicas=2");
      await come([2, 2, 2]);
      // Each zone is lowered by one write, whichever of the two processes sends it.
      const lowered: unknown[] = [];
      for await (const { userAgent, verb, resource, name } of readAudit(controlPlane.auditLog, { from }, () => {}))
        if (userAgent.startsWith("sluice/") && verb === "patch" && resource === "statefulsets") lowered.push(name);
      assert.equal(lowered.length, 2, lowered.join());
      const claims = async () => {
        const lease = await api.get<{ metadata: { annotations?: Record<string, string> } }>(
          "/apis/coordination.k8s.io/v1/namespaces/chain/leases/sluice-db",
        );
        return (lease.metadata.annotations?.["sluice.dev/claims"] ?? "") === "" ? true : undefined;
      };
      await eventually("no claim left", 60_000, claims);
    } finally {
      await stop();
    }
  });

  test("followers of a leader that goes from 1 to 100 pods take one write each", async (context) => {
    const { a, run, come, stop } = await chain("hundred", 1, 1);
    try {
      const from = await auditPosition(controlPlane.auditLog);
      await run("scale", "statefulset", a, "--replicas=100");
      const startedMs = performance.now();
      await come([100, 100, 100]);
      context.diagnostic(
        `the followers have 100 replicas ${Math.round(performance.now() - startedMs)} ms after their leader`,
      );
      const requests: Record<string, number> = {};
      for await (const { userAgent, verb, resource } of readAudit(controlPlane.auditLog, { from }, () => {}))
        if (userAgent.startsWith("sluice/"))
          requests[`${verb} ${resource}`] = (requests[`${verb} ${resource}`] ?? 0) + 1;
      context.diagnostic(JSON.stringify(requests));
      assert.equal(requests["patch statefulsets"], 2);
    } finally {
      await stop();
    }
  });
});
