/** Process groups of a FoundationDBCluster are blocked, suspended and recovered on a real control plane, zone by zone. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { follow } from "../controlplane/follow.ts";
import { runKubectl } from "../support/drain.ts";
import type { ClusterObject } from "../support/foundationdb.ts";
import { Plugin } from "../support/plugin.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { FoundationOperator } from "./foundationdb-operator.ts";
import { SuspensionWitness } from "./suspension-witness.ts";

interface Seen {
  readonly metadata: Metadata;
}

const namespace = "foundation";
const core = `/api/v1/namespaces/${namespace}`;
const clusters = `/apis/apps.foundationdb.org/v1beta2/namespaces/${namespace}/foundationdbclusters`;
const name = "orders";
const zones = ["zone-a", "zone-b", "zone-c"];
const ids: ReadonlyMap<string, string> = new Map(
  zones.flatMap((zone) => [1, 2, 3].map((number) => [`${zone}-storage-${number}`, zone] as const)),
);
const leaving = [...ids.keys()].filter((id) => !id.endsWith("-1"));
const back = "zone-b-storage-3";
const usersOwn = "zone-c-storage-1";
const durationMs = 8_000;
/** A stamp and the age of it are by the API server's clock, as its `Date` header reports it. */
const clockMs = 1_500;

