import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { evaluateEviction } from "../../functions/evaluate-eviction/function.ts";
import { keepLedgers } from "../../functions/keep-ledgers/function.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { changeTemplate, groupPods, waitForGroupReady } from "../controlplane/fixtures.ts";
import { runKubectl } from "../support/drain.ts";
import { evict, guardEvictions, webhookName } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";
import { complaintsIn, createUser, grant, refusalsIn } from "./rights.ts";

interface Named {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
}

/** Revisions of everything that a dry run could change: all objects of the namespace that Sluice may write, and the nodes. */
async function revisions({ api, group: { namespace } }: Scene): Promise<Record<string, string>> {
  const paths = [
    ...["pods", "events", "configmaps", "secrets"].map((type) => `/api/v1/namespaces/${namespace}/${type}`),
    `/apis/apps/v1/namespaces/${namespace}/statefulsets`,
    `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`,
    `/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets`,
    `/apis/rollout-operator.grafana.com/v1/namespaces/${namespace}/zoneawarepoddisruptionbudgets`,
    "/api/v1/nodes",
  ];
  const lists = await Promise.all(paths.map((path) => api.get<{ items: Named[] }>(path)));
  const entries = lists.flatMap(({ items }, index) =>
    items.map(({ metadata }) => [`${paths[index]}/${metadata.name}`, metadata.resourceVersion] as const),
  );
  return Object.fromEntries(entries);
}

/** Resolves, when the audit log has all answers so far, to its end in bytes. It is in order, and a little late. */
async function auditedUntil({ api, controlPlane, group }: Scene): Promise<number> {
  const from = await auditPosition(controlPlane.auditLog);
  const mark = `mark-${crypto.randomUUID()}`;
  await api.send("GET", `/api/v1/namespaces/${group.namespace}/configmaps/${mark}`);
  await eventually("the audit log read", 10_000, async () => {
    for await (const { name } of readAudit(controlPlane.auditLog, { from }, () => {})) if (name === mark) return true;
    return undefined;
  });
  return auditPosition(controlPlane.auditLog);
}

/** Resolves to the end of the audit log when the group's first verdict is in the ledger, and nothing is written for a while. */
async function quiet(scene: Scene): Promise<number> {
  await scene.waitForGuard("done");
  return auditedUntil(scene);
}

/** Sluice's writes in the scene's namespace since then, by the API server's audit log. */
async function writesSince(scene: Scene, from: number): Promise<string[]> {
  await auditedUntil(scene);
  const requests = await scene.requests(from);
  return requests
    .filter(({ verb }) => !["get", "list"].includes(verb))
    .map(({ verb, resource }) => `${verb} ${resource}`);
}

/** Evicts every pod once: each worker takes one, tries every 100 ms until it goes, and takes the next. */
async function storm(scene: Scene, pods: readonly string[], workers: number): Promise<{ asked: number }> {
  const api = await Api.open(scene.controlPlane, { userAgent: "sluice-test-storm", connections: workers });
  const queue = [...pods];
  let asked = 0;
  const work = async (): Promise<void> => {
    for (let pod = queue.shift(); pod !== undefined; pod = queue.shift()) {
      for (;;) {
        const { code, message } = await evict(api, scene.group.namespace, pod);
        asked++;
        if (code === 201) break;
        // 404 and 409: another client has just taken the reviewed pod, so that the next request evicts its successor.
        assert.ok(code === 429 || code === 404 || code === 409, `${code} ${message}`);
        await delay(100);
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: workers }, work));
  } finally {
    await api.close();
  }
  return { asked };
}

