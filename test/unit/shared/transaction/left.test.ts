/** Which StatefulSets a ledger may mean that a view does not show, and which of their pods still count (rule R7). */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { GroupView } from "../../../../functions/shared/cache/cache.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { Ledger, Reservation } from "../../../../functions/shared/ledger/reservation.ts";
import { findLeft, readUnknownSets } from "../../../../functions/shared/transaction/claimed-objects.ts";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import {
  namespace,
  nowMs,
  pod,
  reservation,
  statefulSet,
  zoneBudget,
} from "../../functions/advance-zone-rollout/given.ts";

const orphan = (name: string, changes: Partial<Pod> = {}) => pod(name, { orphaned: true, ...changes });
const unready = { readySinceMs: undefined };

interface Given {
  readonly group?: string;
  readonly members?: readonly string[];
  readonly reservations?: readonly Reservation[];
  readonly workloads?: readonly StatefulSet[];
  /** The pods that StatefulSets have released, whatever their labels. */
  readonly orphans?: readonly Pod[];
}

function given({ group = "group", members, reservations = [], workloads = [], orphans = [] }: Given) {
  const asked: string[] = [];
  const cluster = {
    async get(_: string, { name }: { readonly name: string }) {
      asked.push(name);
      throw new ClusterError({ code: 404, reason: "NotFound", message: "", verb: "get", resource: "statefulsets" });
    },
  };
  const nameOf = ({ name }: Pod) => name.slice(0, name.lastIndexOf("-"));
  const cache = {
    orphans: async (at: string) => (at === namespace ? orphans : []),
    podsMadeFor: async (at: { readonly name: string }) => orphans.filter((one) => nameOf(one) === at.name),
  };
  const budgets = [zoneBudget("first", { selector: { matchLabels: { app: "first" } } }), zoneBudget("second", {})];
  const context = { cluster, cache } as unknown as Context;
  const ledger = { key: { namespace, group }, members, reservations } as unknown as Ledger;
  return { asked, context, ledger, view: { workloads, budgets } as unknown as GroupView };
}

describe("the StatefulSets that a view lacks", () => {
  async function unknown(changes: Given): Promise<readonly string[]> {
    const { asked, context, ledger, view } = given(changes);
    const found = await readUnknownSets(context, ledger, view);
    assert.deepEqual([...found.keys()], asked, "each is read once");
    return asked;
  }

  const reservations = [reservation("r-0"), reservation("r-1")];

  test("are those that reservations name or that the last decision counted, unless the view has them", async () => {
    const workloads = [statefulSet("seen")];
    assert.deepEqual(await unknown({ members: ["m", "seen"], reservations, workloads }), ["r", "m"]);
    assert.deepEqual(await unknown({ reservations }), ["r"]);
  });

  test("of the pods of an owner are those that reservations name", async () => {
    const orphans = [orphan("o-0")];
    assert.deepEqual(await unknown({ group: "owner:Deployment.apps/web", members: ["m"], reservations, orphans }), [
      "r",
    ]);
  });

  test("are also those that have released a pod with the group's label", async () => {
    const orphans = [
      orphan("o-0"),
      orphan("p-0", { labels: { "rollout-group": "another" } }),
      orphan("q-0", { labels: {} }),
    ];
    assert.deepEqual(await unknown({ orphans }), ["o"]);
  });

  test("of a budget are also those that have released a pod which this budget selects", async () => {
    const orphans = [orphan("o-0"), orphan("p-0", { labels: { app: "first" } }), orphan("q-0", { labels: {} })];
    assert.deepEqual(await unknown({ group: "budget:first", orphans }), ["p"]);
    assert.deepEqual(await unknown({ group: "budget:second", orphans }), ["o"]);
    assert.deepEqual(await unknown({ group: "budget:gone", orphans }), []);
  });

  test("of one StatefulSet are none by the labels of pods", async () => {
    const labels = [{ "rollout-group": "group" }, { "rollout-group": "first" }, { app: "first" }];
    const orphans = labels.map((some, index) => orphan(`o-${index}`, { labels: some }));
    assert.deepEqual(await unknown({ group: "statefulset:first", orphans }), []);
  });
});

describe("the pods of StatefulSets that are gone or being deleted", () => {
  async function left(
    changes: Given & { readonly open?: readonly Reservation[]; readonly unknown?: readonly string[] },
  ) {
    const { open = [], unknown = [] } = changes;
    const { context, ledger, view } = given(changes);
    const unknownSets = new Map(unknown.map((name) => [name, undefined]));
    const { standing, down, isOver } = await findLeft(context, ledger, view, { unknownSets, open, nowMs });
    return { standing, down: down.map(({ statefulSet: name, ordinal }) => `${name}-${ordinal}`), isOver };
  }

  const orphans = [orphan("a-0"), orphan("a-1", unready), orphan("a-2", unready)];

  test("stand, and are down where they are not ready and no open reservation names them", async () => {
    const open = [reservation("a-2")];
    assert.deepEqual(await left({ unknown: ["a"], members: ["a"], orphans, open }), {
      ...{ standing: ["a"], down: ["a-1"], isOver: false },
    });
    const fresh = [orphan("a-0", { readySinceMs: nowMs })];
    assert.deepEqual((await left({ unknown: ["a"], orphans: fresh })).down, [], "it is ready as soon as it says so");
  });

  test("a zone that the ledger counts is over once none stands", async () => {
    const isOver = async (members: readonly string[], unknown: readonly string[]) =>
      (await left({ unknown, members, orphans })).isOver;
    assert.equal(await isOver(["a", "b"], ["b"]), true);
    assert.equal(await isOver(["a", "b"], ["a", "b"]), true);
    assert.equal(await isOver(["a"], ["a"]), false);
    assert.equal(await isOver(["a"], ["b"]), false, "the ledger does not count it");
    assert.equal(await isOver([], []), false);
  });

  test("of one that is being deleted only those count that it has released", async () => {
    const own = pod("a-3", unready);
    const workloads = [statefulSet("a", { deleting: true, replicas: 0 })];
    assert.deepEqual((await left({ workloads, orphans: [...orphans, own] })).down, ["a-1", "a-2"]);
    assert.deepEqual((await left({ workloads: [statefulSet("a")], orphans })).down, []);
  });

  test("of an owner none is left", async () => {
    const group = "owner:Deployment.apps/web";
    const nothing = { standing: [], down: [], isOver: false };
    assert.deepEqual(await left({ group, unknown: ["a", "b"], members: ["a", "b"], orphans }), nothing);
  });
});