describe("FoundationDB's process groups on a real control plane", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let server: Server;
  let witness: SuspensionWitness;
  let operator: FoundationOperator;
  let other: FoundationOperator | undefined;
  let plugin: Plugin;
  const stopping = new AbortController();
  /** Every list of blocks, in order. */
  const lists: (readonly string[])[] = [];
  let following: Promise<void> | undefined;

  before(async () => {
    controlPlane = await startControlPlane();
    plugin = await Plugin.build(controlPlane);
    for (const folder of ["../../knative/base/crds", "../fixtures/crds"])
      await runKubectl(controlPlane, "apply", "-k", join(import.meta.dirname, folder));
    await runKubectl(controlPlane, "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
    api = await Api.open(controlPlane, { userAgent: "sluice-test-foundationdb" });
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    await eventually("the kind served", 30_000, () => api.get<object>(clusters).catch(() => undefined));
    operator = await FoundationOperator.start(api, {
      namespace,
      name,
      ids,
      annotations: { "sluice.dev/suspend-duration": `${durationMs / 1000}s`, "sluice.dev/wait-between-removals": "1s" },
      spec: {
        buggify: { blockRemoval: [usersOwn] },
        automationOptions: { waitBetweenRemovalsSeconds: 0 },
      },
    });
    witness = await SuspensionWitness.start(controlPlane, namespace);
    const seen = ({ spec }: ClusterObject & Seen) => {
      const list = spec?.buggify?.blockRemoval ?? [];
      if (JSON.stringify(list) !== JSON.stringify(lists.at(-1))) lists.push(list);
    };
    const options = { path: clusters, known: new Map<string, true>(), seen, gone: () => {} };
    following = (await follow<ClusterObject & Seen>(api, options, stopping.signal)).ended;
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace });
  });

  after(async () => {
    stopping.abort();
    await operator?.stop();
    await other?.stop();
    await plugin?.remove();
    await witness?.stop();
    await server?.kill();
    await api?.close();
    await following;
    await controlPlane?.stop();
  });

  const readClaim = (id: string) =>
    api.get<Seen>(`${core}/persistentvolumeclaims/${name}-${id}-data`).catch(() => undefined);
  const annotationOf = async (id: string, key: string) =>
    (await readClaim(id))?.metadata.annotations?.[`sluice.dev/${key}`];
  const sluice = (line: string) => plugin.sluice(`${line} -n ${namespace}`);
  const groupOf = async (id: string) =>
    (await operator.read()).status?.processGroups?.find(({ processGroupID }) => processGroupID === id);

  test("every volume claim gets its owner and its zone without a request", async () => {
    for (const [id, zone] of ids)
      await eventually(`the zone of ${id}`, 30_000, async () =>
        (await annotationOf(id, "zone")) === zone ? true : undefined,
      );
    assert.equal(await annotationOf(back, "owner"), `FoundationDBCluster.apps.foundationdb.org/${name}`);
  });

  test("six process groups go zone by zone, each volume after its time; a user's own block stays; one is recovered as a whole", async (context) => {
    await operator.change({ spec: { processGroupsToRemove: [...leaving, usersOwn] } });
    const suspended = await eventually(`${back} suspended`, 180_000, async () =>
      (await annotationOf(back, "suspend-state")) === "Suspended" ? readClaim(back) : undefined,
    );
    const wanted = await sluice(`recover process-groups ${name} ${back}`);
    assert.equal(wanted.code, 0, wanted.stderr);
    await eventually("it is back with the same volume, and nothing of ours on it", 90_000, async () => {
      const claim = await readClaim(back);
      const isOver = ["suspend", "suspend-state", "recover"].every(
        (key) => claim?.metadata.annotations?.[`sluice.dev/${key}`] === undefined,
      );
      return isOver && claim?.metadata.uid === suspended.metadata.uid ? true : undefined;
    });
    const group = await groupOf(back);
    assert.ok(group, "the operator knows it");
    for (const field of ["removalTimestamp", "exclusionTimestamp", "exclusionSkipped"] as const)
      assert.equal(group[field], undefined, field);
    assert.ok(!group.processGroupConditions?.some(({ type }) => type === "ResourcesTerminating"));
    await eventually("all others gone, and only the user's block left", 240_000, async () => {
      const { spec, metadata } = await operator.read();
      const isOver = spec?.buggify?.blockRemoval?.join() === usersOwn;
      return isOver && metadata.annotations?.["sluice.dev/held-process-groups"] === undefined ? true : undefined;
    });
    const { spec } = await operator.read();
    assert.ok(!spec?.processGroupsToRemove?.includes(back), "the spec does not ask for its removal");
    const others = leaving.filter((id) => id !== back);
    await eventually("the operator has removed the others", 30_000, async () =>
      operator.included.toSorted().join() === others.join() ? true : undefined,
    );
    assert.deepEqual(operator.deletedClaims, [], "the operator finds no volume that it could delete");
    assert.deepEqual(witness.together, [], "one zone goes at a time");
    assert.ok(
      lists.every((list) => list.includes(usersOwn)),
      "the user's block stands all the time",
    );
    const kept = witness.pods.filter(({ name: pod }) => pod === `${name}-${usersOwn}`);
    assert.deepEqual(
      kept.map(({ takenMs }) => takenMs),
      [undefined],
      "its pod stays",
    );
    const least = Math.min(...witness.ages.values());
    assert.equal(witness.ages.size, others.length);
    assert.ok(least >= durationMs - clockMs, `a volume claim was deleted ${least} ms after its pod was gone`);
    const lifted = liftedIn(lists).filter((id) => id !== back);
    const order = lifted.map((id) => ids.get(id)).filter((zone, index, all) => zone !== all[index - 1]);
    assert.equal(new Set(order).size, order.length, `lifted zone by zone: ${lifted.join(", ")}`);
    context.diagnostic(
      `lifted in the order ${lifted.join(", ")}; the first volume claim went ${(least / 1000).toFixed(1)} s after its pod`,
    );
  });

  test("after a recovery an Event asks the user to have the database include the process group again", async () => {
    const { items } = await api.get<{ items: { reason: string; message: string }[] }>(`${core}/events`);
    const [event] = items.filter(({ reason }) => reason === "ProcessGroupRecovered");
    assert.match(event?.message ?? "", new RegExp(`include locality_instance_id:${back}'`));
  });

  test("an operator or a user who is faster than our block takes no protected volume before its time; without the option the rest goes", async (context) => {
    const [first, second, third] = ["zone-a-log-1", "zone-b-log-1", "zone-c-log-1"] as const;
    const faster = await FoundationOperator.start(api, {
      namespace,
      name: "payments",
      ids: new Map([first, second, third].map((id) => [id, id.slice(0, 6)])),
      annotations: {
        "sluice.dev/suspend-duration": `${durationMs / 1000}s`,
        "sluice.dev/wait-between-removals": "1s",
        "sluice.dev/protect-volumes": "true",
      },
      spec: { automationOptions: { waitBetweenRemovalsSeconds: 0 } },
    });
    other = faster;
    const claimOf = (id: string) => `${core}/persistentvolumeclaims/payments-${id}-data`;
    const read = async (id: string) => (await api.get<Seen>(claimOf(id)).catch(() => undefined))?.metadata;
    const isProtected = async (id: string) => (await read(id))?.finalizers?.includes("sluice.dev/volume-protection");
    for (const id of [first, second, third])
      await eventually(`${id} protected`, 30_000, async () => ((await isProtected(id)) ? true : undefined));
    // The operator deletes the first claim at once. A user deletes the second, whose process group is removed only later.
    await faster.change({ spec: { processGroupsToRemoveWithoutExclusion: [first] } });
    await api.delete(claimOf(second));
    const waitingFor = (id: string, guard: string) =>
      eventually(`${id} says ${guard}`, 30_000, async () => {
        const { items } = await api.get<{ items: { message: string }[] }>(`${core}/events`);
        return items.some(({ message }) => message.startsWith(`${guard}: `) && message.includes(id)) ? true : undefined;
      });
    await Promise.all([waitingFor(first, "removal-begun"), waitingFor(second, "claim-deleted")]);
    assert.deepEqual(faster.deletedClaims, [first]);
    await faster.change({ spec: { processGroupsToRemove: [second] } });
    await eventually("both removed whole", 120_000, async () => (faster.included.length === 2 ? true : undefined));
    const keptMs = [first, second].map((id) => {
      const claim = witness.claims.find(({ name: of }) => of === `payments-${id}-data`);
      const pods = witness.pods.filter(({ name: of }) => of === `payments-${id}`);
      const podGoneMs = Math.max(...pods.map(({ goneMs }) => goneMs ?? Number.POSITIVE_INFINITY));
      return (claim?.goneMs ?? Number.NaN) - podGoneMs;
    });
    for (const ms of keptMs) assert.ok(ms >= durationMs - clockMs, `a volume was lost ${ms} ms after its pod was gone`);
    assert.ok(await isProtected(third), "the others stay protected");
    await faster.change({ metadata: { annotations: { "sluice.dev/protect-volumes": "false" } } });
    await eventually("the last one free", 30_000, async () =>
      (await isProtected(third)) === false ? true : undefined,
    );
    assert.equal((await read(third))?.labels?.["sluice.dev/protected"], undefined);
    context.diagnostic(
      `the volumes went ${keptMs.map((ms) => (ms / 1000).toFixed(1)).join(" s and ")} s after their pods`,
    );
  });
});

/** Ids in the order in which they left the lists. */
function liftedIn(lists: readonly (readonly string[])[]): readonly string[] {
  return lists.flatMap((list, index) => lists[index - 1]?.filter((id) => !list.includes(id)) ?? []);
}