describe("evictions on a real control plane", { skip: await skipWithoutControlPlane(), concurrency: 4 }, () => {
  let stage: EvictionStage;

  before(async () => {
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  test("a dry run that is allowed changes no object: Sluice writes nothing", async () => {
    const options = { pods: 3, nodesPerZone: 1, zoneBudget: { maxUnavailable: 1 } };
    const { takings } = await play(stage.controlPlane, "rehearsed", options, async (scene) => {
      const server = await guardEvictions(scene, stage.certificate);
      const from = await quiet(scene);
      const before = await revisions(scene);
      const nodes = await scene.nodesOf("zone-a", "zone-b");
      const flags = ["--ignore-daemonsets", "--dry-run=server", "--timeout=20s"];
      const drained = await Promise.all(nodes.map((node) => runKubectl(stage.controlPlane, "drain", node, ...flags)));
      for (const { code, stdout, stderr } of drained) {
        assert.equal(code, 0, stderr);
        assert.match(stdout, /evicting pod rehearsed\/rehearsed-zone-[ab]-[0-2] \(server dry run\)/);
      }
      for (const way of ["in the body", "in the query"] as const) {
        const answer = await evict(scene.api, "rehearsed", "rehearsed-zone-c-0", way);
        assert.deepEqual(answer, { code: 201, message: "", causes: [] });
      }
      assert.deepEqual(await revisions(scene), before);
      assert.deepEqual(await writesSince(scene, from), []);
      assert.ok(
        (await server.metric("sluice_verdicts_total", { function: "evaluate-eviction", guard: "allowed" })) >= 8,
      );
      assert.equal((await evict(scene.api, "rehearsed", "rehearsed-zone-c-0")).code, 201);
      assert.ok((await writesSince(scene, from)).includes("patch leases"), "the real eviction is reserved");
    });
    assert.deepEqual(
      takings.map(({ pod }) => pod),
      ["rehearsed-zone-c-0"],
    );
  });

  test("a dry run is refused as the eviction would be, and does not change any object either", async () => {
    const options = { pods: 3, nodesPerZone: 1, zoneBudget: { maxUnavailable: 1 } };
    await play(stage.controlPlane, "rehearsal", options, async (scene) => {
      await guardEvictions(scene, stage.certificate);
      await stage.controlPlane.kubelet.breakPod("rehearsal", "rehearsal-zone-b-1");
      await scene.waitForGuard("zone-settling");
      const from = await auditedUntil(scene);
      const before = await revisions(scene);
      const [node = ""] = await scene.nodesOf("zone-a");
      const flags = ["--ignore-daemonsets", "--dry-run=server", "--timeout=4s"];
      const { code, stderr } = await runKubectl(stage.controlPlane, "drain", node, ...flags);
      assert.equal(code, 1);
      assert.match(stderr, /\(will retry after 5s\): admission webhook .+ 1 pod not ready in rehearsal-zone-b/);
      for (const way of ["in the body", "in the query"] as const) {
        const answer = await evict(scene.api, "rehearsal", "rehearsal-zone-b-0", way);
        assert.deepEqual(
          { ...answer, message: "" },
          { code: 429, message: "", causes: ["DisruptionBudget", "SluiceGuard"] },
        );
        assert.match(answer.message, /1 pod not ready in rehearsal-zone-b/);
      }
      assert.deepEqual(await revisions(scene), before);
      assert.deepEqual(await writesSince(scene, from), []);
      assert.equal(
        (await evict(scene.api, "rehearsal", "rehearsal-zone-b-1")).code,
        201,
        "the broken pod itself may go",
      );
      await waitForGroupReady(stage.controlPlane, scene.group);
    });
  });

  test("a PodDisruptionBudget that allows nothing, for ever or now, is named in the refusal, and nothing is reserved", async () => {
    const options = { pods: 3, maxUnavailable: 2, zoneBudget: { maxUnavailable: 2 } };
    const { takings } = await play(stage.controlPlane, "also-budgeted", options, async (scene) => {
      const server = await guardEvictions(scene, stage.certificate);
      const path = "/apis/policy/v1/namespaces/also-budgeted/poddisruptionbudgets";
      await scene.api.post(path, {
        apiVersion: "policy/v1",
        kind: "PodDisruptionBudget",
        metadata: { name: "none" },
        spec: { maxUnavailable: 0, selector: { matchLabels: { "rollout-group": "also-budgeted" } } },
      });
      const pod = "also-budgeted-zone-a-0";
      await eventually("its controller's word known to Sluice", 10_000, async () => {
        const { message } = await evict(scene.api, "also-budgeted", pod, "in the body");
        return message.includes("never lets one be evicted") ? true : undefined;
      });
      const { status } = await scene.api.get<{ status: { disruptionsAllowed: number } }>(`${path}/none`);
      assert.equal(status.disruptionsAllowed, 0);
      const from = await quiet(scene);
      const before = await scene.api.get<Named>(scene.ledgerPath);
      const startedMs = performance.now();
      const { code, message, causes } = await evict(scene.api, "also-budgeted", pod);
      assert.ok(performance.now() - startedMs < 1_000);
      assert.deepEqual({ code, causes }, { code: 429, causes: ["DisruptionBudget"] });
      const denied = (text: string) =>
        `admission webhook "${webhookName("also-budgeted")}" denied the request: ${text}`;
      const never = "PodDisruptionBudget none wants 9 of its 9 pods healthy, so it never lets one be evicted";
      assert.ok(message.startsWith(denied(`${pod} stays: ${never}: `)), message);
      const labels = { function: "evaluate-eviction", guard: "never-possible" };
      assert.ok((await server.metric("sluice_verdicts_total", labels)) > 0);
      assert.deepEqual(await scene.api.get<Named>(scene.ledgerPath), before);
      assert.ok(!(await writesSince(scene, from)).includes("patch leases"));
      await scene.api.patch(`${path}/none`, { spec: { maxUnavailable: 1 } });
      await eventually("the pod evicted", 10_000, async () =>
        (await evict(scene.api, "also-budgeted", pod)).code === 201 ? true : undefined,
      );
      const second = "also-budgeted-zone-a-1";
      const now = `pod ${second} could go within its zone's budget, but PodDisruptionBudget none allows no disruption now`;
      await eventually("the other pod refused for now", 10_000, async () => {
        const { code: refused, message: because } = await evict(scene.api, "also-budgeted", second, "in the body");
        return refused === 429 && because === denied(now) ? true : undefined;
      });
    });
    assert.equal(takings.length, 1);
  });

  test("a rollout and a storm of evictions share one budget, and both end", async (context) => {
    const options = { pods: 8, maxUnavailable: 2, zoneBudget: { maxUnavailable: 2 } };
    const { takings } = await play(stage.controlPlane, "stormy", options, async (scene) => {
      await guardEvictions(scene, stage.certificate);
      const pods = (await groupPods(stage.controlPlane, scene.group)).map(({ metadata }) => metadata.name);
      const startedMs = performance.now();
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      await scene.waitForTakings(3);
      const { asked } = await storm(scene, pods, 32);
      context.diagnostic(
        `evicted after ${((performance.now() - startedMs) / 1_000).toFixed(1)} s, asked ${asked} times`,
      );
      await scene.waitForRollout("app:2");
      context.diagnostic(`rolled out after ${((performance.now() - startedMs) / 1_000).toFixed(1)} s`);
    });
    const evicted = takings.filter((taking) => taking.evicted);
    context.diagnostic(`${evicted.length} pods evicted, ${takings.length - evicted.length} replaced by the rollout`);
    assert.ok(evicted.length >= 3 && takings.length - evicted.length >= 3, "both took part");
  });

  test("the function alone, with its declared rights, allows and refuses evictions", async () => {
    const { takings } = await play(
      stage.controlPlane,
      "entitled",
      { zoneBudget: { maxUnavailable: 1 } },
      async (scene) => {
        const account = { namespace: "entitled", name: "sluice" };
        const kubeconfig = await createUser(stage.controlPlane, scene.api, account.namespace, account.name);
        await grant(scene.api, "entitled", account, evaluateEviction.needs);
        // A process that only reviews creates a ledger when it needs one; ahead of need another function does.
        await scene.serve({ FUNCTION: keepLedgers.name });
        // With EVICTION_WAIT=0 the webhook refuses at once instead of waiting, so that there is a refusal to report.
        const settings = { FUNCTION: evaluateEviction.name, EVICTION_WAIT: "0" };
        const server = await guardEvictions(scene, stage.certificate, { settings, kubeconfig });
        assert.equal((await evict(scene.api, "entitled", "entitled-zone-a-0")).code, 201);
        assert.equal((await evict(scene.api, "entitled", "entitled-zone-b-0")).code, 429);
        await waitForGroupReady(stage.controlPlane, scene.group);
        await storm(scene, ["entitled-zone-b-0"], 1);
        await scene.waitForEvent("EvictionRefused");
        assert.deepEqual(refusalsIn(await scene.requests()), []);
        assert.deepEqual(complaintsIn(server.log), []);
      },
    );
    assert.equal(takings.length, 2);
  });
});
