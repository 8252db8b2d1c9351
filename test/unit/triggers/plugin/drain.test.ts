/** What kubectl sluice drain asks, and how it shows and counts the answers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError, type ObjectKey, type StatusCause } from "../../../../functions/shared/kubernetes/cluster.ts";
import { Harness, namespace, refused } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

const node = "drained";

function refusal(code: number, message: string, guard?: string): ClusterError {
  const causes: StatusCause[] = [{ reason: "DisruptionBudget", message }];
  if (guard !== undefined) causes.push({ reason: "SluiceGuard", message: guard });
  return new ClusterError({ code, reason: "Test", message, verb: "create", resource: "pods/eviction", causes });
}

/** A node with pods that no group has. */
class Stage {
  readonly harness = new Harness();
  readonly asked: string[] = [];
  /** Refusals by the names of pods. */
  readonly refusals: Record<string, ClusterError> = {};
  mostAtOnce = 0;

  constructor() {
    this.harness.world.store.create("nodes", "", { metadata: { name: node } });
  }

  add(name: string, metadata: object = {}, nodeName = node): void {
    const spec = { nodeName, containers: [{ name: "app", image: "app:1" }] };
    this.harness.world.store.create("pods", namespace, { metadata: { name, ...metadata }, spec });
  }

  run(line: string) {
    let now = 0;
    return sluice(this.harness, line, this.harness.cluster, {
      askEviction: async ({ name }: ObjectKey, uid: string) => {
        this.mostAtOnce = Math.max(this.mostAtOnce, ++now);
        this.asked.push(`${name} ${uid === this.harness.world.store.get("pods", { namespace, name }).metadata.uid}`);
        await Promise.resolve();
        now--;
        const error = this.refusals[name];
        if (error !== undefined) throw error;
      },
    });
  }
}

test("all pods of the node are asked about by their uid, and 0 says that each may go", async () => {
  const stage = new Stage();
  for (const name of ["x", "y"]) stage.add(name);
  stage.add("elsewhere", {}, "another");
  const { code, out, err } = await stage.run(`drain ${node}`);
  assert.deepEqual([code, err, stage.asked], [0, [], ["x true", "y true"]]);
  assert.equal(
    out,
    "POD   EVICTION  GUARD  WHY\ndb/x  allowed   -      -\ndb/y  allowed   -      -\n\ndrained: 2 allowed\n",
  );
  assert.deepEqual(writes(stage.harness), []);
});

test("a pod that waits has its guard and its message, without the name of the webhook, and 3 says that some wait", async () => {
  const stage = new Stage();
  for (const name of ["a", "b", "c"]) stage.add(name);
  stage.refusals.b = refusal(429, 'admission webhook "x.y" denied the request: 1 pod not ready', "zones-down");
  stage.refusals.c = refusal(429, "Cannot evict pod as it would violate the pod's disruption budget.");
  const { code, out } = await stage.run(`drain ${node}`);
  assert.equal(code, 3);
  assert.match(out, /^db\/b +waits +zones-down +1 pod not ready$/m);
  assert.match(out, /^db\/c +waits +- +Cannot evict pod as it would violate the pod's disruption budget\.$/m);
  assert.match(out, /\n\ndrained: 2 waits, 1 allowed\n$/);
});

test("another refusal, and a budget that allows it at no time, are never, and 1 says so, however many wait", async () => {
  const stage = new Stage();
  for (const name of ["a", "b", "c", "d"]) stage.add(name);
  stage.refusals.a = refusal(429, "not now", "zones-down");
  stage.refusals.b = refusal(429, "b stays: it allows 0", "never-possible");
  stage.refusals.c = refusal(400, "one zone", "too-few-zones");
  const { code, out } = await stage.run(`drain ${node}`);
  assert.equal(code, 1);
  assert.deepEqual(
    out
      .split("\n")
      .slice(1, 5)
      .map((line) => line.split(/ +/).slice(0, 3).join(" ")),
    ["db/b never never-possible", "db/c never too-few-zones", "db/a waits zones-down", "db/d allowed -"],
  );
});

test("pods of DaemonSets and of files on the node are counted and not asked about, and so is none that is gone meanwhile", async () => {
  const stage = new Stage();
  const owner = { apiVersion: "apps/v1", kind: "DaemonSet", name: "agent", uid: "u" };
  stage.add("agent", { ownerReferences: [{ ...owner, controller: true }] });
  stage.add("friend", { ownerReferences: [owner] });
  stage.add("static", { annotations: { "kubernetes.io/config.mirror": "hash" } });
  stage.add("gone");
  stage.add("replaced");
  stage.refusals.gone = refusal(404, "gone");
  stage.refusals.replaced = refusal(409, "another uid");
  const { code, out } = await stage.run(`drain ${node}`);
  assert.deepEqual([code, stage.asked], [0, ["friend true", "gone true", "replaced true"]]);
  assert.match(out, /\ndrained: 1 allowed, without 1 of DaemonSets and 1 of files on the node\n$/);
});

test("a node without pods to evict has code 0, and one that does not exist has code 1", async () => {
  const stage = new Stage();
  const empty = await stage.run(`drain ${node}`);
  assert.deepEqual([empty.code, empty.out], [0, "drained: no pod to evict\n"]);
  const name = "n".repeat(253);
  const { code, out, err } = await stage.run(`drain ${name}`);
  assert.deepEqual([code, out, err], [1, "", [`there is no Node ${name}`]]);
});

test("200 pods of no group are asked about, at most eight at once, and -n asks about those of one namespace", async () => {
  const stage = new Stage();
  for (let index = 0; index < 200; index++) stage.add(`pod-${index}`);
  const { code, out } = await stage.run(`drain ${node}`);
  assert.deepEqual([code, stage.asked.length, stage.mostAtOnce], [0, 200, 8]);
  assert.match(out, /\ndrained: 200 allowed\n$/);
  assert.equal((await stage.run(`drain ${node} -n other`)).out, "drained: no pod to evict\n");
});

test("a missing right to ask is shown at its pods with code 1; without one to read nodes their pods are asked about", async () => {
  const stage = new Stage();
  for (const name of ["a", "b"]) stage.add(name);
  stage.refusals.a = refusal(403, 'User "u" cannot create resource "pods/eviction" in API group ""');
  stage.harness.interfere = ({ verb, resource }) => {
    if (verb === "get" && resource === "nodes") throw refused(403, 'User "u" cannot get resource "nodes"');
  };
  const { code, out } = await stage.run(`drain ${node}`);
  assert.equal(code, 1);
  assert.match(out, /^db\/a +unknown +- +User "u" cannot create .+\ndb\/b +allowed /m);
  assert.match(out, /\ndrained: 1 unknown, 1 allowed\n$/);
});

test("an API server that is away ends the command, and control and direction characters of answers are shown as escapes", async () => {
  const stage = new Stage();
  stage.add("a");
  stage.refusals.a = refusal(429, "\u001b[31mred\u202e", "\u200bguard");
  assert.match((await stage.run(`drain ${node}`)).out, /^db\/a +waits +\\u200bguard +\\u001b\[31mred\\u202e$/m);
  stage.refusals.a = refusal(0, "away");
  assert.deepEqual(await stage.run(`drain ${node}`), {
    code: 1,
    out: "",
    err: ["the API server does not answer: away"],
  });
});
