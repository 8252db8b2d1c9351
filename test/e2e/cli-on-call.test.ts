/** The commands of kubectl sluice for a person on call: the real kubectl, a real API server, and a server of Sluice. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Api, eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import {
  changeTemplate,
  createGroup,
  deleteGroup,
  groupManifests,
  groupPods,
  waitForGroupReady,
} from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { guardEvictions } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { Plugin } from "../support/plugin.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";
import { kubectl } from "./kubectl.ts";

/** Rollouts in a row that a pipeline waits for. */
const applications = Number(process.env.APPLICATIONS ?? 4);

function isReady({ status }: Awaited<ReturnType<typeof groupPods>>[number]): boolean {
  return status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
}

describe("kubectl sluice for a person on call", { skip: await skipWithoutControlPlane() }, () => {
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

  test("pause keeps the changed pods of a zone from being replaced, and resume lets its rollout go on", async () => {
    await play(stage.controlPlane, "paused", { zones: 2, pods: 1 }, async (scene) => {
      await scene.waitForOldLedger(await scene.serve());
      const paused = await plugin.sluice("pause paused paused-zone-b -n paused");
      assert.deepEqual([paused.code, paused.stderr], [0, ""]);
      assert.match(paused.stdout, /^grafana\.com\/rollout-paused: true is written on StatefulSet paused-zone-b\. /);
      assert.match(paused.stdout, /kubectl sluice resume paused paused-zone-b -n paused lets the rollout go on\n$/);
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      const { zone } = await scene.waitForGuard("paused");
      assert.equal(zone, "paused-zone-b");
      assert.equal(scene.observer.takings.length, 1);
      assert.equal((await plugin.sluice("resume paused -n paused --dry-run")).code, 0);
      const resumed = await plugin.sluice("resume paused -n paused");
      assert.equal(resumed.stdout, "grafana.com/rollout-paused is taken off StatefulSet paused-zone-b\n");
      await waitForGroupReady(stage.controlPlane, scene.group, { updated: true });
      assert.equal((await plugin.sluice("pause paused other -n paused")).code, 1);
      assert.equal((await plugin.sluice("pause -n paused")).code, 2);
    });
  });

  test("apply and wait, one after the other and again, never ends before the last new pod is ready", async () => {
    const options = { zones: 2, pods: 2, podAnnotations: { [ANNOTATIONS.readyAfterMs]: "300" } };
    await play(stage.controlPlane, "waited", options, async (scene) => {
      await scene.waitForOldLedger(await scene.serve());
      for (let version = 2; version < 2 + applications; version++) {
        const image = `app:${version}`;
        const items = groupManifests({ ...options, name: "waited", namespace: "waited", image });
        const list = JSON.stringify({ apiVersion: "v1", kind: "List", items });
        await kubectl(stage.controlPlane, ["apply", "-f", "-"], list);
        const { code, stdout, stderr } = await plugin.sluice("wait waited -n waited --timeout 90s");
        const pods = await groupPods(stage.controlPlane, scene.group);
        assert.equal(code, 0, stderr);
        assert.match(stdout, /^waited is done: 4 of 4 pods ready at the wanted revision, after \d+ s\n$/);
        const ready = pods.filter((pod) => pod.spec.containers[0]?.image === image && isReady(pod));
        assert.deepEqual([pods.length, ready.length], [4, 4]);
      }
      const idle = await plugin.sluice("wait waited -n waited --for idle --timeout 60s");
      assert.equal(idle.code, 0, idle.stderr);
      assert.equal((await plugin.sluice("wait other -n waited")).code, 1);
      assert.equal((await plugin.sluice("wait waited -n waited --for ready")).code, 2);
    });
  });

  test("wait ends with 1 at its time-out and for a group that is deleted meanwhile, and with 3 where a person must act", async () => {
    const { controlPlane } = stage;
    const group = await createGroup(controlPlane, {
      name: "stuck",
      namespace: "stuck",
      zones: 1,
      pods: 1,
      image: "app:broken",
    });
    const now = await plugin.sluice("wait stuck -n stuck --timeout 0");
    assert.equal(now.code, 1);
    assert.match(now.stderr, /^(kubectl-sluice: .+\n)*kubectl-sluice: stuck is not done after 0 s: .+\n$/);
    const waiting = plugin.sluice("wait stuck -n stuck --timeout 3m");
    // Its server has recorded for an hour that this needs a person.
    const spec = { updateStrategy: { type: "OnDelete" }, template: { metadata: { labels: { changed: "true" } } } };
    const other = { updateStrategy: { type: "RollingUpdate" } };
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-on-call" });
    try {
      const path = "/apis/apps/v1/namespaces/stuck/statefulsets";
      const [manifest] = groupManifests({ name: "stuck", namespace: "stuck", zones: 2, pods: 0 }).slice(1);
      await api.post(path, { ...manifest, spec: { ...manifest?.spec, ...other } });
      await api.patch(`${path}/stuck-zone-a`, { spec });
      const at = Date.now() - 60_000;
      const verdict = {
        guard: "strategy-not-on-delete",
        zone: "stuck-zone-b",
        sentence: "",
        since: at - 3_600_000,
        at,
      };
      const annotations = {
        "sluice.dev/group": "stuck",
        "sluice.dev/settled-through": "1",
        "sluice.dev/reservations": "{}",
        "sluice.dev/verdicts": JSON.stringify({ "advance-zone-rollout": verdict }),
      };
      const metadata = { name: "sluice-stuck", labels: { "app.kubernetes.io/managed-by": "sluice" }, annotations };
      const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata };
      await api.post("/apis/coordination.k8s.io/v1/namespaces/stuck/leases", lease);
      const { code, stderr } = await waiting;
      assert.equal(code, 3, stderr);
      assert.match(
        stderr,
        /kubectl-sluice: stuck is not done, and needs a person: .+strategy-not-on-delete, for \d+ min: .+\n$/,
      );
      await api.delete(`${path}/stuck-zone-b`);
      const last = plugin.sluice("wait stuck -n stuck --timeout 3m");
      await deleteGroup(controlPlane, group);
      const gone = await last;
      assert.equal(gone.code, 1);
      assert.match(gone.stderr, /kubectl-sluice: (there is no group|stuck is gone)/);
    } finally {
      await api.close();
    }
  });

  test("drain says of each pod of a node how its eviction would be answered, changes no object and reserves nothing", async () => {
    const options = { zones: 2, pods: 2, nodesPerZone: 1, zoneBudget: { maxUnavailable: 1 } };
    await play(stage.controlPlane, "drained", options, async (scene) => {
      await guardEvictions(scene, stage.certificate);
      await scene.waitForGuard("done");
      const [node = ""] = await scene.nodesOf("zone-a");
      const mirror = { name: `static-${node}`, annotations: { "kubernetes.io/config.mirror": "hash" } };
      const container = { name: "static", image: "static:1" };
      await scene.api.post("/api/v1/namespaces/drained/pods", {
        ...{ apiVersion: "v1", kind: "Pod", metadata: mirror },
        spec: { nodeName: node, containers: [container] },
      });
      const leases = "/apis/coordination.k8s.io/v1/namespaces/drained/leases";
      const from = await auditPosition(stage.controlPlane.auditLog);
      const before = await scene.api.get<{ items: unknown[] }>(leases);
      const allowed = await plugin.sluice(`drain ${node}`);
      assert.deepEqual([allowed.code, allowed.stderr], [0, ""], allowed.stdout);
      assert.match(allowed.stdout, /^drained\/drained-zone-a-0 +allowed +- +-$/m);
      assert.ok(
        allowed.stdout.endsWith(`\n\n${node}: 2 allowed, without 1 of DaemonSets and 1 of files on the node\n`),
        allowed.stdout,
      );
      const after = await scene.api.get<{ items: unknown[] }>(leases);
      assert.deepEqual(after.items, before.items);
      const writes: string[] = [];
      for await (const { userAgent, verb, resource } of readAudit(stage.controlPlane.auditLog, { from }, () => {}))
        if (/^(kubectl-)?sluice\//.test(userAgent) && !["get", "list", "watch"].includes(verb))
          writes.push(`${userAgent.replace(/\/.*/, "")} ${verb} ${resource}`);
      assert.deepEqual([...new Set(writes)], ["kubectl-sluice create pods/eviction"]);

      await stage.controlPlane.kubelet.breakPod("drained", "drained-zone-b-1");
      await scene.waitForGuard("zone-settling");
      const waits = await plugin.sluice(`drain ${node} -n drained`);
      assert.equal(waits.code, 3, waits.stdout);
      assert.match(waits.stdout, /^drained\/drained-zone-a-0 +waits +zones-down +1 pod not ready in drained-zone-b/m);
      const path = "/apis/rollout-operator.grafana.com/v1/namespaces/drained/zoneawarepoddisruptionbudgets/drained";
      await scene.api.patch(path, { spec: { maxUnavailable: 0 } });
      const never = await eventually("a budget of 0 that Sluice has read", 30_000, async () => {
        const answer = await plugin.sluice(`drain ${node}`);
        return answer.code === 1 ? answer : undefined;
      });
      assert.match(never.stdout, /^drained\/drained-zone-a-0 +never +never-possible +max unavailable = 0/m);
      const missing = await plugin.sluice("drain no-such-node");
      assert.deepEqual([missing.code, missing.stderr], [1, "kubectl-sluice: there is no Node no-such-node\n"]);
      assert.equal((await plugin.sluice("drain")).code, 2);
    });
  });

  test("version shows the plugin, the real API server and a replica by its image, and warns of another minor version", async () => {
    const api = await Api.open(stage.controlPlane, { userAgent: "sluice-test-on-call" });
    try {
      await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "versions" } });
      await api.post("/api/v1/namespaces/versions/pods", {
        ...{ apiVersion: "v1", kind: "Pod" },
        metadata: { name: "sluice-1", labels: { "app.kubernetes.io/name": "sluice" } },
        spec: { containers: [{ name: "sluice", image: "registry.invalid/sluice:99.1.0" }] },
      });
    } finally {
      await api.close();
    }
    const { code, stdout, stderr } = await plugin.sluice("version");
    assert.deepEqual([code, stderr], [0, ""]);
    assert.match(stdout, /^Plugin: \d+\.\d+\.\d+\nAPI server: v1\.\d+\.\d+.*\n\nREPLICA /);
    assert.match(stdout, /^versions\/sluice-1 +99\.1\.0 +- +registry\.invalid\/sluice:99\.1\.0$/m);
    assert.match(stdout, /\nWARNING 1 replica has version 99\.1, and this plugin has \d+\.\d+: .+\n$/);
    assert.equal((await plugin.sluice("version now")).code, 2);
  });

  test("why -A and suspended -A show groups and volume claims of all namespaces", async () => {
    const { controlPlane } = stage;
    for (const namespace of ["first", "second"]) {
      const group = await createGroup(controlPlane, {
        name: "everywhere",
        namespace,
        zones: 1,
        pods: 1,
        volumes: ["data"],
      });
      await waitForGroupReady(controlPlane, group);
      const claim = "persistentvolumeclaim/data-everywhere-zone-a-0";
      await kubectl(controlPlane, ["annotate", "-n", namespace, claim, "sluice.dev/suspend=true"]);
    }
    const why = await plugin.sluice("why -A");
    assert.deepEqual([why.code, why.stderr], [0, ""]);
    assert.match(why.stdout, /^NAMESPACE +GROUP /);
    for (const namespace of ["first", "second"])
      assert.match(why.stdout, new RegExp(`^${namespace} +everywhere +1 +1/1 `, "m"));
    const one = await plugin.sluice("why everywhere -A");
    assert.equal(one.stdout.match(/^everywhere in namespace (first|second): 1 of 1 pods ready/gm)?.length, 2);
    const suspended = await plugin.sluice("suspended -A");
    assert.match(suspended.stdout, /^first +data-everywhere-zone-a-0 .+\nsecond +data-everywhere-zone-a-0 /m);
    assert.equal((await plugin.sluice("why -A -n first")).code, 2);
  });
});
